//! Alerts and events: what is wrong stands in the header, on the overview and in the list in the
//! same words, leads to the page that mends it, and can be acknowledged.

use std::sync::Arc;

use alert::Facts;
use model::access::Role;
use model::event::{Occurrence, Severity, Topic};
use model::pool::status::PoolView;

use crate::rig::{Site, Who};

/// Returns facts of a pool that takes no changes any more.
fn suspended() -> Facts {
    let pool = PoolView {
        name: "tank".to_owned(),
        state: "SUSPENDED".to_owned(),
        status: Some("Its disks do not answer.".to_owned()),
        action: Some("Attach the disks <again>.".to_owned()),
        size: 1 << 30,
        available: 1 << 20,
        ..PoolView::default()
    };
    Facts {
        pools: Arc::new(vec![pool]),
        ..Facts::default()
    }
}

/// Serves a console of a daemon with one open alert.
fn with_an_alert() -> Site {
    let site = Site::with_one_of_each();
    site.plane.alerts.judge(&suspended());
    let open = site.plane.alerts.open();
    assert_eq!((open.len(), open[0].number), (1, 1), "{open:?}");
    site
}

const SENTENCE: &str = "pool-suspended of tank: Its disks do not answer.";

#[test]
fn header_overview_and_list_say_the_same() {
    let site = with_an_alert();
    let viewer = site.token(Role::Viewer);
    let overview = site.get("/", &viewer).body;
    assert!(overview.contains(SENTENCE), "{overview}");
    let list = site.get("/alerts", &viewer).body;
    for page in [&overview, &list] {
        for words in [
            "critical",
            "Its disks do not answer.",
            "Attach the disks &lt;again&gt;.",
            "href=\"/alerts/1\"",
            "href=\"/pools/tank\"",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(!page.contains("<again>"), "{page}");
    }
    let one = site.get("/alerts/1", &viewer).body;
    for words in [
        "pool-suspended of tank",
        "The pool takes no changes any more",
        "<code>sandstone pool clear tank</code>",
        "href=\"/events?q=tank\"",
    ] {
        assert!(one.contains(words), "{words}: {one}");
    }
    let gone = site.get("/alerts/99", &viewer);
    assert_eq!(gone.status, 404);
    assert!(gone.body.contains("There is no alert 99"), "{gone:?}");
}

#[test]
fn operators_say_that_they_know_and_take_it_back() {
    let site = with_an_alert();
    let viewer = site.token(Role::Viewer);
    let refused = site.post("/alerts/1/ack", &viewer, "");
    assert_eq!(refused.status, 403);
    let shown = site.get("/alerts", &viewer).body;
    assert!(shown.contains("needs the role operator"), "{shown}");

    let operator = site.token(Role::Operator);
    let done = site.post("/alerts/1/ack", &operator, "back=%2F");
    assert_eq!((done.status, done.header("location")), (303, Some("/")));
    let known = site.plane.alerts.open()[0].acknowledged.clone();
    assert!(known.expect("it is known").by.contains("t-operator"));
    // Nobody has to do anything now, and the header says whose matter it is.
    let overview = site.get("/", &operator).body;
    assert!(!overview.contains("<h2>What to do</h2>"), "{overview}");
    assert!(overview.contains("1 alert acknowledged"));

    let done = site.post("/alerts/1/unack", &operator, "back=%2F%2Fevil.example");
    assert_eq!((done.status, done.header("location")), (303, Some("/")));
    assert_eq!(site.plane.alerts.open()[0].acknowledged, None);
    let overview = site.get("/", &operator).body;
    assert!(overview.contains("<h2>What to do</h2>"), "{overview}");
    let gone = site.post("/alerts/99/ack", &operator, "");
    assert_eq!(gone.status, 404, "{gone:?}");
}

#[test]
fn a_machine_without_alerts_says_so() {
    let site = Site::with_one_of_each();
    let viewer = site.token(Role::Viewer);
    for (path, words) in [
        ("/alerts", "No alert is open."),
        ("/alerts?ended=yes", "No alert has ended yet."),
        ("/alerts", "No one is told."),
        ("/", "All is well: 1 unit in 0 sessions."),
    ] {
        let page = site.get(path, &viewer).body;
        assert!(page.contains(words), "{path}: {page}");
    }
}

fn tell(site: &Site, severity: Severity, topic: Topic, object: &str, text: &str) {
    let told = Occurrence::new(severity, topic, object, text);
    site.plane.journal.teller().tell(told);
}

#[test]
fn events_are_chosen_by_severity_time_and_words() {
    let site = Site::with_one_of_each();
    let viewer = site.token(Role::Viewer);
    tell(&site, Severity::Info, Topic::Daemon, "daemon", "it began");
    tell(
        &site,
        Severity::Error,
        Topic::Unit,
        "db",
        "it <b>stopped</b>",
    );
    tell(&site, Severity::Warning, Topic::Login, "iqn.a:b", "refused");
    let all = site.get("/events", &viewer).body;
    assert_eq!(all.matches("<tr data-id=\"e:").count(), 3, "{all}");
    let places: Vec<usize> = ["refused", "it &lt;b&gt;stopped&lt;/b&gt;", "it began"]
        .iter()
        .map(|words| all.find(*words).expect(words))
        .collect();
    assert!(places.is_sorted(), "the newest come first: {all}");
    for link in [
        "href=\"/units/db\"",
        "href=\"/maps?initiator=iqn.a:b#explain\"",
    ] {
        assert!(all.contains(link), "{link}: {all}");
    }
    let rows = |query: &str| {
        let page = site.get(&format!("/events?{query}"), &viewer).body;
        page.matches("<tr data-id=\"e:").count()
    };
    assert_eq!(rows("severity=warning"), 2);
    assert_eq!(rows("severity=error&since=1h"), 1);
    assert_eq!(rows("q=iqn.a"), 1);
    assert_eq!(rows("severity=critical"), 0);
    assert_eq!(rows("severity=nonsense&since=ever"), 3);
    let kept = site.get("/events?severity=error&q=db", &viewer).body;
    assert!(
        kept.contains("href=\"/events?severity=error&amp;q=db&amp;since=7d\""),
        "{kept}"
    );
    let json = site.get("/events?format=json&severity=error", &viewer).body;
    assert!(json.contains("\"severity\":\"error\""), "{json}");
}

#[test]
fn new_events_come_into_the_open_page() {
    let site = Site::with_one_of_each();
    let viewer = site.token(Role::Viewer);
    tell(&site, Severity::Info, Topic::Unit, "db", "first");
    let page = site.get("/events?severity=warning", &viewer).body;
    assert!(
        page.contains("data-stream=\"/v1/live?view=events&amp;severity=warning\""),
        "{page}"
    );
    let mut stream = site.watch("view=events&severity=warning&ids=e:0", &viewer);
    tell(&site, Severity::Error, Topic::Unit, "db", "second <i>");
    let rows = loop {
        let rows = stream.event("rows").expect("rows");
        if rows.contains("second") {
            break rows;
        }
    };
    assert!(!rows.contains("first"), "it is below the severity: {rows}");
    let rows: serde_json::Value = serde_json::from_str(&rows).expect("JSON");
    assert_eq!(rows["ids"], serde_json::json!(["e:0"]));
    let values = &rows["v"][0];
    assert_eq!(values[1]["class"], "bad");
    assert_eq!(values[3]["href"], "/units/db");
    assert_eq!(values[4], "second <i>");
    let still = site.get("/events?live=no", &viewer).body;
    assert!(!still.contains("data-stream"), "{still}");
    // A token with a folder sees neither events nor alerts.
    assert_eq!(site.get("/events", &Who::Nobody).status, 303);
}

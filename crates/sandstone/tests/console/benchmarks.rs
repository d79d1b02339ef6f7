//! Benchmarks from the page, against a real daemon with a real pool: they run, are watched,
//! stopped, compared and kept; and none overwrites what a user did not give up.

use std::fs;

use serde_json::Value;
use testing::wait;

use super::site::{Reply, Site, TARGET, Who};

/// Fields of a short benchmark that reads.
const SHORT: &str = "kind=block&block=4K&reads=100&random=100&time=100ms&rounds=2";

/// Asks the API.
fn ask(site: &Site, who: &Who, path: &str) -> Value {
    let reply = site.send("GET", path, who, &[], "");
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    serde_json::from_str(&reply.body).unwrap()
}

/// Confirms the start of a benchmark, and returns its page.
fn start(site: &Site, who: &Who, fields: &str) -> String {
    let reply = site.post("/bench/new", who, &format!("{fields}&confirmed=yes"));
    assert_eq!(reply.status, 303, "{fields}: {}", reply.body);
    reply.header("location").unwrap().to_owned()
}

/// Asks for the preview of a benchmark.
fn preview(site: &Site, who: &Who, fields: &str) -> Reply {
    site.post("/bench/new", who, fields)
}

/// Waits until a benchmark is over, and returns it.
fn ended(site: &Site, who: &Who, page: &str) -> Value {
    let path = page.replace("/bench/", "/v1/benchmarks/");
    let detail = || ask(site, who, &path);
    wait::until_seen("the benchmark is over", detail, |detail| {
        detail["benchmark"]["state"] != "running"
    })
}

/// A site with tokens of each role, a unit that a host uses, and one that no host may see.
struct Rig {
    site: Site,
    viewer: Who,
    operator: Who,
    admin: Who,
    _session: initiator::connection::Connection,
}

impl Rig {
    fn start() -> Self {
        let (site, session) = Site::with_one_of_each();
        site.done("lu create own --volume tank/pve/own");
        Self {
            viewer: site.token("v", "--role viewer"),
            operator: site.token("o", "--role operator"),
            admin: site.token("a", "--role admin"),
            site,
            _session: session,
        }
    }
}

#[test]
fn a_benchmark_is_run_watched_stopped_swept_compared_and_kept() {
    let mut rig = Rig::start();
    let (site, operator) = (&rig.site, &rig.operator);
    let empty = site.get("/bench", &rig.viewer);
    assert!(
        empty.body.contains("No benchmark was run yet"),
        "{}",
        empty.body
    );

    // A viewer looks on.
    assert_eq!(site.get("/bench/new", &rig.viewer).status, 403);
    let refused = site.post(
        "/bench/new",
        &rig.viewer,
        &format!("{SHORT}&unit=own&confirmed=yes"),
    );
    assert_eq!(refused.status, 403);

    // The preview says what it takes, and starts nothing.
    let shown = preview(site, operator, &format!("{SHORT}&unit=own"));
    for words in [
        "4K 100% read 100% random",
        "no, it only reads",
        "16M",
        "2, one after the other",
    ] {
        assert!(shown.body.contains(words), "{words}: {}", shown.body);
    }
    assert_eq!(ask(site, operator, "/v1/benchmarks"), serde_json::json!([]));

    let page = start(site, operator, &format!("{SHORT}&unit=own&comment=before"));
    assert_eq!(page, "/bench/1");
    let detail = ended(site, operator, &page);
    let row = &detail["rows"][0];
    assert_eq!(detail["benchmark"]["state"], "finished", "{detail}");
    assert!(
        row["iops"].as_f64().unwrap() > 0.0 && row["p99_ms"].is_number(),
        "{row}"
    );
    assert_eq!(
        (row["rounds"].as_u64(), row["errors"].as_u64()),
        (Some(2), Some(0)),
        "{row}"
    );
    let shown = site.get(&page, &rig.viewer);
    for words in [
        "finished",
        "4K 100% read 100% random",
        "before",
        "The whole path",
    ] {
        assert!(shown.body.contains(words), "{words}: {}", shown.body);
    }

    // One at a time, until it is stopped.
    let long = start(
        site,
        operator,
        "kind=block&unit=own&block=64K&reads=100&time=30m",
    );
    let busy = preview(site, operator, &format!("{SHORT}&unit=own"));
    assert_eq!(busy.status, 409, "{}", busy.body);
    assert!(
        busy.body.contains("Benchmark 2 runs on lu own"),
        "{}",
        busy.body
    );
    let shown = site.get(&long, &rig.viewer);
    assert!(
        shown.body.contains("data-id=\"b:2\"") && shown.body.contains("running"),
        "{}",
        shown.body
    );
    assert_eq!(site.post("/bench/2/stop", &rig.viewer, "").status, 403);
    assert_eq!(
        site.post("/bench/2/delete", operator, "confirmed=yes")
            .status,
        409
    );
    assert_eq!(site.post("/bench/2/stop", operator, "").status, 303);
    let stopped = ended(site, operator, &long);
    assert_eq!(stopped["benchmark"]["state"], "stopped", "{stopped}");
    assert_eq!(stopped["benchmark"]["reason"], "stopped by o", "{stopped}");

    // A sweep has its table and says which setting is best.
    let sweep = "kind=sweep&unit=own&blocks=4K,64K&depths=1,4&reads=100&time=100ms&rounds=2";
    let page = start(site, operator, sweep);
    let swept = ended(site, operator, &page);
    assert_eq!(
        swept["sweep"]["blocks"],
        serde_json::json!(["4K", "64K"]),
        "{swept}"
    );
    let shown = site.get(&page, &rig.viewer);
    for words in [
        "For 4K, ",
        "For 64K, ",
        "Most throughput: ",
        "table class=\"heat\"",
        "best ",
    ] {
        assert!(shown.body.contains(words), "{words}: {}", shown.body);
    }

    // Two of the same load are compared, with the noise.
    let page = start(site, operator, &format!("{SHORT}&unit=own&comment=after"));
    ended(site, operator, &page);
    let shown = site.get("/bench/compare?a=1&b=4", &rig.viewer);
    for words in [
        "Within the noise",
        "4K 100% read 100% random",
        "Second is",
        "p99 ms",
    ] {
        assert!(shown.body.contains(words), "{words}: {}", shown.body);
    }

    // The files are those that the command line reads.
    let results = site.get("/bench/1?format=results", &rig.viewer);
    let other = site.get("/bench/4?format=results", &rig.viewer);
    fs::write(site.folder.path().join("one.json"), &results.body).unwrap();
    fs::write(site.folder.path().join("four.json"), &other.body).unwrap();
    let told = site.done("bench compare one.json four.json");
    assert!(told.contains("4K 100% read 100% random"), "{told}");
    let report = site.get("/bench/1?format=report", &rig.viewer);
    assert!(
        report
            .header("content-disposition")
            .unwrap()
            .starts_with("attachment")
    );
    assert!(
        report.body.contains("benchmark 1 of lu own"),
        "{}",
        report.body
    );

    // A kill is told, and all that was measured is kept.
    start(
        site,
        operator,
        "kind=block&unit=own&block=4K&reads=100&time=30m",
    );
    rig.site.kill_and_start();
    let (site, operator) = (&rig.site, &rig.operator);
    let all = ask(site, operator, "/v1/benchmarks");
    let states: Vec<&str> = all
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["state"].as_str())
        .collect();
    assert_eq!(
        states,
        ["interrupted", "finished", "finished", "stopped", "finished"]
    );
    assert_eq!(
        ask(site, operator, "/v1/benchmarks/1")["rows"],
        detail["rows"]
    );
    assert_eq!(
        site.post("/bench/1/delete", operator, "confirmed=yes")
            .status,
        303
    );
    assert_eq!(site.get("/bench/1", operator).status, 404);
    let log = site.done("audit list");
    assert!(log.contains("/v1/benchmarks"), "{log}");
    let events = site.done("events");
    assert!(
        events.contains("benchmark 2 stopped: stopped by o"),
        "{events}"
    );
}

#[test]
fn nothing_is_overwritten_that_a_user_did_not_give_up() {
    let rig = Rig::start();
    let (site, operator, admin) = (&rig.site, &rig.operator, &rig.admin);
    let writes =
        |unit: &str| format!("kind=block&unit={unit}&block=4K&reads=0&time=100ms&rounds=1");
    let contents = |unit: &str| {
        let sums = ask(site, admin, &format!("/v1/lus/{unit}"));
        sums["status"]["allocated"].as_u64().unwrap()
    };

    // An empty unit that no host may see has nothing to lose.
    let shown = preview(site, operator, &writes("own"));
    assert!(
        shown
            .body
            .contains("all 16M of lu own, which holds no data"),
        "{}",
        shown.body
    );
    let page = start(site, operator, &writes("own"));
    let written = ended(site, operator, &page);
    assert!(
        written["rows"][0]["write_iops"].as_f64().unwrap() > 0.0,
        "{written}"
    );

    // Now it has data, and an operator may not destroy it.
    let shown = preview(site, operator, &writes("own"));
    assert!(
        shown.body.contains("needs the role admin"),
        "{}",
        shown.body
    );
    assert!(
        !shown.body.contains("Overwrite and start"),
        "{}",
        shown.body
    );
    let confirmed = |fields: &str| format!("{fields}&confirmed=yes");
    let named = format!("{}&overwrite=own", confirmed(&writes("own")));
    assert_eq!(site.post("/bench/new", operator, &named).status, 403);
    // An admin may, who types the name.
    let shown = preview(site, admin, &writes("own"));
    assert!(
        shown.body.contains("Type own to overwrite it"),
        "{}",
        shown.body
    );
    for name in ["", "&overwrite=", "&overwrite=yes", "&overwrite=OWN"] {
        let form = format!("{}{name}", confirmed(&writes("own")));
        let refused = site.post("/bench/new", admin, &form);
        assert_eq!(refused.status, 422, "{name}: {}", refused.body);
        let told = "This run writes, and would destroy the contents of lu own: 16M, with data of an unknown kind";
        assert!(refused.body.contains(told), "{name}: {}", refused.body);
    }
    let reply = site.post("/bench/new", admin, &named);
    assert_eq!(reply.status, 303, "{}", reply.body);
    ended(site, admin, reply.header("location").unwrap());

    // A unit that a host uses is never written, whatever is typed; it may be read.
    let before = contents("vmhouse");
    let used = format!("{}&overwrite=vmhouse", confirmed(&writes("vmhouse")));
    let refused = site.post("/bench/new", admin, &used);
    assert_eq!(refused.status, 409, "{}", refused.body);
    let told = "iqn.2026-01.io.sandstone:tester uses lu vmhouse";
    assert!(refused.body.contains(told), "{}", refused.body);
    assert_eq!(contents("vmhouse"), before);
    let page = start(site, operator, &format!("{SHORT}&unit=vmhouse"));
    ended(site, operator, &page);
    let shown = site.get(&page, &rig.viewer);
    let told = format!("sandstone bench run 'iscsi://{}/", site.portal);
    assert!(shown.body.contains(&told), "{}", shown.body);

    // A token of a folder starts and sees what is below it alone.
    let folder = site.token("pve", "--role admin --folder tank/pve --host everest");
    let list = ask(site, &folder, "/v1/benchmarks");
    let units: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["unit"].as_str())
        .collect();
    assert_eq!(units, ["own", "own"]);
    for path in [&page, "/bench/compare?a=1&b=3", "/bench/3?format=results"] {
        assert_eq!(site.get(path, &folder).status, 403, "{path}");
    }
    let foreign = preview(site, &folder, &confirmed(&format!("{SHORT}&unit=vmhouse")));
    assert_eq!(foreign.status, 403, "{}", foreign.body);
    let page = start(site, &folder, &format!("{SHORT}&unit=own"));
    assert_eq!(ended(site, &folder, &page)["benchmark"]["by"], "pve");

    // A benchmark that writes ends when a host begins to use the unit.
    let page = start(
        site,
        admin,
        "kind=block&unit=own&block=4K&reads=0&time=30m&overwrite=own",
    );
    site.done(&format!(
        "map add own --host everest --target {TARGET} --lun 1"
    ));
    let ended = ended(site, admin, &page);
    assert_eq!(ended["benchmark"]["state"], "stopped", "{ended}");
    let reason = ended["benchmark"]["reason"].as_str().unwrap();
    let told = "iqn.2026-01.io.sandstone:tester began to use lu own";
    assert_eq!(reason, told);

    // Each refusal says what to do.
    for (fields, status, told) in [
        (
            "kind=block&unit=none&block=4K",
            404,
            "logical unit none does not exist",
        ),
        (
            "kind=block&unit=own&block=100",
            400,
            "block is 100, which is out of bounds",
        ),
        ("kind=block&unit=own&block=big", 400, "is not a size"),
        (
            "kind=block&unit=own&block=1M&working_set=1K",
            400,
            "working set",
        ),
        (
            "kind=profile&unit=own&profile=none",
            400,
            "there is no profile",
        ),
        (
            "kind=sweep&unit=own&blocks=&depths=1",
            400,
            "The sweep has no block size",
        ),
    ] {
        let reply = preview(site, admin, fields);
        assert_eq!(reply.status, status, "{fields}: {}", reply.body);
        let body = reply.body.to_lowercase();
        assert!(
            body.contains(&told.to_lowercase()),
            "{fields}: {}",
            reply.body
        );
        assert!(
            reply.body.contains("What to do"),
            "{fields}: {}",
            reply.body
        );
    }
    site.done("lu offline own --yes");
    let offline = preview(site, admin, &format!("{SHORT}&unit=own"));
    assert!(
        offline.body.contains("Logical unit own is offline"),
        "{}",
        offline.body
    );
}

//! Pages: with nothing, with thousands of objects, and with hostile names.

use model::access::Role;

use crate::rig::Site;

const HOSTILE: &str = "iqn.2026-01.evil:\"><script>alert(1)</script><img src=x onerror=alert(2)>";

#[test]
fn names_of_others_are_only_text_on_every_page() {
    let site = Site::with_one_of_each();
    site.add_session(7, HOSTILE);
    let viewer = site.token(Role::Viewer);
    // The snapshot of the next second has the session.
    let mut stream = site.watch("view=sessions&ids=s:7", &viewer);
    while !stream.event("rows").expect("rows").contains("\"s:7\"") {}
    let query = "q=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let pages = [
        "/",
        "/sessions",
        "/sessions/7",
        "/maps",
        "/units/db",
        "/hosts",
        "/targets",
    ];
    for page in pages {
        for path in [
            page.to_owned(),
            format!("{page}?{query}&sort={query}&unit={query}&host=x"),
        ] {
            let reply = site.get(&path, &viewer);
            assert!(reply.status < 500, "{path}");
            assert!(
                !reply.body.contains("<script>alert"),
                "{path}: {}",
                reply.body
            );
            assert!(!reply.body.contains("<img"), "{path}: {}", reply.body);
        }
    }
    let listed = site.get("/sessions", &viewer);
    assert!(
        listed.body.contains("&lt;script&gt;alert(1)"),
        "{}",
        listed.body
    );
    let csv = site.get("/sessions?format=csv", &viewer);
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(
        csv.header("content-disposition")
            .expect("a name")
            .starts_with("attachment")
    );
}

#[test]
fn pages_of_an_empty_daemon_say_what_to_do_next() {
    let site = Site::empty();
    site.plane.access.demo_link().expect("a link");
    let admin = site.token(Role::Admin);
    for (path, words) in [
        ("/", "Nothing is served yet"),
        ("/alerts", "No alert is open"),
        ("/events", "<h1>Events</h1>"),
        ("/units", "No unit yet"),
        ("/bench", "No benchmark was run yet"),
        ("/bench/compare", "Two benchmarks that are over"),
        ("/sessions", "No host is logged in"),
        ("/hosts", "No host yet"),
        ("/targets", "No target yet"),
        ("/pools", "No pool yet"),
        ("/volumes", "No pool yet"),
        ("/maps", "Nothing to draw"),
        ("/initiator", "initiator login"),
        ("/certificate", "serves no console"),
        ("/access", "No user yet"),
        ("/audit", "<h1>Audit</h1>"),
        ("/config", "<h1>Configuration</h1>"),
    ] {
        let reply = site.get(path, &admin);
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.body.contains(words), "{path}: {}", reply.body);
    }
}

#[test]
fn a_list_of_thousands_is_a_window() {
    let site = Site::with_one_of_each();
    for tsih in 1..=2000 {
        site.add_session(tsih, &format!("iqn.1998-01.com.vmware:esx{tsih}"));
    }
    let viewer = site.token(Role::Viewer);
    let page = site.get("/sessions", &viewer);
    assert_eq!(page.body.matches("<tr data-id=").count(), 60);
    assert!(
        page.body.contains("1 to 60 of 2\u{202f}000"),
        "{}",
        page.body
    );
    let last = site.get("/sessions?sort=-initiator&q=esx1999", &viewer);
    assert_eq!(last.body.matches("<tr data-id=").count(), 1);
    let csv = site.get("/sessions?format=csv", &viewer);
    assert_eq!(csv.body.lines().count(), 2001);
    let packed = site.send(
        "GET",
        "/sessions",
        &viewer,
        &[("accept-encoding", "gzip")],
        "",
    );
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let length: usize = packed
        .header("content-length")
        .and_then(|it| it.parse().ok())
        .expect("a length");
    assert!(length < 20_000, "{length} bytes");
    let picture = site.get("/maps", &viewer);
    assert_eq!(picture.status, 200);
    assert!(
        picture.body.matches("rect class=\"box\"").count() < 80,
        "the picture stays readable"
    );
}

#[test]
fn the_unit_tells_what_to_type_on_each_client() {
    let site = Site::with_one_of_each();
    let page = site.get("/units/db", &site.token(Role::Viewer));
    for words in [
        "VMware ESXi",
        "iscsiadm -m discovery",
        "New-IscsiTargetPortal",
        "pvesm add iscsi",
    ] {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
}

#[test]
fn colours_are_chosen_without_scripts() {
    let site = Site::with_one_of_each();
    let viewer = site.token(Role::Viewer);
    let chosen = site.post("/theme", &viewer, "theme=dark&back=%2Funits");
    assert_eq!(chosen.header("location"), Some("/units"));
    assert!(
        chosen
            .header("set-cookie")
            .expect("a cookie")
            .starts_with("__Host-theme=dark;")
    );
    let headers = [("cookie", "__Host-theme=dark")];
    let page = site.send("GET", "/units", &viewer, &headers, "");
    assert!(page.body.contains("data-theme=\"dark\""), "{}", page.body);
}

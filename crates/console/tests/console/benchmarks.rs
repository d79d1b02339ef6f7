//! Pages of benchmarks: forms that are wrong keep what was filled in, texts of users are only
//! texts, and the stream tells of the one under way.

use model::access::Role;
use testing::wait;

use crate::rig::{Reply, Site, Who};

/// A comment that a page must show as text.
const HOSTILE: &str = "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E";

fn start(site: &Site, who: &Who, fields: &str) -> Reply {
    site.post(
        "/bench/new",
        who,
        &format!("unit=db&{fields}&confirmed=yes"),
    )
}

/// Waits until no benchmark runs.
fn until_idle(site: &Site) {
    wait::until_ok("no benchmark runs", || site.plane.benchmarks.require_idle());
}

#[test]
fn a_form_that_is_wrong_comes_back_with_the_reason_and_what_was_filled_in() {
    let site = Site::with_one_of_each();
    let operator = site.token(Role::Operator);
    let reply = start(
        &site,
        &operator,
        "kind=block&block=big&rounds=7&comment=kept",
    );
    assert_eq!(reply.status, 400);
    for words in [
        "is not a size",
        "What to do",
        "value=\"7\"",
        "value=\"kept\"",
        "value=\"db\"",
    ] {
        assert!(reply.body.contains(words), "{words}: {}", reply.body);
    }
    // Links to the other kinds keep it too.
    assert!(reply.body.contains("kind=sweep"), "{}", reply.body);
    for (kind, words) in [
        ("", "Block size"),
        ("profile", "vmktree"),
        ("sweep", "4K, 16K, 64K"),
    ] {
        let form = site.get(&format!("/bench/new?unit=db&kind={kind}"), &operator);
        assert_eq!(form.status, 200);
        assert!(form.body.contains(words), "{words}: {}", form.body);
        assert!(form.body.contains("value=\"db\""), "{}", form.body);
    }
}

#[test]
fn a_benchmark_that_writes_says_what_it_takes_before_it_does() {
    let site = Site::with_one_of_each();
    let fields = "unit=db&kind=block&block=4K&reads=50&time=100ms&rounds=1";
    let shown = site.post("/bench/new", &site.token(Role::Admin), fields);
    // The unit is mapped, so the next host would find other data.
    for words in [
        "It overwrites all 1M of lu db",
        "mapped to esx",
        "Type db to overwrite it",
    ] {
        assert!(shown.body.contains(words), "{words}: {}", shown.body);
    }
    site.add_session(7, "iqn.1998-01.com.vmware:esx1");
    let refused = site.post("/bench/new", &site.token(Role::Admin), fields);
    assert_eq!(refused.status, 409);
    let told = "iqn.1998-01.com.vmware:esx1 uses lu db in session 7";
    assert!(refused.body.contains(told), "{}", refused.body);
    assert!(site.plane.benchmarks.list().is_empty());
}

#[test]
fn comments_are_only_text_and_files_have_names_of_ours() {
    let site = Site::with_one_of_each();
    let operator = site.token(Role::Operator);
    let fields = format!("kind=block&block=4K&time=100ms&rounds=1&comment={HOSTILE}");
    assert_eq!(start(&site, &operator, &fields).status, 303);
    until_idle(&site);
    assert_eq!(start(&site, &operator, &fields).status, 303);
    until_idle(&site);
    let preview = site.post("/bench/new", &operator, &format!("unit=db&{fields}"));
    for body in [
        preview.body,
        site.get("/bench", &operator).body,
        site.get("/bench/1", &operator).body,
        site.get("/bench/compare?a=1&b=2", &operator).body,
    ] {
        assert!(!body.contains("<script>alert"), "{body}");
        assert!(body.contains("&lt;script&gt;"), "{body}");
    }
    for (file, kind) in [
        ("report", "text/html; charset=utf-8"),
        ("results", "application/json"),
    ] {
        let reply = site.get(&format!("/bench/1?format={file}"), &operator);
        assert_eq!(reply.header("content-type"), Some(kind));
        let kept = reply.header("content-disposition").expect("a name");
        assert!(
            kept.starts_with("attachment; filename=\"benchmark-1."),
            "{kept}"
        );
        assert!(!reply.body.contains("<script>alert"), "{}", reply.body);
    }
    assert_eq!(site.get("/bench/1?format=x", &operator).status, 400);
    let csv = site.get("/bench/1?format=csv", &operator);
    assert!(csv.body.starts_with("Workload,IOPS,"), "{}", csv.body);
    assert!(
        site.get("/bench/compare", &operator)
            .body
            .contains("Compare with")
    );
}

#[test]
fn the_stream_tells_of_a_benchmark_until_it_is_over() {
    let site = Site::with_one_of_each();
    let operator = site.token(Role::Operator);
    assert_eq!(
        start(&site, &operator, "kind=block&block=4K&time=30m").status,
        303
    );
    let page = site.get("/bench/1", &operator);
    assert!(page.body.contains("data-id=\"b:1\""), "{}", page.body);
    assert!(page.body.contains("benchmark=1"), "{}", page.body);
    assert_eq!(page.body.matches("data-seconds=\"300\"").count(), 2);
    let viewer = site.token(Role::Viewer);
    let mut stream = site.watch("view=page&ids=b:1%0Ab:9&benchmark=1", &viewer);
    // The charts grow as soon as something is measured.
    let mut point = stream.event("points").expect("points");
    while !point.ends_with("]]}") || point.contains("null") || point.contains("[]") {
        point = stream.event("points").expect("points");
    }
    let mut told = || loop {
        let rows = stream.event("rows").expect("rows");
        if rows.contains("b:1") {
            return rows;
        }
    };
    let rows = told();
    assert!(
        rows.contains("● running") && !rows.contains("b:9"),
        "{rows}"
    );
    assert!(rows.contains("measurement 1 of 3"), "{rows}");
    assert_eq!(site.post("/bench/1/stop", &operator, "").status, 303);
    while !told().contains("\"href\":\"/bench/1\"") {}
    let page = site.get("/bench/1", &operator);
    assert!(page.body.contains("stopped by t-operator"), "{}", page.body);
    assert!(!page.body.contains("data-id=\"b:1\""), "{}", page.body);
}

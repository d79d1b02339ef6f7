//! CHAP secrets: typed twice, previewed, never shown, and noted without the secret.

use model::access::Role;

use crate::forms::hidden;
use crate::rig::{Reply, Site, Who};

const SECRET: &str = "correct horse battery";
const TARGET: &str = "iqn.2026-01.io.sandstone:one";

/// Types a secret, and types it again.
fn set(site: &Site, path: &str, who: &Who, fields: &str, secret: &str) -> Reply {
    let secret = secret.replace(' ', "+");
    let preview = site.post(path, who, &format!("{fields}&user=ann&secret={secret}"));
    assert_eq!(preview.status, 200, "{preview:?}");
    assert!(preview.body.contains("What changes"), "{preview:?}");
    for words in ["correct horse", "unchanged"] {
        assert!(!preview.body.contains(words), "{words}: {preview:?}");
    }
    let form = format!(
        "{fields}&user=ann&secret={secret}&confirmed=yes&proof={}&effect={}",
        hidden(&preview, "proof"),
        hidden(&preview, "effect")
    );
    site.post(path, who, &form)
}

#[test]
fn a_secret_of_a_host_is_set_changed_and_removed() {
    let site = Site::with_one_of_each();
    let admin = site.token(Role::Admin);
    let chap = || {
        site.plane
            .transactions
            .config()
            .host("esx")
            .expect("a host")
            .chap
            .clone()
    };
    let done = set(&site, "/hosts/esx/chap", &admin, "x=1", SECRET);
    assert_eq!(
        (done.status, done.header("location")),
        (303, Some("/hosts/esx"))
    );
    assert_eq!(chap().expect("a secret").secret, SECRET);
    let page = site.get("/hosts/esx", &admin).body;
    assert!(
        page.contains("<code>ann</code>") && !page.contains(SECRET),
        "{page}"
    );
    let done = set(
        &site,
        "/hosts/esx/chap",
        &admin,
        "x=1",
        "another secret here",
    );
    assert_eq!(done.status, 303, "{done:?}");
    assert_eq!(chap().expect("a secret").secret, "another secret here");

    let preview = site.post("/hosts/esx/chap/remove", &admin, "");
    assert!(chap().is_some(), "nothing is changed yet");
    let form = format!("confirmed=yes&effect={}", hidden(&preview, "effect"));
    assert_eq!(
        site.post("/hosts/esx/chap/remove", &admin, &form).status,
        303
    );
    assert_eq!(chap(), None);

    let lines = site.plane.access.audit_lines(None, 50).expect("a log");
    let noted = format!("{lines:?}");
    assert!(noted.contains("/v1/hosts/esx/chap"), "{noted}");
    assert!(
        !noted.contains("horse") && !noted.contains("another secret"),
        "{noted}"
    );
}

#[test]
fn a_secret_that_differs_the_second_time_is_not_set() {
    let site = Site::with_one_of_each();
    let admin = site.token(Role::Admin);
    let form = "user=ann&secret=correct+horse+battery";
    let preview = site.post("/hosts/esx/chap", &admin, form);
    let (proof, effect) = (hidden(&preview, "proof"), hidden(&preview, "effect"));
    let again =
        format!("user=ann&secret=wrong+horse+battery&confirmed=yes&proof={proof}&effect={effect}");
    let refused = site.post("/hosts/esx/chap", &admin, &again);
    assert!(
        refused.body.contains("is not the one that was previewed"),
        "{refused:?}"
    );
    assert_eq!(
        hidden(&refused, "proof"),
        proof,
        "the first one still counts"
    );
    let host = site.plane.transactions.config();
    assert_eq!(host.host("esx").expect("a host").chap, None);
    let right = again.replace("wrong", "correct");
    assert_eq!(site.post("/hosts/esx/chap", &admin, &right).status, 303);
}

#[test]
fn a_refused_secret_keeps_the_user_and_says_what_was_wrong() {
    let site = Site::with_one_of_each();
    let admin = site.token(Role::Admin);
    let refused = site.post("/hosts/esx/chap", &admin, "user=ann&secret=brevity");
    assert_eq!(refused.status, 400, "{refused:?}");
    for words in [
        "12 to 255 bytes",
        "Not changed",
        "What to do",
        "value=\"ann\"",
    ] {
        assert!(refused.body.contains(words), "{words}: {refused:?}");
    }
    assert!(!refused.body.contains("brevity"), "{refused:?}");
    for role in [Role::Viewer, Role::Operator] {
        let who = site.token(role);
        assert_eq!(
            site.post("/hosts/esx/chap", &who, "user=a&secret=b").status,
            403
        );
        let page = site.get("/hosts/esx", &who).body;
        assert!(!page.contains("name=\"secret\""), "{page}");
    }
}

#[test]
fn targets_and_discovery_have_both_directions() {
    let site = Site::with_one_of_each();
    let admin = site.token(Role::Admin);
    let config = || site.plane.transactions.config();
    let of_target = format!("iqn={TARGET}");
    let done = set(&site, "/targets/chap", &admin, &of_target, SECRET);
    assert_eq!(done.status, 303, "{done:?}");
    let target = config().target(TARGET).expect("a target").clone();
    assert_eq!(target.mutual_chap.expect("a secret").secret, SECRET);
    let path = "/targets/discovery";
    assert_eq!(
        set(
            &site,
            path,
            &admin,
            "side=initiators",
            "one more correct horse"
        )
        .status,
        303
    );
    assert_eq!(
        set(
            &site,
            path,
            &admin,
            "side=machine",
            "a different correct horse"
        )
        .status,
        303
    );
    assert_eq!(
        config().discovery_chap.as_ref().expect("a secret").secret,
        "one more correct horse"
    );
    assert!(config().discovery_mutual_chap.is_some());
    let page = site.get("/targets", &admin).body;
    assert!(
        page.contains("as ann.") && !page.contains("horse"),
        "{page}"
    );
    for (path, form) in [
        ("/targets/chap/remove", of_target.as_str()),
        ("/targets/discovery/remove", "side=initiators"),
        ("/targets/discovery/remove", "side=machine"),
    ] {
        let preview = site.post(path, &admin, form);
        let form = format!("{form}&confirmed=yes&effect={}", hidden(&preview, "effect"));
        assert_eq!(site.post(path, &admin, &form).status, 303, "{path}");
    }
    let after = config();
    assert_eq!(after.target(TARGET).expect("a target").mutual_chap, None);
    assert_eq!(
        (&after.discovery_chap, &after.discovery_mutual_chap),
        (&None, &None)
    );
}

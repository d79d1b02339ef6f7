//! Forms that change something: a preview first, then exactly what was seen.

use model::access::Role;

use crate::rig::{Reply, Site};

/// Returns the value of a hidden field.
pub(crate) fn hidden(reply: &Reply, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let start = reply
        .body
        .find(&mark)
        .unwrap_or_else(|| panic!("{name}: {reply:?}"))
        + mark.len();
    reply.body[start..]
        .chars()
        .take_while(|it| *it != '"')
        .collect()
}

#[test]
fn a_change_is_previewed_and_then_made() {
    let site = Site::with_one_of_each();
    let admin = site.token(Role::Admin);
    let preview = site.post("/units/db/state", &admin, "offline=yes");
    assert_eq!(preview.status, 200);
    assert!(
        preview.body.contains("What changes") && preview.body.contains("lu db"),
        "{preview:?}"
    );
    let config = || site.plane.transactions.config();
    assert!(
        !config().unit("db").expect("a unit").offline,
        "nothing is changed yet"
    );
    let form = format!(
        "offline=yes&confirmed=yes&effect={}",
        hidden(&preview, "effect")
    );
    let done = site.post("/units/db/state", &admin, &form);
    assert_eq!(done.status, 303, "{done:?}");
    assert_eq!(done.header("location"), Some("/units/db"));
    assert!(
        done.header("set-cookie")
            .expect("a message")
            .contains("offline"),
        "{done:?}"
    );
    assert!(config().unit("db").expect("a unit").offline);
}

#[test]
fn what_is_not_what_was_seen_is_not_made() {
    let site = Site::with_one_of_each();
    let admin = site.token(Role::Admin);
    site.add_session(7, "iqn.1998-01.com.vmware:a");
    let preview = site.post("/units/db/delete", &admin, "cascade=yes");
    let effect = hidden(&preview, "effect");
    assert!(
        preview.body.contains("1 session ends or loses a LUN"),
        "{preview:?}"
    );
    site.add_session(8, "iqn.1998-01.com.vmware:b");
    let form = format!("cascade=yes&confirmed=yes&effect={effect}");
    let refused = site.post("/units/db/delete", &admin, &form);
    assert_eq!(refused.status, 412, "{refused:?}");
    assert!(site.plane.transactions.config().unit("db").is_some());
}

#[test]
fn a_session_ends_after_the_reader_has_seen_whose_it_is() {
    let site = Site::with_one_of_each();
    site.add_session(7, "iqn.1998-01.com.vmware:a");
    let operator = site.token(Role::Operator);
    let asked = site.post("/sessions/7/end", &operator, "");
    assert!(asked.body.contains("iqn.1998-01.com.vmware:a"), "{asked:?}");
    assert_eq!(site.shown.sessions.lock().unwrap().len(), 1);
    assert_eq!(
        site.post("/sessions/7/end", &operator, "confirmed=yes")
            .status,
        303
    );
    assert!(site.shown.sessions.lock().unwrap().is_empty());
}

#[test]
fn a_reader_sees_buttons_of_higher_roles_disabled() {
    let site = Site::with_one_of_each();
    let viewer = site.get("/units/db", &site.token(Role::Viewer));
    assert!(
        viewer.body.contains("title=\"needs the role admin\""),
        "{viewer:?}"
    );
    assert!(!viewer.body.contains("Change its options"), "{viewer:?}");
    let admin = site.get("/units/db", &site.token(Role::Admin));
    assert!(!admin.body.contains("needs the role"), "{admin:?}");
}

#[test]
fn an_explanation_has_the_button_that_mends_it() {
    let site = Site::with_one_of_each();
    site.add_unit("logs");
    let admin = site.token(Role::Admin);
    let page = site.get("/maps?initiator=iqn.1998-01.com.vmware:a&unit=logs", &admin);
    assert!(page.body.contains("Map logs to esx"), "{page:?}");
    let preview = site.post("/maps/add", &admin, "unit=logs&host=esx");
    let form = format!(
        "unit=logs&host=esx&confirmed=yes&effect={}",
        hidden(&preview, "effect")
    );
    assert_eq!(site.post("/maps/add", &admin, &form).status, 303);
    let page = site.get("/maps?initiator=iqn.1998-01.com.vmware:a&unit=logs", &admin);
    assert!(!page.body.contains("Map logs to esx"), "{page:?}");
}

#[test]
fn a_token_is_shown_once() {
    let site = Site::with_one_of_each();
    let admin = site.token(Role::Admin);
    let added = site.post("/access/tokens", &admin, "name=backup&role=viewer");
    assert_eq!(added.status, 200);
    assert!(added.body.contains("sst_"), "{added:?}");
    let list = site.get("/access", &admin);
    assert!(
        list.body.contains("backup") && !list.body.contains("sst_"),
        "{list:?}"
    );
}

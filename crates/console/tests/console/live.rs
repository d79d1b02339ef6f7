//! Streams of live figures: who gets one, what it carries, and when it ends.

use model::access::{AddUser, ModifyUser, Password, Role};

use crate::rig::{Site, Who};

#[test]
fn a_stream_shows_the_rows_of_its_window() {
    let site = Site::with_one_of_each();
    site.add_session(7, "iqn.1998-01.com.vmware:a");
    let viewer = site.token(Role::Viewer);
    let mut stream = site.watch("view=units&sort=-p99&offset=0&limit=60", &viewer);
    assert_eq!(stream.status, 200);
    let rows = stream.event("rows").expect("rows");
    assert!(rows.contains("\"ids\":["), "{rows}");
    let mut moved = 0;
    // A unit has figures as soon as a snapshot has it, and a rate once it moves.
    while moved == 0 {
        *site.shown.reads.lock().unwrap() += 1000;
        let rows = stream.event("rows").expect("rows");
        moved = rows.matches("0.001").count();
    }
    let state = site
        .watch("view=page", &viewer)
        .event("state")
        .expect("a state");
    assert!(
        state.contains("\"health\":") && state.contains("\"generation\":"),
        "{state}"
    );
    let mut overview = site.watch("view=overview", &viewer);
    let points = overview.event("points").expect("points");
    assert!(points.starts_with("{\"t\":["), "{points}");
}

#[test]
fn a_stream_needs_a_reader_and_a_view() {
    let site = Site::with_one_of_each();
    assert_eq!(site.watch("view=units", &Who::Nobody).status, 401);
    let viewer = site.token(Role::Viewer);
    assert_eq!(site.watch("view=nonsense", &viewer).status, 400);
    let many = vec!["u:x"; 500].join("%0A");
    assert_eq!(
        site.watch(&format!("view=units&ids={many}"), &viewer)
            .status,
        400
    );
}

#[test]
fn a_viewer_too_many_is_told_so() {
    let site = Site::with_one_of_each();
    let viewer = site.token(Role::Viewer);
    let mut streams: Vec<_> = (0..64).map(|_| site.watch("view=units", &viewer)).collect();
    assert!(streams.iter().all(|stream| stream.status == 200));
    let surplus = site.get("/v1/live?view=units", &viewer);
    assert_eq!(surplus.status, 503);
    assert!(
        surplus.body.contains("64 pages show live figures already"),
        "{surplus:?}"
    );
    streams.pop();
    // The place is free once the server has noticed the end of the stream.
    while site.watch("view=units", &viewer).status != 200 {
        std::thread::yield_now();
    }
}

#[test]
fn a_stream_ends_with_its_login_its_role_and_the_daemon() {
    let site = Site::with_one_of_each();
    let password = Password("four words are long".to_owned());
    let request = AddUser {
        name: "ann".to_owned(),
        role: Role::Viewer,
        password,
    };
    site.plane.access.add_user(&request).expect("a user");
    let form = "name=ann&password=four+words+are+long";
    let login = |site: &Site| Who::Cookie(site.post("/login", &Who::Nobody, form).login());
    let ann = login(&site);
    let mut stream = site.watch("view=units", &ann);
    stream.event("rows").expect("rows");
    site.post("/logout", &ann, "");
    stream.ends();

    let mut stream = site.watch("view=units", &login(&site));
    stream.event("rows").expect("rows");
    let disable = ModifyUser {
        is_disabled: Some(true),
        ..ModifyUser::default()
    };
    site.plane
        .access
        .modify_user("ann", &disable)
        .expect("a change");
    stream.ends();

    let viewer = site.token(Role::Viewer);
    let mut stream = site.watch("view=units", &viewer);
    stream.event("rows").expect("rows");
    site.plane
        .access
        .remove_token("t-viewer")
        .expect("it was there");
    stream.ends();

    let mut stream = site.watch("view=units", &site.token(Role::Viewer));
    stream.event("rows").expect("rows");
    site.plane.snapshots.end_feeds();
    stream.ends();
}

//! Rules that hold for every route: roles, headers, and the origin of forms.

use console::{Known, known};
use model::access::Role;

use crate::rig::{Reply, Site, Who};

/// Returns the path of a route with a name in place of each argument.
fn path(route: &Known) -> String {
    let segments = route.path.split('/').map(|segment| match segment {
        "{tsih}" | "{login}" => "7",
        segment if segment.starts_with('{') => "x",
        segment => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}

fn ask(site: &Site, route: &Known, who: &Who) -> Reply {
    match route.method.as_str() {
        "POST" => site.post(&path(route), who, ""),
        _ => site.get(&path(route), who),
    }
}

#[test]
fn every_route_lets_in_the_roles_that_it_names() {
    let site = Site::with_one_of_each();
    let guarded = known()
        .into_iter()
        .filter_map(|route| Some((route.role?, route)));
    let mut count = 0;
    for (needed, route) in guarded {
        count += 1;
        let nobody = ask(&site, &route, &Who::Nobody);
        match route.method.as_str() {
            "POST" => assert_eq!(nobody.status, 401, "{route:?}"),
            _ => {
                assert_eq!(nobody.status, 303, "{route:?}");
                assert!(
                    nobody
                        .header("location")
                        .expect("a place")
                        .starts_with("/login")
                );
            }
        }
        for role in Role::ALL {
            let reply = ask(&site, &route, &site.token(role));
            match role >= needed {
                true => assert!(
                    ![401, 403].contains(&reply.status),
                    "{route:?} {role} {reply:?}"
                ),
                false => assert_eq!(reply.status, 403, "{route:?} {role}"),
            }
            assert!(reply.status < 500, "{route:?} {role} {reply:?}");
        }
    }
    assert!(count > 30, "{count} routes");
}

/// The document alone says who may do what: a route has no role of its own.
#[test]
fn every_route_has_the_role_that_the_document_gives_its_operation() {
    let document = control::handlers::openapi();
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths.values().filter_map(|it| it.as_object());
    let operations: Vec<_> = operations.flat_map(|it| it.values()).collect();
    for route in known() {
        let Some(id) = route.operation else {
            let open = [
                "/login",
                "/logout",
                "/first/{secret}",
                "/enter/{secret}",
                "/theme",
            ];
            assert!(open.contains(&route.path), "{route:?} is open to everybody");
            continue;
        };
        let operation = operations.iter().find(|it| it["operationId"] == id);
        let operation = operation.unwrap_or_else(|| panic!("{route:?} stands for nothing"));
        let role = route.role.map(|role| role.as_str());
        assert_eq!(operation["x-role"].as_str(), role, "{route:?}");
    }
}

#[test]
fn refused_attempts_are_in_the_audit_log() {
    let site = Site::with_one_of_each();
    site.post(
        "/units/db/delete",
        &site.token(Role::Viewer),
        "confirmed=yes",
    );
    let lines = site.plane.access.audit_lines(None, 10).expect("a log");
    let line = lines.first().expect("a line");
    assert!(line.result.starts_with("not-permitted"), "{line:?}");
    assert_eq!(line.who, "t-viewer");
    assert!(line.request.starts_with("DELETE "), "{line:?}");
}

fn assert_protected(reply: &Reply, what: &str) {
    let policy = reply.header("content-security-policy").expect("a policy");
    assert_eq!(
        policy,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        "{what}"
    );
    assert_eq!(
        reply.header("x-content-type-options"),
        Some("nosniff"),
        "{what}"
    );
    assert_eq!(
        reply.header("referrer-policy"),
        Some("same-origin"),
        "{what}"
    );
    assert_eq!(reply.header("x-frame-options"), Some("DENY"), "{what}");
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        assert_eq!(reply.header(name), Some("same-origin"), "{what}");
    }
    assert!(reply.header("cache-control").is_some(), "{what}");
}

#[test]
fn every_answer_has_the_headers() {
    let site = Site::with_one_of_each();
    let admin = site.token(Role::Admin);
    for route in known() {
        for who in [&Who::Nobody, &admin] {
            let reply = ask(&site, &route, who);
            assert_protected(&reply, &format!("{route:?}"));
            assert_eq!(reply.header("cache-control"), Some("no-store"), "{route:?}");
            assert!(!reply.body.contains(" style="), "{route:?}");
            assert!(
                !reply.body.contains("<script>") && !reply.body.contains(" onclick"),
                "{route:?}"
            );
        }
    }
    for path in [
        "/nothing/here",
        "/assets/console.0.js",
        "/v1/lus",
        "/v1/live",
    ] {
        assert_protected(&site.get(path, &Who::Nobody), path);
    }
}

#[test]
fn files_are_kept_for_ever_by_their_hashes() {
    let site = Site::with_one_of_each();
    let login = site.get("/login", &Who::Nobody);
    let start = login.body.find("/assets/console.").expect("a style sheet");
    let path: String = login.body[start..]
        .chars()
        .take_while(|it| *it != '"')
        .collect();
    let style = site.get(&path, &Who::Nobody);
    assert_eq!(style.status, 200);
    assert_eq!(
        style.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    assert_eq!(
        style.header("content-type"),
        Some("text/css; charset=utf-8")
    );
    assert_eq!(
        site.get("/assets/console.0000000000000000.css", &Who::Nobody)
            .status,
        404
    );
}

#[test]
fn a_missing_page_is_a_page_for_browsers_and_a_problem_for_programs() {
    let site = Site::with_one_of_each();
    let page = site.get("/nothing/here", &site.token(Role::Viewer));
    assert_eq!(page.status, 404);
    assert!(page.body.contains("<h1>Not found</h1>"), "{page:?}");
    let problem = site.send("GET", "/nothing/here", &Who::Nobody, &[], "");
    assert_eq!(problem.status, 404);
    assert!(
        problem.body.contains("\"kind\":\"not-found\""),
        "{problem:?}"
    );
}

#[test]
fn forms_come_from_pages_of_the_console() {
    let site = Site::with_one_of_each();
    let cookie = Who::Cookie("anything".to_owned());
    for who in [&Who::Nobody, &cookie] {
        for foreign in [
            vec![],
            vec![("sec-fetch-site", "cross-site")],
            vec![("sec-fetch-site", "same-site")],
            vec![("origin", "https://evil.example")],
            vec![("origin", "null")],
        ] {
            for path in [
                "/login",
                "/logout",
                "/theme",
                "/units/db/delete",
                "/first/x",
            ] {
                let reply = site.send("POST", path, who, &foreign, "name=a&password=b");
                assert!(
                    [401, 403].contains(&reply.status),
                    "{path} {foreign:?} {reply:?}"
                );
                assert_eq!(reply.header("set-cookie"), None, "{path}");
            }
        }
    }
}

#[test]
fn a_form_has_a_bound() {
    let site = Site::with_one_of_each();
    let large = format!("name={}", "a".repeat(70_000));
    let reply = site.post("/login", &Who::Nobody, &large);
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("64 KiB"), "{reply:?}");
}

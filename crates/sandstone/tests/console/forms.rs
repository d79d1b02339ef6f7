//! Every page and every form that can be reached, as every author: exactly what the role of its
//! operation says. The pages are found by following links, so that new ones are covered.

use model::access::Role;

use super::html::{Form, forms};
use super::site::{Reply, Site, Who, route};

/// Names that lie outside the folder of a foreign token.
const FOREIGN_NAMES: [&str; 6] = [
    "vmhouse",
    "tank/house",
    "everest",
    "monday",
    ":tester",
    "listed",
];

/// Authors of requests, each with its role.
struct Authors {
    admin: Who,
    /// Logins of users, from the lowest role to the highest.
    by_role: Vec<(Role, Who)>,
    /// Token with a folder in which nothing lies.
    foreign: Who,
}

impl Authors {
    fn of(site: &Site) -> Self {
        site.add_user("olga", Role::Operator);
        site.add_user("adam", Role::Admin);
        Self {
            admin: site.token("crawler", "--role admin"),
            by_role: vec![
                (Role::Viewer, site.log_in("ann")),
                (Role::Operator, site.log_in("olga")),
                (Role::Admin, site.log_in("adam")),
            ],
            foreign: site.token("foreign", "--role admin --folder tank/other --host none"),
        }
    }
}

/// Returns everything that an act of the console could change, as text.
fn state(site: &Site, admin: &Who) -> String {
    let lists = [
        "/v1/config",
        "/v1/volumes?properties=volsize,userrefs",
        "/v1/users",
        "/v1/logins",
        "/v1/socket-roles",
        "/v1/tokens",
    ];
    let each = lists.iter().map(|path| {
        let reply = site.send("GET", path, admin, &[], "");
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        let mut value: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        forget_times(&mut value);
        value.to_string()
    });
    each.collect::<Vec<_>>().join("\n")
}

/// Removes what changes by itself.
fn forget_times(value: &mut serde_json::Value) {
    const TIMES: [&str; 7] = [
        "last_used",
        "last_seen",
        "age_s",
        "in_flight",
        "available",
        "used",
        "referenced",
    ];
    match value {
        serde_json::Value::Object(fields) => {
            fields.retain(|name, _| !TIMES.contains(&name.as_str()));
            fields.values_mut().for_each(forget_times);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(forget_times),
        _ => {}
    }
}

#[test]
fn every_page_and_form_does_what_its_role_says_and_no_more() {
    let (site, _session) = Site::with_one_of_each();
    let authors = Authors::of(&site);
    let before = state(&site, &authors.admin);
    let pages = site.crawl(&authors.admin);
    pages_are_for_their_roles(&site, &authors, &pages);
    let forms = forms_of(&pages);
    let unchanged = |by: &str| assert_unchanged(&site, &authors.admin, &before, by);
    unchanged("a page");
    forms_refuse_lower_roles(&site, &authors, &forms);
    unchanged("a refused form");
    a_foreign_token_sees_and_changes_nothing(&site, &authors, &forms);
    unchanged("a foreign token");
    forms_come_from_pages_of_the_console_alone(&site, &authors, &forms);
    unchanged("another site");
}

/// Asserts that nothing was changed.
fn assert_unchanged(site: &Site, admin: &Who, before: &str, by: &str) {
    let after = state(site, admin);
    let differs = before.bytes().zip(after.bytes()).position(|(a, b)| a != b);
    if let Some(at) = differs.or((before.len() != after.len()).then_some(before.len())) {
        let around = |text: &str| {
            let bytes = text.as_bytes();
            let part = &bytes[at.saturating_sub(200)..(at + 200).min(bytes.len())];
            String::from_utf8_lossy(part).into_owned()
        };
        panic!("{by} changed {}\nto {}", around(before), around(&after));
    }
}

/// Returns each form once: those of different objects of one kind count as one.
fn forms_of(pages: &[(String, Reply)]) -> Vec<Form> {
    let known = console::known();
    let mut found: Vec<(String, Form)> = Vec::new();
    for (address, reply) in pages {
        for form in forms(reply.page()) {
            let route = route(&known, "POST", &form.action);
            let route = route
                .unwrap_or_else(|| panic!("{address} has a form that leads nowhere: {form:?}"));
            let names: Vec<&str> = form.fields.iter().map(|(name, _)| name.as_str()).collect();
            let key = format!("{} {names:?}", route.path);
            if !found.iter().any(|(of, _)| *of == key) {
                found.push((key, form));
            }
        }
    }
    assert!(found.len() > 20, "{found:#?}");
    found.into_iter().map(|(_, form)| form).collect()
}

fn pages_are_for_their_roles(site: &Site, authors: &Authors, pages: &[(String, Reply)]) {
    let known = console::known();
    assert!(pages.len() > 25, "{}", pages.len());
    for (address, reply) in pages {
        assert!(reply.status < 400, "an admin's page {address}: {reply:?}");
        // A link may lead to a file.
        let Some(needed) = route(&known, "GET", address).and_then(|it| it.role) else {
            continue;
        };
        let nobody = site.get(address, &Who::Nobody);
        assert_eq!(nobody.status, 303, "{address} as nobody");
        assert!(
            nobody.header("location").unwrap().starts_with("/login"),
            "{address}"
        );
        for (role, who) in &authors.by_role {
            let reply = site.get(address, who);
            assert_eq!(
                reply.status == 403,
                *role < needed,
                "{address} as {role}: {}",
                reply.status
            );
            assert!(
                ![401, 500].contains(&reply.status),
                "{address} as {role}: {}",
                reply.status
            );
        }
    }
}

fn forms_refuse_lower_roles(site: &Site, authors: &Authors, forms: &[Form]) {
    let known = console::known();
    for form in forms {
        let needed = route(&known, "POST", &form.action).and_then(|it| it.role);
        let Some(needed) = needed else { continue };
        let confirmed = format!("{}&confirmed=yes", form.body());
        for body in [form.body(), confirmed] {
            let nobody = site.post(&form.action, &Who::Nobody, &body);
            assert_eq!(nobody.status, 401, "{form:?} as nobody");
            for (role, who) in authors.by_role.iter().filter(|(role, _)| *role < needed) {
                let reply = site.post(&form.action, who, &body);
                assert_eq!(reply.status, 403, "{form:?} as {role}");
            }
        }
        // What is let through is asked of objects that do not exist, so that nothing happens.
        let nothing = route(&known, "POST", &form.action).map(|it| path_to_nothing(it.path));
        let nothing = nothing.unwrap_or_default();
        for (role, who) in authors.by_role.iter().filter(|(role, _)| *role >= needed) {
            if nothing == "/me/logins" {
                continue;
            }
            let reply = site.post(&nothing, who, &form.empty_body());
            let is_let_through = ![401, 403].contains(&reply.status) && reply.status < 500;
            assert!(is_let_through, "{form:?} as {role}: {reply:?}");
        }
    }
}

/// Returns the path of a route to an object that does not exist.
fn path_to_nothing(template: &str) -> String {
    let segments = template.split('/').map(|segment| match segment {
        "{tsih}" | "{login}" => "7777",
        segment if segment.starts_with('{') => "none",
        segment => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}

fn a_foreign_token_sees_and_changes_nothing(site: &Site, authors: &Authors, forms: &[Form]) {
    let mut told = Vec::new();
    for (address, reply) in site.crawl(&authors.foreign) {
        let names = FOREIGN_NAMES
            .iter()
            .filter(|name| reply.body.contains(**name));
        told.extend(names.map(|name| format!("{address} tells {name}")));
    }
    assert_eq!(told, Vec::<String>::new());
    let known = console::known();
    for form in forms {
        if route(&known, "POST", &form.action).is_none_or(|it| it.role.is_none()) {
            continue;
        }
        let body = format!("{}&confirmed=yes", form.body());
        let reply = site.post(&form.action, &authors.foreign, &body);
        assert!(
            [400, 403, 404].contains(&reply.status),
            "{form:?}: {reply:?}"
        );
    }
}

/// Every form with the cookie of an admin, from pages of other sites and from none, and in other
/// shapes than a browser's form has.
fn forms_come_from_pages_of_the_console_alone(site: &Site, authors: &Authors, forms: &[Form]) {
    let (_, admin) = authors.by_role.last().unwrap();
    let own = format!("https://{}", site.console);
    let foreign: [&[(&str, &str)]; 8] = [
        &[],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "cross-site"), ("origin", &own)],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        // A token that is none must not stand in for the origin.
        &[
            ("authorization", "Bearer sst_wrong"),
            ("sec-fetch-site", "cross-site"),
        ],
    ];
    for form in forms {
        let body = format!("{}&confirmed=yes", form.body());
        // Browsers send these types from other sites without asking.
        let plain = [("content-type", "text/plain")];
        let others = [
            &plain[..],
            &[("content-type", "multipart/form-data; boundary=b")],
        ];
        for headers in foreign.into_iter().chain(others) {
            let mut headers = headers.to_vec();
            if !headers.iter().any(|(name, _)| *name == "content-type") {
                headers.push(("content-type", "application/x-www-form-urlencoded"));
            }
            let reply = site.send("POST", &form.action, admin, &headers, &body);
            let is_refused = [401, 403].contains(&reply.status);
            assert!(is_refused, "{form:?} {headers:?}: {reply:?}");
            assert_eq!(reply.header("set-cookie"), None, "{form:?} {headers:?}");
        }
        // No other method stands for a form, whatever a header or a field says.
        let headers = [
            ("x-http-method-override", "POST"),
            ("sec-fetch-site", "cross-site"),
        ];
        let address = format!("{}?{body}&_method=POST", form.action);
        for method in ["GET", "PUT"] {
            let reply = site.send(method, &address, admin, &headers, "");
            let is_page = route(&console::known(), "GET", &form.action).is_some();
            let is_refused = [401, 403, 404, 405].contains(&reply.status);
            assert!(
                is_refused || (is_page && reply.status < 400),
                "{method} {form:?}: {reply:?}"
            );
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
    }
    // The API takes the cookie under the same rule.
    for headers in foreign {
        let reply = site.send("DELETE", "/v1/lus/vmhouse?cascade=true", admin, headers, "");
        assert!([401, 403].contains(&reply.status), "{headers:?}: {reply:?}");
    }
}

//! Every secret of the configuration, and those of users and programs, in everything that the
//! daemon writes and answers: nowhere as they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use model::access::Role;
use serde_json::{Value, json};

use super::site::{PASSWORD, Site, TARGET, Who, reply};

/// Text in the middle of each secret of this test.
const CANARY: &str = "canary-that-nobody-sees";

/// Returns the configuration with a secret wherever there can be one.
fn configuration(site: &Site) -> Value {
    let chap = |number: u32| json!({"user": format!("user{number}"), "secret": format!("{CANARY}-{number:02}")});
    let url = |number: u32| format!("http://127.0.0.1:1/{CANARY}-{number:02}?token={CANARY}");
    json!({
        "discovery_chap": chap(1),
        "discovery_mutual_chap": chap(2),
        "hosts": [{"name": "everest", "initiators": ["iqn.2026-01.io.sandstone:*"], "chap": chap(3)}],
        "targets": [{
            "iqn": TARGET,
            "portal_groups": [{"portals": [site.portal]}],
            "mutual_chap": chap(4),
        }],
        "initiator": {"targets": [{
            "iqn": "iqn.2026-01.io.sandstone:away",
            "portals": ["127.0.0.1:1"],
            "chap": chap(5),
            "mutual_chap": chap(6),
        }]},
        "alert_ways": [
            {"name": "hook", "webhook": {
                "url": url(7), "format": "gotify", "key": format!("{CANARY}-08"), "token": format!("{CANARY}-09"),
            }},
            {"name": "post", "mail": {
                "server": "127.0.0.1:1", "tls": "starttls", "from": "san@example.org", "to": ["ann@example.org"],
                "user": "san", "password": format!("{CANARY}-10"),
            }},
            {"name": "pulse", "heartbeat": {"url": url(11)}},
        ],
    })
}

/// Collects the places of all secrets that a schema of the document has.
fn places(document: &Value, schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document
            .pointer(reference.strip_prefix('#').unwrap())
            .unwrap();
        // No type of the configuration holds itself.
        return places(document, schema, at, found);
    }
    if schema["format"] == "password" {
        found.insert(at.to_owned());
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        places(document, property, &format!("{at}.{name}"), found);
    }
    for list in ["oneOf", "anyOf", "allOf"] {
        for each in schema[list].as_array().into_iter().flatten() {
            places(document, each, at, found);
        }
    }
    if schema["items"].is_object() {
        places(document, &schema["items"], at, found);
    }
}

/// Collects the places of all canaries in a value.
fn canaries(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, field)| canaries(field, &format!("{at}.{name}"), found)),
        Value::Array(items) => items.iter().for_each(|item| canaries(item, at, found)),
        Value::String(text) if text.contains(CANARY) => {
            found.insert(at.to_owned());
        }
        _ => {}
    }
}

#[test]
fn no_secret_is_in_anything_that_the_daemon_writes_or_answers() {
    let site = Site::start();
    let document: Value = serde_json::from_str(&site.done("openapi")).unwrap();
    let admin = site.token("searcher", "--role admin");
    let config = configuration(&site);
    let (mut known, mut set) = (BTreeSet::new(), BTreeSet::new());
    places(
        &document,
        &document["components"]["schemas"]["Config"],
        "",
        &mut known,
    );
    canaries(&config, "", &mut set);
    assert_eq!(
        set, known,
        "the test must set each secret that the configuration can hold"
    );

    let mut told = Vec::new();
    let headers = [("content-type", "application/json")];
    let mut ask = |method: &str, path: &str, body: &str| {
        let reply = site.send(method, path, &admin, &headers, body);
        told.push((
            format!("{method} {path}"),
            format!("{}\n{}", reply.head, reply.body),
        ));
        reply.status
    };
    let whole = json!({"config": config}).to_string();
    for query in ["?dry_run=true", "", "?dry_run=true"] {
        let status = ask("PUT", &format!("/v1/config{query}"), &whole);
        assert_eq!(status, 200, "{query}");
    }
    wrong_requests(&mut ask);
    let more = people_and_programs(&site, &mut ask);
    questions(&document, &mut ask);
    for (address, reply) in site.crawl(&admin) {
        // A list of tokens is for those who know them.
        told.push((address, format!("{}\n{}", reply.head, reply.body)));
    }
    told.push(("the metrics".to_owned(), metrics(&site)));
    told.extend(listings(&site));
    told.push(("the log".to_owned(), site.log()));
    for file in ["cmdline", "environ"] {
        let path = format!("/proc/{}/{file}", site.child.id());
        told.push((
            path.clone(),
            String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned(),
        ));
    }
    files(&site.state(), &mut told);
    for (place, text) in &told {
        for secret in more.iter().map(String::as_str).chain([CANARY]) {
            let at = text.find(secret);
            let shown = at.map(|at| text[..at].chars().rev().take(200).collect::<String>());
            let shown = shown.map(|it| it.chars().rev().collect::<String>());
            assert_eq!(shown, None, "{place} has a secret behind this");
        }
    }
    assert!(told.len() > 100, "{} places", told.len());
}

/// Requests that are refused, with secrets in the places where messages quote what was wrong.
fn wrong_requests(ask: &mut impl FnMut(&str, &str, &str) -> u16) {
    let toml = |text: &str| json!({"toml": text}).to_string();
    let config = |value: Value| json!({"config": {"hosts": [value]}}).to_string();
    for (method, path, body) in [
        (
            "PUT",
            "/v1/hosts/everest/chap",
            json!({"user": "u", "secret": [CANARY]}).to_string(),
        ),
        (
            "PUT",
            "/v1/hosts/everest/chap",
            json!({"user": "u", "secret": CANARY, "more": CANARY}).to_string(),
        ),
        ("PUT", "/v1/hosts/everest/chap", json!(CANARY).to_string()),
        (
            "PUT",
            "/v1/hosts/everest/chap",
            format!("{{\"user\":\"u\",\"secret\":\"{CANARY}"),
        ),
        (
            "PUT",
            "/v1/hosts/everest/chap",
            json!({"user": "u", "secret": CANARY.repeat(40)}).to_string(),
        ),
        (
            "PUT",
            "/v1/hosts/none/chap",
            json!({"user": "u", "secret": CANARY}).to_string(),
        ),
        (
            "PUT",
            "/v1/config",
            config(json!({"name": "h", "initiators": [], "chap": CANARY})),
        ),
        (
            "PUT",
            "/v1/config",
            config(json!({"name": "h", "initiators": [], "chap": {"user": 1, "secret": CANARY}})),
        ),
        (
            "PUT",
            "/v1/config",
            toml(&format!(
                "[[hosts]]\nname = \"h\"\nchap = {{ user = \"u\", secret = \"{CANARY}\"\n"
            )),
        ),
        (
            "PUT",
            "/v1/config",
            toml(&format!("[[hosts]]\nname = \"h\"\nchap = \"{CANARY}\"\n")),
        ),
        (
            "PUT",
            "/v1/config",
            toml(&format!(
                "[[hosts]]\nname = \"h\"\ninitiators = []\nchap = {{ user = 1, secret = \"{CANARY}\" }}\n"
            )),
        ),
        (
            "POST",
            "/v1/users",
            json!({"name": "u", "role": "viewer", "password": {"is": CANARY}}).to_string(),
        ),
        (
            "POST",
            "/v1/users",
            json!({"name": "a b", "role": "viewer", "password": CANARY}).to_string(),
        ),
        (
            "PATCH",
            "/v1/users/none",
            json!({"password": CANARY}).to_string(),
        ),
        (
            "POST",
            "/v1/alert-ways",
            json!({"name": "x", "webhook": {"url": format!("gopher://{CANARY}")}}).to_string(),
        ),
        (
            "POST",
            "/v1/alert-ways",
            json!({"name": "x", "webhook": {"url": [CANARY]}}).to_string(),
        ),
    ] {
        let status = ask(method, path, &body);
        assert!(
            (400..500).contains(&status),
            "{method} {path} {body}: {status}"
        );
    }
}

/// Adds users, tokens and logins, and returns their secrets.
fn people_and_programs(site: &Site, ask: &mut impl FnMut(&str, &str, &str) -> u16) -> Vec<String> {
    site.add_user("ann", Role::Viewer);
    let added = json!({"name": "bob", "role": "admin", "password": format!("{CANARY}-12")});
    assert_eq!(ask("POST", "/v1/users", &added.to_string()), 200);
    let changed = json!({"password": format!("{CANARY}-13")});
    assert_eq!(ask("PATCH", "/v1/users/bob", &changed.to_string()), 200);
    let Who::Cookie(login) = site.log_in("ann") else {
        panic!("a login has a cookie");
    };
    site.try_in("ann", &format!("{CANARY}-14"), &Who::Nobody);
    let Who::Token(token) = site.token("seen", "--role viewer") else {
        panic!("a token has a text");
    };
    site.get("/v1/me", &Who::Token(format!("sst_{CANARY}")));
    // Nobody listens there, which the message tells without the address.
    let hook = format!("{:?}", site.run("alert test hook"));
    assert!(hook.contains("hook") && !hook.contains(CANARY), "{hook}");
    vec![login, token, PASSWORD.to_owned()]
}

/// Asks everything that can be asked.
fn questions(document: &Value, ask: &mut impl FnMut(&str, &str, &str) -> u16) {
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods["get"].is_null() {
            continue;
        }
        let mut before = "";
        let filled = path.split('/').map(|segment| {
            let filled = match (before, segment) {
                (_, segment) if !segment.starts_with('{') => segment,
                ("hosts", _) => "everest",
                ("targets", _) => TARGET,
                ("alert-ways", _) => "hook",
                ("users", _) => "ann",
                ("tokens", _) => "seen",
                ("generations" | "sessions" | "logins" | "alerts", _) => "1",
                ("history", _) => "host",
                _ => "everest",
            };
            before = segment;
            filled
        });
        let filled = filled.collect::<Vec<_>>().join("/");
        let status = ask("GET", &filled, "");
        assert!(status < 500, "{filled}: {status}");
    }
}

fn metrics(site: &Site) -> String {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(site.metrics).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let told = reply(&mut stream);
    assert_eq!(told.status, 200, "{told:?}");
    told.body
}

/// Every listing of the command line that could tell a secret.
fn listings(site: &Site) -> Vec<(String, String)> {
    let lines = [
        "config show",
        "config show --json",
        "config history",
        "config history --json",
        "config diff 1",
        "host list --json",
        "target list --json",
        "initiator list --json",
        "alert way list --json",
        "alert list --json",
        "events --json",
        "audit list -l 1000",
        "audit list -l 1000 --json",
        "user list --json",
        "user logins --json",
        "token list --json",
        "status --json",
        "status",
    ];
    let told = lines.iter().map(|line| {
        let output = site.run(line);
        let told = [output.stdout, output.stderr].concat();
        ((*line).to_owned(), String::from_utf8(told).unwrap())
    });
    told.collect()
}

/// Reads all files of a folder, at any depth.
fn files(folder: &Path, told: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, told);
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            told.push((
                path.display().to_string(),
                String::from_utf8_lossy(&bytes).into_owned(),
            ));
        }
    }
}

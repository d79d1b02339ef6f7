//! Hostile texts in every name that others choose: in pages, their attributes, pictures, exports
//! and JSON; in the output of the command line, in the log, and in errors that echo them.

use initiator::connection::Connection;
use serde_json::{Value, json};

use super::foreign_array;
use super::html::{coded, tags};
use super::site::{Reply, Site, TARGET, Who, settings};

/// Text that becomes markup wherever it is not escaped.
const MARKUP: &str =
    "x\"'><script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>";
/// Text that a spreadsheet takes for a formula.
const FORMULA: &str = "=HYPERLINK(\"https://evil.example\",\"x\")";
/// Text that a terminal obeys, and that begins a line of its own in a log.
const TERMINAL: &str =
    "x\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}2J\r\n2026-01-01T00:00:00Z INFO forged\u{202e}";

/// Header in which the command line tells what was typed.
const COMMAND: &str = "sandstone-command";

#[test]
fn names_of_others_are_only_text_everywhere() {
    let (site, _session) = Site::with_one_of_each();
    let admin = site.token("hostile", "--role admin");
    for text in [MARKUP, FORMULA, TERMINAL] {
        strangers_send(&site, text);
        admins_choose(&site, &admin, text);
    }
    let array = foreign_array::joined(&site);
    let sessions = initiators_log_in(&site);
    assert_eq!(
        sessions.len(),
        2,
        "names with marks of HTML are valid, and must not matter"
    );
    pages_hold_no_foreign_markup(&site, &admin);
    exports_hold_no_formulas(&site, &admin);
    terminals_obey_nothing(&site);
    foreign_array::is_only_text_in_terminals(&site);
    foreign_array::is_only_text_in_wizards(&site, &admin);
    foreign_array::is_only_text_in_events(&site, &admin, array);
    the_log_has_only_lines_of_its_own(&site);
}

/// Sends a text wherever somebody without any role can leave one.
fn strangers_send(site: &Site, text: &str) {
    site.try_in(text, "no password of anybody", &Who::Nobody);
    let headers = [(COMMAND, coded(text))];
    let headers = headers
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let path = format!("/v1/lus/{}", coded(text));
    let reply = site.send("DELETE", &path, &Who::Nobody, &headers, "");
    assert_eq!(reply.status, 401, "{reply:?}");
    // A character beyond ASCII may stand in an address as it is.
    let reply = site.send("DELETE", "/v1/lus/\u{9b}2J\u{202e}", &Who::Nobody, &[], "");
    assert!([400, 401].contains(&reply.status), "{reply:?}");
}

/// Gives a text to each object that takes one. Those that refuse it must say so as text.
fn admins_choose(site: &Site, admin: &Who, text: &str) {
    let iqn = format!("iqn.2026-01.evil:{text}");
    let bodies: Vec<(&str, &str, Value)> = vec![
        (
            "POST",
            "/v1/lus",
            json!({"name": text, "backend": {"kind": "memory", "size": 1_048_576}}),
        ),
        (
            "POST",
            "/v1/lus",
            json!({"name": "m1", "serial": text, "backend": {"kind": "memory", "size": 1_048_576}}),
        ),
        (
            "POST",
            "/v1/hosts",
            json!({"name": text, "initiators": [iqn]}),
        ),
        (
            "POST",
            "/v1/hosts",
            json!({"name": "h1", "initiators": [iqn]}),
        ),
        (
            "PUT",
            "/v1/hosts/everest/chap",
            json!({"user": text, "secret": "a-long-enough-one"}),
        ),
        (
            "POST",
            "/v1/targets",
            json!({"iqn": iqn, "alias": text, "portals": []}),
        ),
        (
            "POST",
            "/v1/targets",
            json!({"iqn": "iqn.2026-01.io.sandstone:t1", "alias": text, "portals": []}),
        ),
        (
            "POST",
            "/v1/target-groups",
            json!({"name": text, "targets": [TARGET]}),
        ),
        (
            "POST",
            "/v1/volumes",
            json!({"verb": "create", "name": format!("tank/{text}"), "size": null}),
        ),
        (
            "POST",
            "/v1/snapshots",
            json!({"verb": "snapshot", "names": [format!("tank/house@{text}")]}),
        ),
        (
            "POST",
            "/v1/snapshots",
            json!({"verb": "hold", "tag": text, "names": ["tank/house@monday"]}),
        ),
        (
            "POST",
            "/v1/volumes",
            json!({"verb": "set", "names": ["tank/house"], "properties": {"evil:note": text}}),
        ),
        (
            "POST",
            "/v1/volumes",
            json!({"verb": "set", "names": ["tank/house"], "properties": {(text): "x"}}),
        ),
        (
            "POST",
            "/v1/users",
            json!({"name": text, "role": "viewer", "password": "four words are long"}),
        ),
        (
            "POST",
            "/v1/tokens",
            json!({"name": text, "role": "viewer"}),
        ),
        (
            "POST",
            "/v1/tokens",
            json!({"name": "t1", "role": "viewer", "grant": {"folder": format!("tank/{text}"), "hosts": [text]}}),
        ),
        (
            "PUT",
            "/v1/socket-roles",
            json!({"kind": "user", "name": text, "role": "viewer"}),
        ),
        (
            "POST",
            "/v1/initiator/targets",
            json!({"iqn": iqn, "portals": ["127.0.0.1:1"]}),
        ),
        ("PUT", "/v1/config", json!({"toml": text})),
    ];
    let headers = [(COMMAND, coded(text))];
    let mut headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    headers.push(("content-type", "application/json"));
    for (method, path, body) in bodies {
        let reply = site.send(method, path, admin, &headers, &body.to_string());
        assert!(reply.status < 500, "{method} {path} {body}: {reply:?}");
        let is_json = reply.header("content-type") == Some("application/json");
        assert!(
            is_json && reply.header("x-content-type-options") == Some("nosniff"),
            "{path}: {reply:?}"
        );
    }
    site.send("DELETE", "/v1/hosts/everest/chap", admin, &headers, "");
}

/// Logs initiators in whose names and aliases hold marks of HTML; those with control characters are
/// refused by the target.
fn initiators_log_in(site: &Site) -> Vec<Connection> {
    let texts = [MARKUP, FORMULA, TERMINAL].into_iter().enumerate();
    let tried = texts.map(|(port, text)| {
        let mut settings = settings(10 + port as u8);
        // Digits of this name are those of the host's pattern.
        let plain: String = text.chars().filter(|it| !" ,\0".contains(*it)).collect();
        settings.initiator_name = format!("iqn.2026-01.io.sandstone:{plain}");
        settings.initiator_alias = Some(plain);
        Connection::open(site.portal, settings)
    });
    tried.flatten().collect()
}

/// Asserts that each tag of a page is one of ours.
pub(super) fn assert_own_markup(address: &str, reply: &Reply) {
    for tag in tags(reply.page()) {
        let name = tag.name.as_str();
        let is_own = match name {
            "script" => tag.get("src").is_some_and(|it| it.starts_with("/assets/")),
            "svg" => tag.get("onload").is_none(),
            "img" | "iframe" | "object" | "embed" | "style" | "base" => false,
            _ => true,
        };
        assert!(is_own, "{address}: {tag:?}");
        for attribute in tag.names() {
            let is_plain = attribute
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "-_:".contains(it));
            assert!(
                is_plain && !attribute.starts_with("on") && attribute != "style",
                "{address}: {tag:?}"
            );
        }
        for link in ["href", "action", "src"] {
            let leads_here = tag
                .get(link)
                .is_none_or(|it| it.starts_with(['/', '#', '?']) && !it.starts_with("//"));
            assert!(leads_here, "{address}: {tag:?}");
        }
    }
}

fn pages_hold_no_foreign_markup(site: &Site, admin: &Who) {
    let pages = site.crawl(admin);
    let mut told = 0;
    for (address, reply) in &pages {
        assert!(reply.status < 500, "{address}: {reply:?}");
        if reply
            .header("content-type")
            .is_some_and(|it| it.starts_with("text/html"))
        {
            assert_own_markup(address, reply);
            told += reply.body.matches("&lt;script&gt;alert(1)").count();
        }
    }
    assert!(told > 3, "the texts were not met on any page");
    let array = pages.iter().map(|(_, reply)| {
        let escaped = foreign_array::MARK
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        reply.body.matches(&escaped).count()
    });
    assert!(
        array.sum::<usize>() > 0,
        "the disk of the array was not met on any page"
    );
    // Texts in the address itself, and in fields of forms that are shown again.
    let mut paths: Vec<String> = pages
        .iter()
        .map(|(it, _)| it.split('?').next().unwrap().to_owned())
        .collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let query = [
            "q",
            "sort",
            "unit",
            "host",
            "initiator",
            "next",
            "offset",
            "name",
        ];
        let query = query
            .map(|name| format!("{name}={}", coded(MARKUP)))
            .join("&");
        for address in [
            format!("{path}?{query}"),
            format!("{path}/{}", coded(MARKUP)),
        ] {
            let reply = site.get(&address, admin);
            assert!(reply.status < 500, "{address}: {reply:?}");
            if reply
                .header("content-type")
                .is_some_and(|it| it.starts_with("text/html"))
            {
                assert_own_markup(&address, &reply);
            }
        }
    }
}

/// Every list as a file: no cell of it begins a formula.
fn exports_hold_no_formulas(site: &Site, admin: &Who) {
    let mut exports = 0;
    for (address, reply) in site.crawl(admin) {
        let kind = reply.header("content-type").unwrap_or_default();
        if !kind.starts_with("text/csv") {
            continue;
        }
        exports += 1;
        let is_kept = reply
            .header("content-disposition")
            .is_some_and(|it| it.starts_with("attachment"));
        assert!(is_kept, "{address}: {}", reply.head);
        for cell in cells(&reply.body) {
            let is_formula = cell.starts_with(['=', '+', '@', '\t', '\r']);
            let is_number = cell.parse::<f64>().is_ok();
            assert!(
                !is_formula && (!cell.starts_with('-') || is_number),
                "{address}: {cell:?}"
            );
        }
    }
    assert!(exports >= 5, "{exports} exports");
}

/// Returns all cells of a CSV file, as a spreadsheet reads them.
fn cells(text: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cells.last_mut().unwrap().push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' | '\n' if !is_quoted => cells.push(String::new()),
            '\r' if !is_quoted => {}
            letter => cells.last_mut().unwrap().push(letter),
        }
    }
    cells
}

/// Every listing of the command line, for people and for programs.
fn terminals_obey_nothing(site: &Site) {
    let listings = [
        "lu list",
        "host list",
        "target list",
        "target-group list",
        "map list",
        "session list",
        "user list",
        "user logins",
        "token list",
        "role list",
        "audit list -l 200",
        "config history",
        "config show",
        "events",
        "alert list",
        "status",
        "volume list -t all",
        "volume get all tank/house",
        "volume holds tank/house@monday",
        "pool history tank",
        "pool list",
        "audit list -l 200 --json",
        "config history --json",
        "session list --json",
        "events --json",
    ];
    for line in listings {
        let output = site.run(line);
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8(told).unwrap();
        let obeyed = told
            .chars()
            .find(|it| *it != '\n' && shown::is_obeyed(*it) && *it != '\t');
        assert_eq!(obeyed, None, "{line}: {told:?}");
        assert!(
            !told
                .lines()
                .any(|it| it.starts_with("2026-01-01T00:00:00Z")),
            "{line}: {told}"
        );
    }
    let audit = site.done("audit list -l 200");
    assert!(
        audit.contains("x\\u{1b}[2J"),
        "the texts were not met: {audit}"
    );
}

fn the_log_has_only_lines_of_its_own(site: &Site) {
    let log = site.log();
    let obeyed = log.chars().find(|it| *it != '\n' && shown::is_obeyed(*it));
    assert_eq!(obeyed, None, "{log}");
    assert!(
        !log.lines().any(|it| it.starts_with("2026-01-01T00:00:00Z")),
        "{log}"
    );
    assert!(log.contains("u{1b}[2J"), "the texts were not met: {log}");
}

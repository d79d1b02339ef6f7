//! Tests of who may do what: each operation as nobody, as each role, and with a token that is
//! limited to a folder; and of the audit log.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use model::access::Role;
use serde_json::Value;

use super::daemon::Daemon;
use super::openapi::{document, operations};

/// Sends a request over TCP with a token, and returns the status and the body.
fn ask(daemon: &Daemon, request: &str, body: &str, token: Option<&str>) -> (u16, String) {
    let mut stream = TcpStream::connect(daemon.tcp()).unwrap();
    let token = token.map_or(String::new(), |it| {
        format!("Authorization: Bearer {it}\r\n")
    });
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn add_token(daemon: &Daemon, name: &str, role: Role, more: &str) -> String {
    let ran = daemon.run(&format!("token add {name} --role {role} {more}"));
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out.trim().to_owned()
}

/// Returns a request for each operation that changes nothing even if it is let through: its
/// arguments name nothing that exists, and its body is empty.
fn requests() -> Vec<(String, String, Role)> {
    let all = operations(&document()).into_iter();
    let each = all.map(|(name, path, operation)| {
        let method = name.split(' ').next().unwrap();
        let segments = path
            .split('/')
            .map(|segment| match segment.starts_with('{') {
                true => "none",
                false => segment,
            });
        let path = segments.collect::<Vec<_>>().join("/");
        let role = operation["x-role"].as_str().unwrap().parse().unwrap();
        let id = operation["operationId"].as_str().unwrap().to_owned();
        (id, format!("{method} {path}"), role)
    });
    each.collect()
}

/// Returns what a token with a folder meets at each operation, as the document says.
fn limits() -> BTreeMap<String, String> {
    let all = operations(&document()).into_iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.map(|(_, _, operation)| {
        (
            text(&operation["operationId"]),
            text(&operation["x-folder"]),
        )
    })
    .collect()
}

#[test]
fn each_operation_lets_through_exactly_the_roles_that_the_document_says() {
    let daemon = Daemon::with_one_of_each();
    let tokens: BTreeMap<Role, String> = Role::ALL
        .into_iter()
        .map(|role| (role, add_token(&daemon, role.as_str(), role, "")))
        .collect();
    for (id, request, needed) in requests() {
        let (status, problem) = ask(&daemon, &request, "{}", None);
        assert_eq!(status, 401, "{id} as nobody: {problem}");
        assert!(problem.contains("not-authenticated"), "{problem}");
        let (status, _) = ask(&daemon, &request, "{}", Some("sst_wrong"));
        assert_eq!(status, 401, "{id} with a wrong token");
        for (role, token) in &tokens {
            let (status, answer) = ask(&daemon, &request, "{}", Some(token));
            let is_let_through = *role >= needed;
            assert_eq!(
                status != 403,
                is_let_through,
                "{id} as {role}: {status} {answer}"
            );
            assert_ne!(status, 401, "{id} as {role}");
            if !is_let_through {
                let told: Value = serde_json::from_str(&answer).unwrap();
                assert_eq!(told["kind"], "not-permitted");
                let words = format!("needs the role {needed}");
                assert!(told["message"].as_str().unwrap().contains(&words), "{told}");
            }
        }
    }
}

#[test]
fn a_token_with_a_folder_reaches_its_folder_and_nothing_else() {
    /// Operations that answer with what the token reaches, which is nothing here.
    const FILTERED: [&str; 6] = [
        "access_me",
        "benchmark_list",
        "host_list",
        "lu_list",
        "map_list",
        "volume_list",
    ];
    /// Operations that are checked. An empty body is invalid for those whose body says what they
    /// reach; the others name nothing that exists.
    const CHECKED: [&str; 14] = [
        "benchmark_compare",
        "benchmark_delete",
        "benchmark_show",
        "benchmark_start",
        "benchmark_stop",
        "host_show",
        "lu_create",
        "lu_delete",
        "lu_modify",
        "lu_show",
        "map_add",
        "map_remove",
        "volume_change",
        "volume_snapshot",
    ];
    let limits = limits();
    let of_word = |word: &str| -> Vec<&str> {
        let of = limits.iter().filter(|(_, of)| *of == word);
        of.map(|(id, _)| id.as_str()).collect()
    };
    // Another operation is open to such tokens only if this test says so too.
    assert_eq!(of_word("filtered"), FILTERED);
    assert_eq!(of_word("checked"), CHECKED);
    assert_eq!(
        of_word("refused").len() + FILTERED.len() + CHECKED.len(),
        limits.len()
    );
    let daemon = Daemon::with_one_of_each();
    let more = "--folder tank/pve --host pve1";
    for role in [Role::Viewer, Role::Admin] {
        let token = add_token(&daemon, &format!("pve-{role}"), role, more);
        for (id, request, needed) in requests() {
            let (status, answer) = ask(&daemon, &request, "{}", Some(&token));
            let expected: &[u16] = match limits[&id].as_str() {
                "filtered" => &[200],
                "checked" if role >= needed => &[400, 403],
                _ => &[403],
            };
            assert!(
                expected.contains(&status),
                "{id} as {role} of a folder: {status} {answer}"
            );
            if id.ends_with("_list") {
                assert!(
                    !answer.contains("vol1") && !answer.contains("esx"),
                    "{id}: {answer}"
                );
            }
        }
        // The unit and the host exist, but lie beyond the folder.
        for (request, body) in [
            ("GET /v1/lus/vol1", "{}"),
            ("GET /v1/hosts/esx", "{}"),
            ("DELETE /v1/lus/vol1?dry_run=true", "{}"),
            ("PATCH /v1/lus/vol1", r#"{"offline":true}"#),
            ("POST /v1/maps", r#"{"unit":"vol1","host":"pve1"}"#),
            (
                "POST /v1/lus",
                r#"{"name":"own","backend":{"kind":"memory","size":1048576}}"#,
            ),
        ] {
            let (status, answer) = ask(&daemon, request, body, Some(&token));
            assert_eq!(status, 403, "{request}: {answer}");
        }
    }
}

#[test]
fn a_removed_token_is_refused_at_once() {
    let daemon = Daemon::with_one_of_each();
    let token = add_token(&daemon, "short", Role::Viewer, "--days 1");
    assert_eq!(ask(&daemon, "GET /v1/me", "", Some(&token)).0, 200);
    let listed = daemon.run("token list -H -o name,role");
    assert_eq!(listed.out, "short\tviewer\n");
    assert_eq!(daemon.run("token remove short").code, 0);
    assert_eq!(ask(&daemon, "GET /v1/me", "", Some(&token)).0, 401);
}

#[test]
fn attempts_are_noted_with_their_authors_and_without_secrets() {
    const SECRET: &str = "hunter2hunter2";
    let daemon = Daemon::with_one_of_each();
    let viewer = add_token(&daemon, "eye", Role::Viewer, "");
    let admin = add_token(&daemon, "robot", Role::Admin, "");
    let before = daemon.run("audit list -H -o seq").out.lines().count();
    let chap = format!(r#"{{"user":"esx","secret":"{SECRET}"}}"#);
    let set = "PUT /v1/hosts/esx/chap";
    assert_eq!(ask(&daemon, set, &chap, None).0, 401);
    assert_eq!(ask(&daemon, set, &chap, Some(&viewer)).0, 403);
    assert_eq!(ask(&daemon, set, &chap, Some(&admin)).0, 200);
    assert_eq!(
        ask(&daemon, &format!("{set}?dry_run=true"), &chap, Some(&admin)).0,
        200
    );
    assert_eq!(ask(&daemon, "GET /v1/lus", "", Some(&viewer)).0, 200);
    assert_eq!(
        ask(&daemon, "DELETE /v1/hosts/none", "", Some(&admin)).0,
        404
    );
    assert_eq!(daemon.run("lu offline vol1 --yes").code, 0);
    let listed = daemon.run("audit list -H -o who,by,request,result,body,generation");
    let lines: Vec<&str> = listed.out.lines().skip(before).collect();
    let expected = [
        ("-\tunknown\tPUT /v1/hosts/esx/chap\t", "not-authenticated"),
        ("eye\ttoken\tPUT /v1/hosts/esx/chap\t", "not-permitted"),
        ("robot\ttoken\tPUT /v1/hosts/esx/chap\tdone\t", "…"),
        ("robot\ttoken\tDELETE /v1/hosts/none\t", "not-found"),
        ("root\tsocket\tPATCH /v1/lus/vol1", "done"),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, (begin, holds)) in lines.iter().zip(expected) {
        assert!(line.starts_with(begin) && line.contains(holds), "{line}");
    }
    assert!(!listed.out.contains(SECRET), "{}", listed.out);
    let generations: Vec<&str> = lines[2].rsplit('\t').next().unwrap().split('>').collect();
    let number = |text: &str| text.parse::<u64>().unwrap();
    assert_eq!(number(generations[0]) + 1, number(generations[1]));
    let verified = daemon.run("audit verify");
    assert!(
        verified.code == 0 && verified.out.contains("the chain is whole"),
        "{verified:?}"
    );
}

#[test]
fn a_flood_of_strangers_pushes_nothing_out_of_the_audit_log() {
    let daemon = Daemon::with_one_of_each();
    for _ in 0..300 {
        assert_eq!(ask(&daemon, "DELETE /v1/lus/vol1", "", None).0, 401);
    }
    let listed = daemon.run("audit list -l 1000 -H -o by,request").out;
    let of = |begin: &str| {
        listed
            .lines()
            .filter(|line| line.starts_with(begin))
            .count()
    };
    let strangers = of("unknown\t");
    assert!((200..300).contains(&strangers), "{strangers}");
    assert!(of("socket\tPOST /v1/lus") > 0, "{listed}");
    let verified = daemon.run("audit verify");
    assert_eq!(verified.code, 0, "{verified:?}");
}

#[test]
fn a_changed_audit_log_is_found() {
    let daemon = Daemon::with_one_of_each();
    add_token(&daemon, "robot", Role::Admin, "");
    let path = daemon.folder.path().join("audit/audit.log");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("root", "eve!", 1)).unwrap();
    let verified = daemon.run("audit verify");
    assert!(
        verified.code == 1 && verified.err.contains("broken"),
        "{verified:?}"
    );
}

/// A schema that gains a secret must not show it in the audit log.
#[test]
fn every_secret_of_the_document_is_hidden_in_the_audit_log() {
    let document = document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut secrets = 0;
    for (schema, description) in schemas {
        let Some(properties) = description["properties"].as_object() else {
            continue;
        };
        for (name, property) in properties {
            if is_secret(&document, property) {
                secrets += 1;
                let body = format!(r#"{{"outer":{{"{name}":"hunter2"}}}}"#);
                let noted = access::without_secrets(body.as_bytes()).unwrap();
                assert!(!noted.contains("hunter2"), "{schema}.{name}: {noted}");
            }
        }
    }
    assert!(secrets >= 8, "{secrets}");
}

/// Reports whether a value is a secret by itself, by its type, or by one of its alternatives.
fn is_secret(document: &Value, schema: &Value) -> bool {
    let reference = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    let referred = reference.and_then(|it| document.pointer(it));
    // Only types that are one text are followed: the fields of others are looked at by themselves.
    let is_text = |it: &&Value| it["type"] == "string";
    let alternatives = ["oneOf", "anyOf", "allOf"];
    schema["format"] == "password"
        || referred
            .filter(is_text)
            .is_some_and(|it| it["format"] == "password")
        || alternatives
            .iter()
            .filter_map(|list| schema[list].as_array())
            .flatten()
            .any(|each| is_secret(document, each))
}

#[test]
fn users_are_added_listed_and_changed() {
    let daemon = Daemon::with_one_of_each();
    let file = daemon.folder.path().join("password");
    std::fs::write(&file, "four words are long\n").unwrap();
    let file = file.display();
    let added = daemon.run(&format!("user add ann --role admin --password-file {file}"));
    assert_eq!(
        (added.code, added.out.as_str()),
        (0, "user ann added with the role admin\n")
    );
    let weak = daemon.folder.path().join("weak");
    std::fs::write(&weak, "short\n").unwrap();
    let ran = daemon.run(&format!("user add bob --password-file {}", weak.display()));
    assert!(ran.code == 1 && ran.err.contains("too few"), "{ran:?}");
    let ran = daemon.run("user add bob");
    assert!(
        ran.code == 1 && ran.err.contains("--password-file"),
        "{ran:?}"
    );
    let ran = daemon.run("user modify ann --role viewer");
    assert!(
        ran.code == 1 && ran.err.contains("no admin would be left"),
        "{ran:?}"
    );
    let ran = daemon.run("user modify ann");
    assert!(
        ran.code == 1 && ran.err.contains("no change was asked for"),
        "{ran:?}"
    );
    let listed = daemon.run("user list -H -o name,role,state,factor");
    assert_eq!(listed.out, "ann\tadmin\tenabled\t-\n");
    let ran = daemon.run("user remove ann");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(daemon.run("user logins -H").out, "");
    let ran = daemon.run("user logout 7");
    assert!(ran.code == 1 && ran.err.contains("no login 7"), "{ran:?}");
}

#[test]
fn roles_at_the_socket_are_set_listed_and_removed() {
    let daemon = Daemon::with_one_of_each();
    let ran = daemon.run("role set ann operator");
    assert_eq!(
        ran.out,
        "the user ann has the role operator at the control socket\n"
    );
    assert_eq!(daemon.run("role set --group staff viewer").code, 0);
    let listed = daemon.run("role list -H");
    assert_eq!(listed.out, "user\tann\toperator\ngroup\tstaff\tviewer\n");
    assert_eq!(daemon.run("role remove ann").code, 0);
    let ran = daemon.run("role remove ann");
    assert!(
        ran.code == 1 && ran.err.contains("no role of its own"),
        "{ran:?}"
    );
    let ran = daemon.run("role set ann root");
    assert!(
        ran.code == 2 && ran.err.contains("choose viewer, operator or admin"),
        "{ran:?}"
    );
}

//! Tests of the API below the command line: its document, its problems, its socket.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use serde_json::Value;
use testing::exposition::{Format, parse, value_of};

use super::daemon::Daemon;

/// Sends one request, as bytes. Returns status and body.
pub(crate) fn http(daemon: &Daemon, request: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(daemon.folder.path().join("control.sock")).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

#[test]
fn the_socket_is_for_its_owner_only() {
    let daemon = Daemon::start();
    let mode = std::fs::metadata(daemon.folder.path().join("control.sock"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn every_problem_is_json_of_four_fields() {
    let daemon = Daemon::with_one_of_each();
    for (request, body, status, kind) in [
        ("GET /v1/nothing", "", 404, "not-found"),
        ("PUT /v1/lus", "", 405, "not-found"),
        ("POST /v1/lus", "{", 400, "invalid"),
        ("POST /v1/lus", "{\"name\": 7}", 400, "invalid"),
        ("POST /v1/lus?dry_run=perhaps", "{}", 400, "invalid"),
        ("POST /v1/lus?colour=red", "{}", 400, "invalid"),
        ("GET /v1/lus/none", "", 404, "not-found"),
        ("DELETE /v1/lus/vol1", "", 409, "in-use"),
        (
            "DELETE /v1/lus/vol1?cascade=true&if_generation=1",
            "",
            412,
            "stale",
        ),
        ("DELETE /v1/sessions/none", "", 400, "invalid"),
        ("DELETE /v1/sessions/9", "", 404, "not-found"),
        (
            "POST /v1/sessions/9/logout?within_s=5",
            "",
            404,
            "not-found",
        ),
        ("POST /v1/sessions/9/logout?within_s=0", "", 400, "invalid"),
        ("POST /v1/sessions/9/logout", "", 400, "invalid"),
        ("GET /v1/initiator/devices/naa.5", "", 404, "not-found"),
        ("DELETE /v1/initiator/devices/naa.5", "", 404, "not-found"),
        ("DELETE /v1/initiator/targets/iqn.x", "", 404, "not-found"),
        (
            "POST /v1/initiator/rescan?target=iqn.x",
            "",
            404,
            "not-found",
        ),
        ("POST /v1/initiator/rescan?lun=1", "", 400, "invalid"),
        (
            "PATCH /v1/initiator",
            "{\"name\": \"host*\"}",
            400,
            "invalid",
        ),
        (
            "POST /v1/initiator/targets",
            "{\"iqn\": \"iqn.2026-01.x:y\", \"portals\": []}",
            400,
            "invalid",
        ),
        (
            "POST /v1/initiator/targets",
            "{\"iqn\": \"iqn.2026-01.x:y\", \"portals\": [\"a\"], \"sessions\": 65}",
            400,
            "invalid",
        ),
        ("POST /v1/initiator/rules", "{}", 400, "invalid"),
        (
            "DELETE /v1/initiator/rules",
            "{\"satp\": \"VMW_SATP_ALUA\", \"vendor\": \"X\"}",
            404,
            "not-found",
        ),
        (
            "PUT /v1/initiator/satps/VMW_SATP_NONE",
            "{\"psp\": \"VMW_PSP_RR\"}",
            404,
            "not-found",
        ),
        (
            "PATCH /v1/initiator/devices/disk1",
            "{\"queue_depth\": 5}",
            400,
            "invalid",
        ),
        ("POST /v1/config/generations/x/rollback", "", 400, "invalid"),
        ("POST /v1/benchmarks", "{}", 400, "invalid"),
        (
            "POST /v1/benchmarks",
            "{\"unit\": \"vol1\", \"block\": 4096, \"write\": true}",
            400,
            "invalid",
        ),
        (
            "POST /v1/benchmarks?dry_run=true",
            "{\"unit\": \"none\", \"block\": 4096}",
            404,
            "not-found",
        ),
        // The data plane of this test opens no unit.
        (
            "POST /v1/benchmarks",
            "{\"unit\": \"vol1\", \"block\": 4096}",
            422,
            "refused",
        ),
        ("GET /v1/benchmarks/9", "", 404, "not-found"),
        ("GET /v1/benchmarks/x", "", 404, "not-found"),
        ("POST /v1/benchmarks/9/stop", "", 404, "not-found"),
        ("DELETE /v1/benchmarks/9", "", 404, "not-found"),
        ("GET /v1/benchmarks/9/compare/8", "", 404, "not-found"),
    ] {
        let (code, text) = http(&daemon, request, body);
        let problem: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{request}: {text}"));
        assert_eq!(
            (code, problem["kind"].as_str()),
            (status, Some(kind)),
            "{request}: {text}"
        );
        for field in ["message", "not_changed", "next"] {
            assert!(
                problem[field].as_str().is_some_and(|text| !text.is_empty()),
                "{request}: {text}"
            );
        }
    }
    assert_eq!(daemon.run("lu list -H -o name").out, "vol1\n");
}

#[test]
fn metrics_are_in_the_text_format_of_prometheus() {
    let daemon = Daemon::with_one_of_each();
    let questions = || daemon.data_plane.questions.load(Ordering::SeqCst);
    let before = questions();
    let (code, text) = http(&daemon, "GET /metrics", "");
    assert_eq!(code, 200);
    assert_eq!(questions() - before, 1, "units are asked once");
    let families = parse(&text, Format::Text);
    let of_unit = |name: &str| value_of(&families, name, &[("lu", "vol1")]);
    assert_eq!(of_unit("sandstone_lu_size_bytes"), Some(10737418240.0));
    let online = [("lu", "vol1"), ("state", "online")];
    assert_eq!(
        value_of(&families, "sandstone_lu_state", &online),
        Some(1.0)
    );
}

//! Tests of `initiator discover` with portals and iSNS servers that answer, refuse, are silent, or
//! lie.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use initiator::connection::Connection;
use iscsi::chap::ChapCredential;
use iscsi::initiator::LoginSettings;
use iscsi::isns::{Assembler, Flags, Function, Message};
use iscsi::pdu::Isid;
use isns::find_targets;

use super::{back, run};
use crate::served::{TARGET, free_portal};

#[test]
fn a_portal_tells_its_targets_in_columns_and_as_json() {
    let back = back();
    let portal = back.portal;
    // No daemon is asked: no daemon uses the folder.
    let folder = tempfile::tempdir().unwrap();
    let line = format!("initiator discover {portal} --initiator-name iqn.2026-01.x:y");
    assert_eq!(
        run(folder.path(), &format!("{line} -H")).good(),
        format!("{TARGET}\t{portal}\t1\n")
    );
    let listed = run(folder.path(), &line).good();
    assert!(listed.starts_with("TARGET"), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&run(folder.path(), &format!("{line} --json")).good()).unwrap();
    assert_eq!(json[0]["target"], TARGET);
    assert_eq!(json[0]["portal"], portal.to_string());
    // From a source address, and through an address that is not ours.
    run(folder.path(), &format!("{line} --bind 127.0.0.1")).good();
    let error = run(folder.path(), &format!("{line} --bind 192.0.2.77")).bad();
    assert!(
        error.contains("--bind takes an address of this machine"),
        "{error}"
    );
}

#[test]
fn chap_is_asked_for_and_a_wrong_secret_is_said() {
    let back = back();
    let portal = back.portal;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "twelve bytes and more\n").unwrap();
    let file = secret.display();
    run(back.folder(), "host create h --initiator iqn.2026-01.x:y").good();
    run(
        back.folder(),
        &format!("host auth h --user me --secret-file {file}"),
    )
    .good();
    run(back.folder(), "config discovery-auth yes").good();
    let shown = run(back.folder(), "config show").good();
    assert!(shown.contains("discovery_auth = true"), "{shown}");
    let line = format!("initiator discover {portal} --initiator-name iqn.2026-01.x:y");
    let error = run(folder.path(), &line).bad();
    assert!(error.contains("next:"), "{error}");
    let told = run(
        folder.path(),
        &format!("{line} -H --user me --secret-file {file}"),
    );
    assert_eq!(told.good(), format!("{TARGET}\t{portal}\t1\n"));
    std::fs::write(&secret, "another secret, and long\n").unwrap();
    let error = run(
        folder.path(),
        &format!("{line} --user me --secret-file {file}"),
    )
    .bad();
    assert!(
        error.contains("check the CHAP user and secret") || error.contains("CHAP (--user)"),
        "{error}"
    );
    // Nobody is there to be asked.
    let error = run(folder.path(), &format!("{line} --user me")).bad();
    assert!(error.contains("SANDSTONE_CHAP_SECRET"), "{error}");
}

/// Logs in for discovery with CHAP both ways, and returns an error text on failure.
fn discovery_by_mutual_chap(portal: SocketAddr, theirs: &str) -> Result<Connection, String> {
    let name = "iqn.2026-01.x:y";
    let mut settings = LoginSettings::new(name, None, Isid([0x80, 0, 0, 0, 0, 1]));
    let credential = |user: &str, secret: &str| ChapCredential {
        name: user.into(),
        secret: secret.as_bytes().to_vec(),
    };
    settings.credential = Some(credential("me", "twelve bytes and more"));
    settings.target_credential = Some(credential("them", theirs));
    let opened = Connection::open(portal, settings);
    opened.map_err(|error| error.to_string())
}

#[test]
fn both_sides_prove_who_they_are_before_targets_are_told() {
    let back = back();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, secret: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, secret).unwrap();
        path.display().to_string()
    };
    let ours = file("ours", "twelve bytes and more\n");
    let theirs = file("theirs", "another secret, and long\n");
    run(back.folder(), "host create h --initiator iqn.2026-01.x:y").good();
    run(
        back.folder(),
        &format!("host auth h --user me --secret-file {ours}"),
    )
    .good();
    run(back.folder(), "config discovery-auth yes").good();
    let secret = "another secret, and long";
    // There is no secret to prove the identity with.
    assert!(discovery_by_mutual_chap(back.portal, secret).is_err());
    let same = format!("config discovery-secret --user them --secret-file {ours}");
    let error = run(back.folder(), &same).bad();
    assert!(error.contains("the same CHAP secret"), "{error}");
    let set = format!("config discovery-secret --user them --secret-file {theirs}");
    run(back.folder(), &set).good();
    discovery_by_mutual_chap(back.portal, secret).unwrap();
    assert!(discovery_by_mutual_chap(back.portal, "not that secret").is_err());
    // The secret is shown nowhere, and stays when the shown configuration is applied again.
    let shown = run(back.folder(), "config show").good();
    assert!(
        shown.contains("user = \"them\"") && !shown.contains(secret),
        "{shown}"
    );
    let json = run(back.folder(), "config show --json").good();
    assert!(!json.contains(secret), "{json}");
    let again = file(
        "config.toml",
        &shown.replace("discovery_auth = true", "discovery_auth = false"),
    );
    let told = run(back.folder(), &format!("config apply {again} --yes")).good();
    assert!(!told.contains(secret), "{told}");
    run(back.folder(), "config discovery-auth yes").good();
    discovery_by_mutual_chap(back.portal, secret).unwrap();
    run(back.folder(), "config discovery-secret --none").good();
    assert!(discovery_by_mutual_chap(back.portal, secret).is_err());
}

#[test]
fn who_can_see_nothing_is_refused_where_discovery_asks_for_proof() {
    let back = back();
    let portal = back.portal;
    let folder = tempfile::tempdir().unwrap();
    let line = format!("initiator discover {portal} --initiator-name iqn.2026-01.x:nobody");
    run(back.folder(), "config discovery-auth yes").good();
    // A target that everybody may log in to is one that everybody may find.
    let told = run(folder.path(), &format!("{line} -H")).good();
    assert_eq!(told, format!("{TARGET}\t{portal}\t1\n"));
    run(back.folder(), "host create h --initiator iqn.2026-01.x:y").good();
    run(back.folder(), "map remove vol --yes").good();
    let map = format!("map add vol --host h --target {TARGET} --lun 0");
    run(back.folder(), &map).good();
    let error = run(folder.path(), &line).bad();
    assert!(error.contains("0202") || error.contains("not"), "{error}");
    let known = format!("initiator discover {portal} --initiator-name iqn.2026-01.x:y -H");
    let told = run(folder.path(), &known).good();
    assert_eq!(told, format!("{TARGET}\t{portal}\t1\n"));
    run(back.folder(), "config discovery-auth no").good();
    run(folder.path(), &line).good();
}

/// Starts a server that sends these bytes to its client, and then closes or stays.
fn liar(bytes: &'static [u8], stays: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 512];
        // This is the answer to every request.
        let _ = stream.read(&mut request);
        let _ = stream.write_all(bytes);
        // A liar that stays keeps the connection until the client goes.
        while stays && stream.read(&mut request).is_ok_and(|count| count > 0) {}
    });
    address
}

#[test]
fn what_is_no_target_is_survived_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = free_portal();
    let ask = |portal: SocketAddr| {
        run(
            folder.path(),
            &format!("initiator discover {portal} --timeout 1"),
        )
        .bad()
    };
    let error = ask(nobody);
    assert!(
        error.contains("check that an iSCSI target listens there"),
        "{error}"
    );
    let error = ask(liar(b"", false));
    assert!(
        error.contains("the target closed the connection") || error.contains("broke"),
        "{error}"
    );
    let error = ask(liar(
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>no</html>",
        false,
    ));
    assert!(error.contains("next:"), "{error}");
    // A header that announces 16 MiB of login response.
    let error = ask(liar(
        &[
            0x23, 0x87, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
        true,
    ));
    assert!(error.contains("longer than declared"), "{error}");
    let begun = Instant::now();
    let error = ask(liar(b"", true));
    assert!(error.contains("no answer within"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(4));
    // One portal answers and one does not: both are reported.
    let back = back();
    let ran = run(
        folder.path(),
        &format!("initiator discover {} {nobody} -H", back.portal),
    );
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains(TARGET) && ran.err.contains(&nobody.to_string()),
        "{ran:?}"
    );
}

/// Starts a portal that answers every login with "the target is elsewhere".
fn sends_on(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 2048];
            let Ok(48..) = stream.read(&mut request) else {
                continue;
            };
            let text = format!("TargetAddress={to}\0");
            // Login response: ISID and ITT of the request, status 0101h.
            let mut answer = vec![0; 48];
            answer[0] = 0x23;
            answer[7] = text.len() as u8;
            answer[8..14].copy_from_slice(&request[8..14]);
            answer[16..20].copy_from_slice(&request[16..20]);
            answer[36..38].copy_from_slice(&[1, 1]);
            answer.extend(text.bytes());
            answer.resize(answer.len().next_multiple_of(4), 0);
            // A client that has its answer may go.
            let _ = stream.write_all(&answer);
        }
    });
    address
}

#[test]
fn redirections_are_followed_but_not_for_ever() {
    let back = back();
    let folder = tempfile::tempdir().unwrap();
    let ask = |portal: SocketAddr| run(folder.path(), &format!("initiator discover {portal} -H"));
    let told = ask(sends_on(sends_on(back.portal))).good();
    assert_eq!(told, format!("{TARGET}\t{}\t1\n", back.portal));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let circle = listener.local_addr().unwrap();
    drop(listener);
    let mut portal = circle;
    for _ in 0..6 {
        portal = sends_on(portal);
    }
    let error = ask(portal).bad();
    assert!(
        error.contains("the login was redirected more than 4 times"),
        "{error}"
    );
}

/// Starts an iSNS server that answers only registered clients.
fn name_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut assembler, mut known) = (Assembler::default(), false);
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                assembler.push(&bytes[..count]);
                while let Some(request) = assembler.next_message().unwrap() {
                    let payload = match request.function {
                        Function::DEV_ATTR_QRY if known => targets(),
                        // Source unknown.
                        Function::DEV_ATTR_QRY => 6u32.to_be_bytes().to_vec(),
                        function => {
                            known = function == Function::DEV_ATTR_REG;
                            0u32.to_be_bytes().to_vec()
                        }
                    };
                    let answer = Message {
                        function: request.function.response(),
                        flags: Flags::SERVER,
                        transaction_id: request.transaction_id,
                        payload,
                    };
                    stream.write_all(&answer.encode()).unwrap();
                }
            }
        }
    });
    address
}

/// Returns a key, the delimiter, and two targets, one of which has two portal groups and an invalid
/// pair.
fn targets() -> Vec<u8> {
    let mut payload = 0u32.to_be_bytes().to_vec();
    let mut put = |tag: u32, value: &[u8]| {
        payload.extend(tag.to_be_bytes());
        payload.extend((value.len() as u32).to_be_bytes());
        payload.extend(value);
    };
    put(33, &1u32.to_be_bytes());
    put(0, &[]);
    put(32, b"iqn.2026-01.x:b\0");
    put(32, b"iqn.2026-01.x:a\0");
    for (last, port, tag) in [
        (1u8, 3260u32, Some(1u32)),
        (2, 3261, Some(2)),
        (3, 3260, None),
    ] {
        put(48, b"iqn.2026-01.x:a\0");
        put(
            49,
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last],
        );
        put(50, &port.to_be_bytes());
        match tag {
            Some(tag) => put(51, &tag.to_be_bytes()),
            None => put(51, &[]),
        }
    }
    payload
}

#[test]
fn an_isns_server_is_told_who_asks_and_tells_the_targets() {
    let server = name_server();
    let found = find_targets(server, "iqn.2026-01.x:me", Duration::from_secs(5)).unwrap();
    let names: Vec<_> = found.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["iqn.2026-01.x:b", "iqn.2026-01.x:a"]);
    let folder = tempfile::tempdir().unwrap();
    let told = run(
        folder.path(),
        &format!("initiator discover --isns {server} -H"),
    );
    assert_eq!(
        told.good(),
        "iqn.2026-01.x:a\t10.0.0.1:3260\t1\niqn.2026-01.x:a\t10.0.0.2:3261\t2\n"
    );
    let nobody = free_portal();
    let error = run(
        folder.path(),
        &format!("initiator discover --isns {nobody}"),
    )
    .bad();
    assert!(error.contains("the usual port is 3205"), "{error}");
}

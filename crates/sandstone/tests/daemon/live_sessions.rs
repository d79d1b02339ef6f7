//! Verbs that end live sessions, or take a unit or write access from them.
//!
//! Each asks first, as `session kill` does. A script cannot be asked, so it is refused and told the
//! option.

use std::net::SocketAddr;

use crate::pools::life::log_in;
use crate::process::Process;
use crate::served::{TARGET, free_portal, read, test_unit_ready};

/// Initiator of [`log_in`].
const INITIATOR: &str = "iqn.2026-01.io.sandstone:tester";

struct Bench {
    process: Process,
    portals: [SocketAddr; 2],
}

impl Bench {
    /// Starts a target with two portals in one group, and a host that sees a unit there through a
    /// target group.
    fn new() -> Self {
        let process = Process::start();
        let portals = [free_portal(), free_portal()];
        process.done("lu create vm1 --memory --size 1M");
        process.done(&format!(
            "target create {TARGET} --portal {} --portal {}",
            portals[0], portals[1]
        ));
        process.done(&format!("target-group create all --target {TARGET}"));
        process.done(&format!("host create h --initiator {INITIATOR}"));
        process.done("map add vm1 --host h --target all --lun 0");
        Self { process, portals }
    }
}

#[test]
fn whatever_ends_a_session_or_takes_its_unit_asks_first() {
    let bench = Bench::new();
    let process = &bench.process;
    let [first, second] = bench.portals;
    let before = process.done("config show");
    let lines = [
        format!("target portal remove {TARGET} {first}"),
        format!("target delete {TARGET}"),
        format!("target-group remove-target all {TARGET}"),
        "target-group delete all".into(),
        "map remove vm1 --host h".into(),
        format!("host remove-initiator h {INITIATOR}"),
        "host delete h".into(),
        "lu delete vm1".into(),
        "lu offline vm1".into(),
        "lu modify vm1 --read-only yes".into(),
        "session kill 1".into(),
    ];
    let mut session = log_in(first);
    let number = process.done("session list -H -o tsih");
    for line in &lines {
        let line = line.replace("kill 1", &format!("kill {}", number.trim()));
        let refused = process.refused(&line);
        assert!(
            refused.contains("needs a confirmation, and there is no terminal to ask on"),
            "{line}: {refused}"
        );
        assert!(
            refused.contains("repeat the command with --yes"),
            "{line}: {refused}"
        );
        assert!(refused.contains(INITIATOR), "{line}: {refused}");
        assert_eq!(process.done("config show"), before, "{line}");
        let told = process.done(&format!("{line} -n"));
        assert!(told.contains("session"), "{line}: {told}");
    }
    read(&mut session, 0, 1);
    // Nobody came through the other portal.
    process.done(&format!("target portal remove {TARGET} {second}"));
    read(&mut session, 0, 1);
}

#[test]
fn with_yes_it_is_done_and_the_sessions_that_ended_are_named() {
    let bench = Bench::new();
    let session = log_in(bench.portals[0]);
    let line = format!("target portal remove {TARGET} {} --yes", bench.portals[0]);
    let told = bench.process.done(&line);
    assert!(told.contains(INITIATOR) && told.contains("ends"), "{told}");
    drop(session);
    let gone = bench.process.refused(&line);
    assert!(
        gone.contains("does not listen") || gone.contains("no portal"),
        "{gone}"
    );
}

/// Sessions go on if a target refuses new logins, or asks for another secret: nobody needs to be
/// asked.
#[test]
fn what_sessions_outlive_is_not_asked_about() {
    let bench = Bench::new();
    let process = &bench.process;
    let mut session = log_in(bench.portals[0]);
    std::fs::write(process.folder().join("secret"), "a-secret-of-hosts\n").unwrap();
    for line in [
        format!("target offline {TARGET}"),
        format!("target online {TARGET}"),
        "host auth h --user h --secret-file secret".into(),
        "host auth h --none".into(),
        "lu create other --memory --size 1M".into(),
        "map add other --host h --target all --lun 1".into(),
    ] {
        process.done(&line);
        // The session hears of a new LUN, no more.
        let heard = test_unit_ready(&mut session);
        assert!(
            matches!(heard, None | Some([6, 0x3f, 0x0e])),
            "{line}: {heard:x?}"
        );
        read(&mut session, 0, 1);
    }
}

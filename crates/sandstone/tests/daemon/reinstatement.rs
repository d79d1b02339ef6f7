//! Logins that replace sessions by name, and connections by CID (RFC 7143 §6.3.4, §6.3.5).
//!
//! The tests also check the unit attentions of their initiators.

use std::time::Duration;

use crate::raw_wire::Wire;
use crate::served::{self, Served, read, sense, test_unit_ready, unit, write};
use config::change::{Change, ModifyTarget};
use control::transaction::Commit;
use initiator::connection::Connection;
use iscsi::initiator::LoginSettings;
use model::config::{BackendSpec, TargetParameters};
use model::data_plane::SessionInfo;
use testing::wait;

fn served() -> Served {
    Served::start(vec![unit("unit", 1, BackendSpec::Memory { size: 1 << 20 })])
}

fn sessions(served: &Served) -> Vec<SessionInfo> {
    let daemon = served.daemon.as_ref().unwrap();
    daemon.transactions().data_plane().sessions()
}

/// Time for what a login or logout does by itself. The target closes a silent connection after 25 s
/// and removes what was left behind, which must not make a test pass.
const BY_ITSELF: Duration = Duration::from_secs(10);

/// Waits until the sessions meet this condition.
fn until(served: &Served, what: &str, holds: impl Fn(&[SessionInfo]) -> bool) {
    let soon = wait::at_most(BY_ITSELF);
    soon.until_seen(what, || sessions(served), |sessions| holds(sessions));
}

/// Returns the settings of a further login into the session of port 1.
fn join(served: &Served, tsih: u16, cid: u16, cmd_sn: u32) -> LoginSettings {
    LoginSettings {
        tsih,
        cid,
        cmd_sn,
        ..served.settings(1)
    }
}

#[test]
fn a_session_that_logs_in_again_hears_of_the_lost_nexus() {
    let mut served = served();
    let mut first = served.log_in(1);
    assert_eq!(sense(&write(&mut first, 0, &[7; 512])), None);
    let before = sessions(&served)[0].tsih;
    let mut second = Connection::open(served.portal, served.settings(1)).unwrap();
    assert_eq!(test_unit_ready(&mut second), Some([6, 0x29, 0x07]));
    assert_eq!(read(&mut second, 0, 1), [7; 512]);
    until(&served, "one session", |sessions| sessions.len() == 1);
    assert_ne!(sessions(&served)[0].tsih, before);
    assert!(
        first.read(0, &[0; 6], 0).is_err(),
        "the old connection is closed"
    );
    // The initiator logged out in order and is back: the nexus was lost as well.
    second.close().unwrap();
    until(&served, "no session", <[SessionInfo]>::is_empty);
    let mut third = Connection::open(served.portal, served.settings(1)).unwrap();
    assert_eq!(test_unit_ready(&mut third), Some([6, 0x29, 0x07]));
    // After a restart the unit knows nobody.
    served.restart();
    let mut fourth = Connection::open(served.portal, served.settings(1)).unwrap();
    assert_eq!(test_unit_ready(&mut fourth), Some([6, 0x29, 0x00]));
}

#[test]
fn a_connection_that_logs_in_again_goes_on_in_its_session() {
    let served = served();
    let mut old = served.log_in(1);
    assert_eq!(sense(&write(&mut old, 0, &[7; 512])), None);
    let tsih = sessions(&served)[0].tsih;
    // Two commands were sent: CmdSN 1 and 2.
    let mut new = Connection::open(served.portal, join(&served, tsih, 0, 3)).unwrap();
    assert_eq!(test_unit_ready(&mut new), None, "the nexus was not lost");
    assert_eq!(read(&mut new, 0, 1), [7; 512]);
    until(&served, "one connection", |sessions| {
        sessions.len() == 1 && sessions[0].tsih == tsih && sessions[0].connections.len() == 1
    });
    assert!(
        old.read(0, &[0; 6], 0).is_err(),
        "the old connection is closed"
    );
    assert_eq!(sense(&write(&mut new, 1, &[8; 512])), None);
    // Several times in a row: nothing is left behind that would count.
    for cmd_sn in 6..14 {
        new = Connection::open(served.portal, join(&served, tsih, 0, cmd_sn)).unwrap();
        assert_eq!(test_unit_ready(&mut new), None);
    }
    new.close().unwrap();
    until(&served, "no session", <[SessionInfo]>::is_empty);
}

#[test]
fn a_session_takes_no_more_connections_than_it_agreed_to() {
    let served = served();
    let mut first = served.log_in(1);
    let tsih = sessions(&served)[0].tsih;
    let refused = Connection::open(served.portal, join(&served, tsih, 1, 2)).unwrap_err();
    assert!(refused.to_string().contains("0x0206"), "{refused}");
    let unknown = Connection::open(served.portal, join(&served, tsih + 1, 0, 2)).unwrap_err();
    assert!(unknown.to_string().contains("0x020a"), "{unknown}");
    assert_eq!(test_unit_ready(&mut first), None);
    drop(first);
    until(&served, "no session", <[SessionInfo]>::is_empty);
    // Two connections were agreed to.
    let mut settings = served.settings(1);
    settings.limits.max_connections = 2;
    let mut first = Connection::open(served.portal, settings).unwrap();
    test_unit_ready(&mut first);
    let tsih = sessions(&served)[0].tsih;
    let mut second = Connection::open(served.portal, join(&served, tsih, 1, 2)).unwrap();
    assert_eq!(test_unit_ready(&mut second), None);
    let refused = Connection::open(served.portal, join(&served, tsih, 2, 3)).unwrap_err();
    assert!(refused.to_string().contains("0x0206"), "{refused}");
    // One of them logs in again.
    let mut again = Connection::open(served.portal, join(&served, tsih, 1, 3)).unwrap();
    assert_eq!(test_unit_ready(&mut again), None);
    until(&served, "two connections", |sessions| {
        sessions[0].connections.len() == 2
    });
}

#[test]
fn digests_that_the_administrator_forbids_are_not_agreed_to() {
    let served = served();
    let parameters = TargetParameters {
        require_header_digest: Some(false),
        require_data_digest: Some(true),
        ..TargetParameters::default()
    };
    let modify = ModifyTarget {
        parameters: Some(parameters),
        ..ModifyTarget::default()
    };
    let change = Change::ModifyTarget(served::TARGET.into(), modify);
    let daemon = served.daemon.as_ref().unwrap();
    daemon
        .transactions()
        .commit(&change, &Commit::default())
        .unwrap();
    let mut settings = served.settings(1);
    settings.limits.header_digest = iscsi::negotiation::DigestPolicy::Prefer;
    settings.limits.data_digest = iscsi::negotiation::DigestPolicy::Prefer;
    let mut session = Connection::open(served.portal, settings).unwrap();
    test_unit_ready(&mut session);
    let connection = sessions(&served)[0].connections[0].clone();
    assert!(!connection.header_digest);
    assert!(connection.data_digest);
}

/// Data that the sockets between target and initiator cannot hold, although a session may owe it.
const UNSENT: u32 = 7 << 20;

#[test]
fn a_reservation_ends_before_the_logout_is_answered() {
    let served = Served::start(vec![unit("unit", 1, BackendSpec::Memory { size: 1 << 20 })]);
    let mut first = Wire::log_in(served.portal, served::TARGET);
    let mut reserve = [0; 16];
    reserve[0] = 0x16;
    let nothing = (false, false);
    // The first command of a nexus is told of a reset.
    assert_eq!(
        first.command([0; 16], nothing, 0, &[], false).asc,
        (0x29, 0)
    );
    assert_eq!(first.command(reserve, nothing, 0, &[], false).status, 0);
    let mut second = served.log_in(2);
    let conflict = Some(0x18);
    assert_eq!(second.read(0, &reserve, 0).unwrap().status, conflict);
    // The first initiator takes nothing from its socket, so the answer to its logout cannot leave.
    let each = 256 << 10;
    for _ in 0..UNSENT / each {
        first.ask_for(served::cdb(0x88, 0, each / 512), each);
    }
    first.ask_to_log_out();
    wait::at_most(BY_ITSELF).until("the reservation ends with its nexus", || {
        second.read(0, &reserve, 0).unwrap().status != conflict
    });
}

//! Changes of the configuration that end a session, and those that do not.
//!
//! The initiator of an ended session is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use block::memory::MemoryDevice;
use iscsi::pdu::{AsyncEvent, TaskManagementFunction};
use model::config::{Config, RedirectSpec};

use crate::losses::kill::settings;
use crate::rig::process::free_portal;
use crate::rig::served::{self, Served, limits};
use crate::rig::session::PipelinedSession;

fn serve() -> (Served, PipelinedSession, SocketAddr) {
    let portal = free_portal();
    let disk = Arc::new(MemoryDevice::new(64 * 512, 512, 1 << 20).unwrap());
    let units = vec![served::unit(0, 64, 512, true)];
    let served = Served::start(&[portal], units, vec![disk], limits());
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    (served, session, portal)
}

/// Checks that the session goes on, and that a new one is not let in.
fn stays_but_lets_nobody_in(change: impl FnOnce(&mut Config)) {
    let (mut served, mut session, portal) = serve();
    served.change(change);
    // Each loop is asked after the change.
    assert_eq!(served.sessions(), 1);
    let still = session.run(0, [0; 16], 0, Vec::new());
    assert_eq!(still.status, 0, "{still:?}");
    let mut other = PipelinedSession::new(portal, settings(1));
    assert!(other.try_log_in(Duration::from_secs(5)).is_err());
    assert_eq!(served.sessions(), 1);
    session.cut();
    served.stop();
}

#[test]
fn a_target_that_is_taken_offline_keeps_its_sessions() {
    stays_but_lets_nobody_in(|config| config.targets[0].offline = true);
}

#[test]
fn a_target_that_sends_initiators_elsewhere_keeps_its_sessions() {
    stays_but_lets_nobody_in(|config| {
        config.targets[0].redirect = Some(RedirectSpec {
            address: "192.0.2.1:3260".into(),
            permanent: false,
        });
    });
}

fn is_told(end: impl FnOnce(&mut Served, &mut PipelinedSession)) {
    let (mut served, mut session, _) = serve();
    end(&mut served, &mut session);
    assert_eq!(session.wait_for_end(), [AsyncEvent::DropAllConnections]);
    served.stop();
}

#[test]
fn an_initiator_is_told_that_an_administrator_ends_its_session() {
    is_told(|served, _| served.kill_sessions());
}

/// Earlier commands are answered. When the initiator has logged out, it may come back at once.
#[test]
fn an_initiator_that_is_asked_to_log_out_and_does_is_told_nothing_more() {
    let (served, mut session, _) = serve();
    served.ask_to_log_out(60);
    let asked = [AsyncEvent::RequestLogout];
    assert_eq!(session.wait_until_told(), asked);
    let still = session.run(0, [0; 16], 0, Vec::new());
    assert_eq!(still.status, 0, "{still:?}");
    session.log_out();
    assert_eq!(session.wait_for_end(), []);
    session.log_in();
    session.wait_until_ready(0);
    assert_eq!(served.sessions(), 1);
    session.cut();
    served.stop();
}

#[test]
fn an_initiator_that_is_asked_to_log_out_and_stays_loses_its_session() {
    let (served, mut session, _) = serve();
    served.ask_to_log_out(1);
    let told = [AsyncEvent::RequestLogout, AsyncEvent::DropAllConnections];
    assert_eq!(session.wait_for_end(), told);
    served.stop();
}

#[test]
fn an_initiator_is_told_that_nothing_is_mapped_to_it_any_more() {
    is_told(|served, _| served.change(|config| config.maps.clear()));
}

#[test]
fn an_initiator_is_told_that_a_cold_reset_ends_its_session() {
    is_told(|_, session| session.manage(9, TaskManagementFunction::TargetColdReset, 0, None));
}

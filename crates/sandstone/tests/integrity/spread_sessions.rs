//! Sessions are spread over all event loops, whatever connections come and go between their logins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::memory::MemoryDevice;
use iscsi::initiator::LoginSettings;
use iscsi::pdu::Isid;
use model::data_plane::DataPlane;

use crate::losses::kill::settings;
use crate::rig::process::free_portal;
use crate::rig::served::{self, Served, limits};
use crate::rig::session::{PATIENCE, PipelinedSession};

const SESSIONS: u8 = 8;

fn serve() -> (Served, SocketAddr) {
    let portal = free_portal();
    let disk = Arc::new(MemoryDevice::new(64 * 512, 512, 1 << 20).unwrap());
    let units = vec![served::unit(0, 64, 512, true)];
    (
        Served::start(&[portal], units, vec![disk], limits()),
        portal,
    )
}

fn logged_in(portal: SocketAddr, number: u8) -> PipelinedSession {
    let mut session = PipelinedSession::new(portal, settings(number));
    session.log_in();
    session.wait_until_ready(0);
    session
}

/// Returns the number of sessions that each of the two loops serves.
fn counts(served: &Served) -> [usize; 2] {
    let mut counts = [0; 2];
    for session in served.service().sessions() {
        counts[usize::from(session.event_loop)] += 1;
    }
    counts
}

/// Logs in several sessions, with something before each.
fn sessions_of_loops(between: impl Fn(SocketAddr, u8)) -> [usize; 2] {
    let (served, portal) = serve();
    let mut sessions: Vec<PipelinedSession> = Vec::new();
    for number in 0..SESSIONS {
        between(portal, number);
        sessions.push(logged_in(portal, number));
    }
    let counts = counts(&served);
    sessions.iter_mut().for_each(PipelinedSession::cut);
    served.stop();
    assert_eq!(counts[0] + counts[1], usize::from(SESSIONS));
    counts
}

#[test]
fn logins_are_spread() {
    assert_eq!(sessions_of_loops(|_, _| {}), [4, 4]);
}

/// A client asks each portal for the targets, leaves, and logs in, as open-iscsi does.
#[test]
fn logins_that_follow_discoveries_are_spread() {
    let counts = sessions_of_loops(|portal, number| {
        let name = "iqn.2026-01.io.sandstone:who-looks-first".to_owned();
        let settings = LoginSettings::new(name, None, Isid([0x80, 0, 0, 1, 0, number]));
        let mut discovery = PipelinedSession::new(portal, settings);
        discovery.try_log_in(PATIENCE).unwrap();
        discovery.log_out();
        discovery.wait_for_end();
    });
    assert_eq!(counts, [4, 4]);
}

#[test]
fn logins_that_follow_refused_ones_are_spread() {
    let counts = sessions_of_loops(|portal, number| {
        let mut settings = settings(number);
        settings.target_name = Some("iqn.2026-01.io.sandstone:there-is-none".into());
        let refused = PipelinedSession::new(portal, settings).try_log_in(PATIENCE);
        assert!(refused.is_err());
    });
    // The loop may hear that the client has gone after its next login.
    assert!(counts[0].abs_diff(counts[1]) <= 2, "{counts:?}");
}

/// The further connections of a session (MC/S) go to its loop and count there.
#[test]
fn a_session_with_many_connections_has_its_loop_for_itself() {
    let (served, portal) = serve();
    let mut first = PipelinedSession::new(portal, settings(0));
    first.settings.limits.max_connections = 4;
    first.log_in();
    first.wait_until_ready(0);
    let mut further: Vec<PipelinedSession> = Vec::new();
    for cid in 1..4 {
        let mut connection = first.second_connection(0);
        connection.settings.cid = cid;
        connection.log_in();
        further.push(connection);
    }
    assert_eq!(served.connections(), 4);
    let taken = usize::from(served.service().sessions()[0].event_loop);
    let mut others: Vec<PipelinedSession> =
        (1..=4).map(|number| logged_in(portal, number)).collect();
    let mut expected = [4; 2];
    expected[taken] = 1;
    assert_eq!(counts(&served), expected);
    others.iter_mut().for_each(PipelinedSession::cut);
    further.iter_mut().for_each(PipelinedSession::cut);
    first.cut();
    served.stop();
}

/// Event loops describe some sessions in each turn, and sessions come and go meanwhile.
#[test]
fn a_list_of_many_sessions_has_each_one_that_stays() {
    let (served, portal) = serve();
    let mut stay: Vec<PipelinedSession> = (0..50).map(|number| logged_in(portal, number)).collect();
    let service = served.service();
    let told = |service: &dyn DataPlane| -> Vec<u16> {
        let sessions = service.sessions().into_iter();
        sessions.map(|session| session.tsih).collect()
    };
    let expected = told(&*service);
    assert_eq!(expected.len(), 50);
    let is_over = Arc::new(AtomicBool::new(false));
    let listing = {
        let (is_over, expected) = (Arc::clone(&is_over), expected.clone());
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let mut listed = told(&*service);
                assert!(listed.is_sorted_by(|a, b| a < b), "{listed:?}");
                listed.retain(|tsih| expected.contains(tsih));
                assert_eq!(listed, expected);
            }
        })
    };
    for number in 50..80 {
        logged_in(portal, number).cut();
    }
    is_over.store(true, Ordering::Relaxed);
    listing.join().expect("every list is complete");
    stay.iter_mut().for_each(PipelinedSession::cut);
    served.stop();
}

//! Attack 10: sessions, connections and commands without end.
//!
//! Each has its bound, and initiators within the bounds are served. Memory has its own tests in
//! `memory.rs`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::initiator::LoginSettings;
use iscsi::pdu::Isid;
use target::DaemonLimits;
use testing::wait;

use crate::losses::kill::settings;
use crate::losses::volatile_disk::VolatileDisk;
use crate::rig::process::free_portal;
use crate::rig::random::Random;
use crate::rig::served::{self, Served, limits};
use crate::rig::session::{PATIENCE, PipelinedSession};

fn serve(limits: DaemonLimits) -> (Served, SocketAddr) {
    let portal = free_portal();
    let disk = Arc::new(VolatileDisk::new(Random::new(1), 64, 512));
    let units = vec![served::unit(0, 64, 512, true)];
    (Served::start(&[portal], units, vec![disk], limits), portal)
}

fn session(portal: SocketAddr, number: u8) -> PipelinedSession {
    PipelinedSession::new(portal, settings(number))
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[test]
fn sessions_are_bounded() {
    let (served, portal) = serve(DaemonLimits {
        max_sessions: 6,
        ..limits()
    });
    let mut sessions: Vec<PipelinedSession> =
        (0..6).map(|number| session(portal, number)).collect();
    sessions.iter_mut().for_each(PipelinedSession::log_in);
    let refused = session(portal, 6).try_log_in(PATIENCE).unwrap_err();
    assert!(refused.to_string().contains("0302"), "{refused}");
    // Initiators that are logged in are served, may come back, and make room when they leave.
    sessions
        .iter_mut()
        .for_each(|session| session.wait_until_ready(0));
    sessions[3].log_in();
    sessions[3].wait_until_ready(0);
    sessions[0].cut();
    session(portal, 6).log_in();
    sessions.iter_mut().for_each(PipelinedSession::cut);
    served.stop();
}

/// The first initiator leaves room for others, whatever it does.
#[test]
fn an_initiator_with_many_sessions_gets_no_more_where_room_is_scarce() {
    let (served, portal) = serve(DaemonLimits {
        max_sessions: 8,
        ..limits()
    });
    let mine = |isid: u8| {
        let mut settings = settings(0);
        settings.isid = Isid([0x80, 0, 0, 7, 0, isid]);
        PipelinedSession::new(portal, settings)
    };
    let mut sessions: Vec<PipelinedSession> = (0..6).map(mine).collect();
    sessions.iter_mut().for_each(PipelinedSession::log_in);
    let refused = mine(6).try_log_in(PATIENCE).unwrap_err();
    assert!(refused.to_string().contains("0302"), "{refused}");
    // The initiator may renew a session that it has, and others get the rest.
    sessions[5].log_in();
    let mut others = [session(portal, 1), session(portal, 2)];
    others.iter_mut().for_each(PipelinedSession::log_in);
    others
        .iter_mut()
        .for_each(|other| other.wait_until_ready(0));
    sessions.iter_mut().for_each(PipelinedSession::cut);
    others.iter_mut().for_each(PipelinedSession::cut);
    served.stop();
}

/// Opens a discovery session under a name that nobody knows.
fn discovery(portal: SocketAddr, number: u16) -> PipelinedSession {
    let [high, low] = number.to_be_bytes();
    let name = format!("iqn.2026-01.io.sandstone:stranger-{number}");
    let isid = Isid([0x80, 0, 0, 1, high, low]);
    PipelinedSession::new(portal, LoginSettings::new(name, None, isid))
}

/// Anyone may discover, without proof of identity: that must not keep out initiators with mapped
/// units.
#[test]
fn discovery_sessions_take_no_room_from_others_and_the_oldest_make_room() {
    let (served, portal) = serve(DaemonLimits {
        max_sessions: 2,
        ..limits()
    });
    let mut strangers: Vec<PipelinedSession> = Vec::new();
    for number in 0..300 {
        let mut stranger = discovery(portal, number);
        stranger.try_log_in(PATIENCE).unwrap();
        strangers.push(stranger);
    }
    let mut sessions = [session(portal, 0), session(portal, 1)];
    for session in &mut sessions {
        session.log_in();
        session.wait_until_ready(0);
    }
    let refused = session(portal, 2).try_log_in(PATIENCE).unwrap_err();
    assert!(refused.to_string().contains("0302"), "{refused}");
    // The oldest of the strangers has gone, the newest has not.
    strangers[0].wait_for_end();
    let newest = strangers.last_mut().unwrap();
    newest.pump(&mut Vec::new()).unwrap();
    assert!(served.sessions() < 300);
    drop(strangers);
    sessions.iter_mut().for_each(PipelinedSession::cut);
    served.stop();
}

#[test]
fn connections_that_do_not_log_in_are_bounded_and_the_oldest_make_room() {
    let (served, portal) = serve(DaemonLimits {
        max_logins: 10,
        ..limits()
    });
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..100 {
        idle.push(TcpStream::connect(portal).unwrap());
        if number % 20 == 19 {
            // Long before the time for a login is over.
            let start = Instant::now();
            let mut good = session(portal, 0);
            good.log_in();
            good.wait_until_ready(0);
            good.cut();
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    }
    let left = || {
        idle.retain_mut(|stream| !is_closed(stream));
        idle.len()
    };
    wait::until_seen("few are left", left, |left| *left <= 10);
    served.stop();
}

#[test]
fn a_login_that_takes_too_long_is_ended() {
    let (served, portal) = serve(DaemonLimits {
        login_timeout: Duration::from_secs(1),
        ..limits()
    });
    let mut stalled = TcpStream::connect(portal).unwrap();
    stalled.write_all(&[0x43, 0x87, 0, 0]).unwrap();
    stalled.set_read_timeout(Some(PATIENCE)).unwrap();
    let start = Instant::now();
    assert_eq!(stalled.read(&mut [0; 64]).unwrap(), 0);
    assert!(start.elapsed() >= Duration::from_millis(900));
    served.stop();
}

/// SCSI commands beyond the window are ignored, and immediate ones answered or dropped.
///
/// A flood of either costs only its own session.
#[test]
fn commands_without_end_are_bounded() {
    let (served, portal) = serve(limits());
    let mut witness = session(portal, 1);
    witness.log_in();
    witness.wait_until_ready(0);
    let mut flood = session(portal, 3);
    flood.log_in();
    let mut test_unit_ready = [0; 48];
    test_unit_ready[1] = 0x80;
    for number in 0..20_000_u32 {
        // Far beyond MaxCmdSN every time.
        test_unit_ready[16..20].copy_from_slice(&number.to_be_bytes());
        test_unit_ready[24..28].copy_from_slice(&(1_000_000 + number).to_be_bytes());
        flood.send_raw(&test_unit_ready);
        if number % 1000 == 0 {
            assert_eq!(witness.run(0, [0; 16], 0, Vec::new()).status, 0);
        }
    }
    // Nothing was answered, nothing was kept, and the session itself goes on.
    flood.wait_until_ready(0);
    flood.cut();
    witness.cut();
    served.stop();
}

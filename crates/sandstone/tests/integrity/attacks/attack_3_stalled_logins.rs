//! Attack 3 against the real daemon: connections that never log in, and logins that stop half-way.
//!
//! Others send data or disconnect straight after the login. No other initiator notices.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use iscsi::initiator::{Login, LoginSettings};
use testing::wait;

use crate::losses::kill::settings;
use crate::rig::process::{Process, file_unit, free_portal, target};
use crate::rig::session::{PATIENCE, PipelinedSession};

/// Time in which a login in a storm must end (ESXi gives up after 5 s).
const PROMPT: Duration = Duration::from_secs(5);

fn serve() -> (Process, SocketAddr) {
    let portal = free_portal();
    let process = Process::start(&["--threads", "2"], |config| {
        let (unit, map) = file_unit(0, 1024, 512, true);
        config.targets.push(target(&[portal]));
        config.units.push(unit);
        config.maps.push(map);
    });
    // The first login waits until the daemon is up.
    PipelinedSession::new(portal, settings(0)).log_in();
    (process, portal)
}

fn logs_in_promptly(portal: SocketAddr) -> PipelinedSession {
    let mut session = PipelinedSession::new(portal, settings(1));
    let start = Instant::now();
    session.log_in();
    session.wait_until_ready(0);
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    session
}

fn request(settings: LoginSettings) -> Vec<u8> {
    Login::start(settings).1
}

#[test]
fn stalled_logins_delay_no_other() {
    let (process, portal) = serve();
    let login = request(settings(2));
    let mut stalled = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(portal).unwrap();
        // Nothing, a part of the header, a part of the text.
        let cut = [0, 1, 20, 47, 48, 60, login.len() - 1][number % 7];
        stream.write_all(&login[..cut]).unwrap();
        stalled.push(stream);
        if number % 50 == 49 {
            logs_in_promptly(portal).cut();
        }
    }
    assert!(process.run("session list").lines().count() < 10);
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let (_process, portal) = serve();
    let mut witness = logs_in_promptly(portal);
    for opcode in 0..=255_u8 {
        let mut stream = TcpStream::connect(portal).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut garbage = vec![opcode; 48];
        // A data segment that is there.
        garbage[4..8].copy_from_slice(&[0, 0, 0, 8]);
        garbage.extend_from_slice(&[0xff; 8]);
        stream.write_all(&garbage).unwrap();
        let mut answer = Vec::new();
        // A refusal or none; the end in any case.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::ConnectionReset,
                "{opcode:02x}"
            );
        }
    }
    assert_eq!(witness.run(0, [0; 16], 0, Vec::new()).status, 0);
}

#[test]
fn data_or_a_disconnect_straight_after_login_harm_nobody() {
    let (process, portal) = serve();
    let mut witness = logs_in_promptly(portal);
    for round in 0..60 {
        let mut session = PipelinedSession::new(portal, settings(2));
        session.log_in();
        if round % 2 == 0 {
            // Data-Out of a command that does not exist, and of none.
            for itt in [7_u32, u32::MAX] {
                let mut pdu = vec![0; 48 + 512];
                (pdu[0], pdu[1], pdu[6]) = (0x05, 0x80, 2);
                pdu[16..20].copy_from_slice(&itt.to_be_bytes());
                pdu[20..24].fill(0xff);
                session.send_raw(&pdu);
            }
        }
        session.cut();
        assert_eq!(witness.run(0, [0; 16], 0, Vec::new()).status, 0);
    }
    // The initiators that left are gone.
    let sessions = || process.run("session list");
    wait::until_seen("no session outlives its connection", sessions, |told| {
        !told.contains("host-2")
    });
}

//! A held write must not overwrite the writes that its initiator sends after a new login.
//!
//! A device holds up the write while its connection is cut. A later write would be lost although it
//! was acknowledged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use block::memory::MemoryDevice;
use block::{
    BlockDevice, BlockError, Done, Geometry, Lane, Pages, Request, Submitted, Ticket, Usage,
};
use testing::wait;

use super::kill::settings;
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{PATIENCE, PipelinedSession};

pub(crate) const BLOCK: usize = 512;

/// Memory whose first write waits until it is let go.
#[derive(Debug)]
pub(crate) struct FirstWriteWaits {
    bytes: Arc<Mutex<Vec<u8>>>,
    memory: Arc<MemoryDevice>,
    writes: AtomicUsize,
    gate: Arc<(Mutex<bool>, Condvar)>,
    held: Arc<AtomicBool>,
}

impl FirstWriteWaits {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Arc::new(Mutex::new(vec![0; 8 * BLOCK])),
            memory: Arc::new(MemoryDevice::new(8 * BLOCK as u64, BLOCK as u32, 1 << 20).unwrap()),
            writes: AtomicUsize::new(0),
            gate: Arc::default(),
            held: Arc::default(),
        }
    }

    /// Returns once the device holds up the first write.
    pub(crate) fn wait_until_held(&self) {
        wait::until("the write reaches the device", || {
            self.held.load(Ordering::SeqCst)
        });
    }

    pub(crate) fn let_go(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }
}

impl BlockDevice for FirstWriteWaits {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        match request {
            Request::Write { offset, data, .. } => {
                let first = self.writes.fetch_add(1, Ordering::SeqCst) == 0;
                let (bytes, gate) = (self.bytes.clone(), self.gate.clone());
                self.held.fetch_or(first, Ordering::SeqCst);
                lane.run_blocking(ticket, move || {
                    if first {
                        let open = gate.0.lock().unwrap();
                        drop(gate.1.wait_while(open, |open| !*open).unwrap());
                    }
                    let at = offset as usize;
                    bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(&data.to_vec());
                    Ok(Done::Nothing)
                })
            }
            Request::Read { offset, len } => {
                let at = offset as usize;
                let pages = Pages::from_bytes(&self.bytes.lock().unwrap()[at..at + len as usize]);
                Submitted::Ready(Ok(Done::Pages(pages)))
            }
            _ => Submitted::Ready(Ok(Done::Nothing)),
        }
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.memory.usage()
    }
}

pub(crate) fn write_cdb() -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x8a, 1);
    cdb
}

/// Starts a target whose device holds up a write of `a`.
///
/// The write belongs to a session that did `first` before and whose connection is then cut.
pub(crate) fn with_a_late_write(
    first: impl FnOnce(&mut PipelinedSession),
) -> (
    Arc<FirstWriteWaits>,
    Served,
    PipelinedSession,
    [SocketAddr; 2],
) {
    let portals = [free_portal(), free_portal()];
    let device = Arc::new(FirstWriteWaits::new());
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&portals, units, vec![device.clone()], limits());
    let mut session = PipelinedSession::new(portals[0], settings(0));
    session.log_in();
    session.wait_until_ready(0);
    first(&mut session);
    session.write(1, 0, write_cdb(), vec![b'a'; BLOCK]);
    session.pump(&mut Vec::new()).unwrap();
    device.wait_until_held();
    session.cut();
    (device, served, session, portals)
}

fn assert_b_came_last(session: &mut PipelinedSession) {
    let mut read = write_cdb();
    read[0] = 0x88;
    let found = session.run(0, read, BLOCK, Vec::new());
    assert!(found.data_in == [b'b'; BLOCK], "the first write came last");
}

/// Logs in again `logins` times, the last time for good, while the first write is held up, and
/// writes.
fn overtaken(logins: usize) {
    let (device, served, mut session, _) = with_a_late_write(|_| {});
    let again = std::thread::spawn(move || {
        for _ in 1..logins {
            // The impatient initiator goes away before it is answered.
            session.log_in_and_go(Duration::from_millis(100));
        }
        session.log_in();
        session.wait_until_ready(0);
        let written = session.run(0, write_cdb(), 0, vec![b'b'; BLOCK]);
        assert_eq!(written.status, 0);
        session
    });
    // Time enough for a target that does not wait to acknowledge the second write.
    wait::throughout(Duration::from_millis(500), || {
        assert!(!again.is_finished(), "it waits for the late write");
    });
    device.let_go();
    let mut session = again.join().unwrap();
    assert_b_came_last(&mut session);
    session.cut();
    served.stop();
}

/// The other path of a multipath initiator is a session of its own, logged in all the time.
#[test]
fn a_write_of_a_lost_path_never_overtakes_those_of_the_other_path() {
    let (device, served, lost, portals) = with_a_late_write(|_| {});
    let mut other = PipelinedSession::new(portals[1], settings(1));
    other.log_in();
    other.wait_until_ready(0);
    // Only then can an initiator be sure that its path is lost.
    wait::until("the cut is noticed", || served.sessions() == 1);
    let write = std::thread::spawn(move || {
        let written = other.run(0, write_cdb(), 0, vec![b'b'; BLOCK]);
        assert_eq!(written.status, 0);
        other
    });
    wait::throughout(Duration::from_millis(300), || {
        assert!(!write.is_finished(), "it waits for the late write");
    });
    device.let_go();
    let mut other = write.join().unwrap();
    assert_b_came_last(&mut other);
    drop(lost);
    other.cut();
    served.stop();
}

/// An initiator that tries often while a device hangs must not use up the target's sockets.
#[test]
fn a_login_that_waits_for_a_late_write_gives_way_to_a_newer_one() {
    let (device, served, mut session, _) = with_a_late_write(|_| {});
    let mut older = PipelinedSession::new(session.portal, session.settings.clone());
    let waiting = std::thread::spawn(move || older.try_log_in(PATIENCE).is_ok());
    wait::throughout(Duration::from_millis(300), || {
        assert!(!waiting.is_finished(), "it waits for the late write");
    });
    let newer = std::thread::spawn(move || {
        session.log_in();
        session.wait_until_ready(0);
        session
    });
    // Long before the older one loses its patience.
    wait::at_most(PATIENCE / 3).until("the older login gives way", || waiting.is_finished());
    assert!(!waiting.join().unwrap(), "only the newer one may succeed");
    assert!(!newer.is_finished(), "the newer one waits now");
    device.let_go();
    newer.join().unwrap().cut();
    served.stop();
}

#[test]
fn a_write_of_a_lost_connection_never_overtakes_those_after_the_next_login() {
    overtaken(1);
}

#[test]
fn nor_where_the_login_is_given_up_and_tried_again() {
    overtaken(3);
}

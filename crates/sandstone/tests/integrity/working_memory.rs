//! Data that a command reads for itself, to compare or to copy it, is data in flight like any
//! other.
//!
//! However many of these commands are under way, they stay within the memory that the daemon may
//! take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use block::memory::MemoryDevice;
use block::{
    BlockDevice, BlockError, Done, Geometry, Lane, Pages, Request, Submitted, Ticket, Usage,
};
use target::DaemonLimits;
use testing::wait;

use crate::losses::kill::settings;
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const BLOCK: u32 = 512;
const BLOCKS: u32 = (4 << 20) / BLOCK;
const MEMORY: u64 = 16 << 20;
const COMMANDS: u64 = 64;
const GOOD: u8 = 0x00;
const TASK_SET_FULL: u8 = 0x28;

/// Device that answers no read until it is let go, and counts the bytes that wait.
#[derive(Debug)]
struct ReadsWait {
    memory: Arc<MemoryDevice>,
    reading: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl BlockDevice for ReadsWait {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        let Request::Read { len, .. } = request else {
            return Submitted::Ready(Ok(Done::Nothing));
        };
        let bytes = u64::from(len);
        let reading = self.reading.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most.fetch_max(reading, Ordering::SeqCst);
        let (reading, gate) = (self.reading.clone(), self.gate.clone());
        lane.run_blocking(ticket, move || {
            let open = gate.0.lock().unwrap();
            drop(gate.1.wait_while(open, |open| !*open).unwrap());
            reading.fetch_sub(bytes, Ordering::SeqCst);
            Ok(Done::Pages(Pages::from_bytes(&vec![0; len as usize])))
        })
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.memory.usage()
    }
}

#[test]
fn what_tasks_read_for_themselves_stays_within_the_memory() {
    let portal = free_portal();
    let device = Arc::new(ReadsWait {
        memory: Arc::new(MemoryDevice::new((BLOCKS * BLOCK).into(), BLOCK, 1 << 20).unwrap()),
        reading: Arc::default(),
        most: Arc::default(),
        gate: Arc::default(),
    });
    let limits = DaemonLimits {
        memory: MEMORY,
        ..limits()
    };
    let units = vec![unit(0, BLOCKS.into(), BLOCK, true)];
    let served = Served::start(&[portal], units, vec![device.clone()], limits);
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    // VERIFY(16) of the whole unit.
    let mut verify = [0; 16];
    verify[0] = 0x8f;
    verify[10..14].copy_from_slice(&BLOCKS.to_be_bytes());
    let mut ended = Vec::new();
    for cookie in 0..COMMANDS {
        session.write(cookie, 0, verify, Vec::new());
        session.pump(&mut ended).unwrap();
    }
    let most = || device.most.load(Ordering::SeqCst);
    wait::until("the device is asked", || {
        session.pump(&mut ended).unwrap();
        most() > 0
    });
    wait::throughout(Duration::from_millis(300), || {
        session.pump(&mut ended).unwrap();
        assert!(most() <= MEMORY, "{} bytes are read at once", most());
    });
    *device.gate.0.lock().unwrap() = true;
    device.gate.1.notify_all();
    while ended.len() < COMMANDS as usize {
        wait_for_traffic(std::slice::from_ref(&session));
        session.pump(&mut ended).unwrap();
    }
    let count = |status| ended.iter().filter(|end| end.status == status).count();
    assert!(count(GOOD) > 0, "{ended:?}");
    assert!(count(TASK_SET_FULL) > 0, "{ended:?}");
    assert_eq!(count(GOOD) + count(TASK_SET_FULL), ended.len(), "{ended:?}");
    // The memory was given back: now there is room again.
    let verified = session.run(0, verify, 0, Vec::new());
    assert_eq!(verified.status, GOOD);
    session.cut();
    served.stop();
}

//! A listing of units asks each device once, and delays nobody while a device takes its time.

use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};

use block::memory::MemoryDevice;
use block::{
    BlockDevice, BlockError, Geometry, Lane, Request, Submitted, Suspension, Ticket, Usage,
};
use model::data_plane::DataPlane as _;
use model::hindrance::{HindranceKind, Stops};

use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::PATIENCE;

const BLOCK: u32 = 512;

/// Memory that is suspended, and reports that late.
#[derive(Debug)]
struct Suspended {
    memory: MemoryDevice,
    /// Number of queries, and whether they may be answered.
    state: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Suspended {
    fn wait_until_asked(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |it| it.0 == 0).unwrap());
    }

    /// Lets the device answer; returns the number of queries.
    fn let_go(&self) -> u32 {
        let mut state = self.state.lock().unwrap();
        state.1 = true;
        self.changed.notify_all();
        state.0
    }
}

impl BlockDevice for Suspended {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        self.memory.submit(request, ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.memory.usage()
    }

    fn suspension(&self) -> Option<Suspension> {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |it| !it.1).unwrap());
        Some(Suspension {
            reason: "it rests".into(),
            remedy: "wake it".into(),
            stops_reads: false,
        })
    }
}

#[test]
fn a_device_is_asked_once_and_keeps_nobody_waiting() {
    let device = Arc::new(Suspended {
        memory: MemoryDevice::new(8 * u64::from(BLOCK), BLOCK, 1 << 20).unwrap(),
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let units = vec![unit(0, 8, BLOCK, true)];
    let served = Served::start(&[free_portal()], units, vec![device.clone()], limits());
    let service = served.service();
    let lister = std::thread::spawn(move || service.units());
    device.wait_until_asked();
    let (told, answer) = channel();
    let service = served.service();
    let other = std::thread::spawn(move || told.send(service.portals().len()));
    let portals = answer.recv_timeout(PATIENCE);
    device.let_go();
    let listed = lister.join().unwrap();
    other.join().unwrap().unwrap();
    assert_eq!(portals, Ok(1), "it waits for the device");
    assert_eq!(device.let_go(), 1);
    assert_eq!(listed[0].fault.as_deref(), Some("it rests"));
    let [found] = &listed[0].hindrances[..] else {
        panic!("{listed:?}");
    };
    assert_eq!(
        (found.kind, found.stops),
        (HindranceKind::Fault, Stops::Writes)
    );
    served.stop();
}

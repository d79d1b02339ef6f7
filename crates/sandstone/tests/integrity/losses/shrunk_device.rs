//! A device became smaller while the data of a write was on its way: that is no flaw of the medium.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::memory::MemoryDevice;
use block::{BlockDevice, BlockError, Geometry, Lane, Request, Submitted, Ticket, Usage};

use super::fencing::logged_in;
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::wait_for_traffic;

const BLOCK: usize = 512;

#[derive(Debug)]
struct Shrinking {
    memory: MemoryDevice,
    len: AtomicU64,
}

impl BlockDevice for Shrinking {
    fn geometry(&self) -> Geometry {
        Geometry {
            len: self.len.load(Ordering::SeqCst),
            ..self.memory.geometry()
        }
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        match self.geometry().check(&request) {
            Ok(()) => self.memory.submit(request, ticket, lane),
            Err(error) => Submitted::Ready(Err(error)),
        }
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.memory.usage()
    }
}

/// Returns a CDB of 16 bytes for one block.
fn at(opcode: u8, lba: u8) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[9], cdb[13]) = (opcode, lba, 1);
    cdb
}

#[test]
fn what_lies_behind_the_new_end_is_out_of_range() {
    let portal = free_portal();
    let device = Arc::new(Shrinking {
        memory: MemoryDevice::new(8 * BLOCK as u64, BLOCK as u32, 1 << 20).unwrap(),
        len: AtomicU64::new(8 * BLOCK as u64),
    });
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![device.clone()], limits());
    let mut session = logged_in(portal, 1);
    session.write(7, 0, at(0x8a, 7), vec![1; BLOCK]);
    session.send_only();
    // The target has asked for the data: the CDB was looked at.
    wait_for_traffic(std::slice::from_ref(&session));
    device.len.store(4 * BLOCK as u64, Ordering::SeqCst);
    let mut ended = Vec::new();
    while ended.is_empty() {
        wait_for_traffic(std::slice::from_ref(&session));
        session.pump(&mut ended).unwrap();
    }
    assert_eq!(ended[0].sense[2] & 0x0f, 5, "{:x?}", ended[0].sense);
    assert_eq!(ended[0].asc(), Some((0x21, 0x00)));
    // Reads, and tasks of the device server, are refused too.
    for (opcode, length, data) in [(0x88, BLOCK, 0), (0x93, 0, BLOCK)] {
        let ended = session.run(0, at(opcode, 7), length, vec![0; data]);
        assert_eq!(ended.asc(), Some((0x21, 0x00)), "{opcode:02x}");
    }
    drop(session);
    served.stop();
}

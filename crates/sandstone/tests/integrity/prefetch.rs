//! PRE-FETCH warms the cache of a device that has one, and asks nothing of a device that has none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use block::{BlockDevice, BlockError, Geometry, Lane, Request, Submitted, Ticket, Usage};

use crate::losses::kill::settings;
use crate::losses::late_write::BLOCK;
use crate::losses::volatile_disk::VolatileDisk;
use crate::rig::process::free_portal;
use crate::rig::random::Random;
use crate::rig::served::{self, Served, limits};
use crate::rig::session::PipelinedSession;

const BLOCKS: u64 = 8192;

/// Device that counts the bytes that are read.
#[derive(Debug)]
struct Counts {
    disk: VolatileDisk,
    has_cache: bool,
    read: AtomicU64,
    longest: Mutex<u32>,
}

impl BlockDevice for Counts {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn has_read_cache(&self) -> bool {
        self.has_cache
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if let Request::Read { len, .. } = request {
            self.read.fetch_add(len.into(), Ordering::SeqCst);
            let mut longest = self.longest.lock().unwrap();
            *longest = (*longest).max(len);
        }
        self.disk.submit(request, ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.disk.usage()
    }
}

fn read_by_prefetch(has_cache: bool) -> (u64, u32) {
    let disk = Arc::new(Counts {
        disk: VolatileDisk::new(Random::new(1), BLOCKS, BLOCK),
        has_cache,
        read: AtomicU64::new(0),
        longest: Mutex::default(),
    });
    let portal = free_portal();
    let units = vec![served::unit(0, BLOCKS, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![disk.clone()], limits());
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    let mut cdb = [0; 16];
    cdb[0] = 0x34;
    // From block 8 on.
    cdb[5] = 8;
    cdb[7..9].copy_from_slice(&4096_u16.to_be_bytes());
    let ended = session.run(0, cdb, 0, Vec::new());
    assert_eq!(ended.status, 0, "{ended:?}");
    session.cut();
    served.stop();
    let longest = *disk.longest.lock().unwrap();
    (disk.read.load(Ordering::SeqCst), longest)
}

#[test]
fn blocks_are_read_where_a_cache_keeps_them() {
    let (read, longest) = read_by_prefetch(true);
    assert_eq!(read, 4096 * BLOCK as u64);
    assert!(longest <= 1 << 20, "no request hogs the device: {longest}");
}

#[test]
fn nothing_is_read_where_nothing_keeps_it() {
    assert_eq!(read_by_prefetch(false).0, 0);
}

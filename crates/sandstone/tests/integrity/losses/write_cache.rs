//! Write cache that is switched off: an initiator that hears of it flushes no more.
//!
//! Writes that were acknowledged from the cache before must then be durable. Writes that were on
//! their way into the cache must be durable when they are acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use block::{BlockDevice, BlockError, Done, Geometry, Lane, Request, Submitted, Ticket, Usage};
use iscsi::pdu::{TaskManagementFunction, TaskManagementResult};
use testing::wait;

use super::kill::settings;
use super::late_write::{BLOCK, write_cdb};
use super::volatile_disk::VolatileDisk;
use crate::rig::process::free_portal;
use crate::rig::random::Random;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const BLOCKS: u64 = 8;

/// Disk with a cache that takes writes at once and, while it is told to, acknowledges them later.
#[derive(Debug)]
struct AnswersLate {
    disk: VolatileDisk,
    holds: Arc<(Mutex<bool>, Condvar)>,
    is_held: AtomicBool,
}

impl AnswersLate {
    fn new() -> Arc<Self> {
        // The survivors of a cut are drawn. A block with a single version keeps it or has nothing.
        let disk = VolatileDisk::new(Random::new(3), BLOCKS, BLOCK);
        Arc::new(Self {
            disk,
            holds: Arc::default(),
            is_held: AtomicBool::new(false),
        })
    }

    fn hold(&self) {
        *self.holds.0.lock().unwrap() = true;
    }

    fn let_go(&self) {
        *self.holds.0.lock().unwrap() = false;
        self.holds.1.notify_all();
    }

    fn wait_until_held(&self) {
        wait::until("a write reaches the device", || {
            self.is_held.load(Ordering::SeqCst)
        });
    }
}

impl BlockDevice for AnswersLate {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        let is_write = matches!(request, Request::Write { .. });
        // The disk answers at once.
        let submitted = self.disk.submit(request, Ticket::new(0), lane);
        if !is_write || !*self.holds.0.lock().unwrap() {
            return submitted;
        }
        let Submitted::Ready(Ok(Done::Nothing)) = submitted else {
            panic!("the disk does not take a write: {submitted:?}");
        };
        let holds = Arc::clone(&self.holds);
        self.is_held.store(true, Ordering::SeqCst);
        lane.run_blocking(ticket, move || {
            let held = holds.0.lock().unwrap();
            drop(holds.1.wait_while(held, |held| *held).unwrap());
            Ok(Done::Nothing)
        })
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.disk.usage()
    }
}

/// Serves a unit over the disk, and logs in.
fn serve(disk: &Arc<AnswersLate>, write_cache: bool) -> (Served, PipelinedSession) {
    let portals = [free_portal(), free_portal()];
    let units = vec![unit(0, BLOCKS, BLOCK as u32, write_cache)];
    let served = Served::start(&portals, units, vec![disk.clone()], limits());
    let mut session = PipelinedSession::new(portals[0], settings(0));
    session.log_in();
    session.wait_until_ready(0);
    (served, session)
}

/// Returns WRITE(16), or WRITE SAME(16), of the block.
fn write_block(operation_code: u8, lba: u8) -> [u8; 16] {
    let mut cdb = write_cdb();
    (cdb[0], cdb[9]) = (operation_code, lba);
    cdb
}

/// Takes the power away, and returns which of the blocks hold their written data.
fn survivors(disk: &AnswersLate, session: &mut PipelinedSession) -> Vec<bool> {
    disk.disk.cut();
    disk.disk.power_on();
    session.wait_until_ready(0);
    let blocks = 0..BLOCKS as u8;
    let is_there = blocks.map(|lba| {
        let mut read = write_cdb();
        (read[0], read[9]) = (0x88, lba);
        session.run(0, read, BLOCK, Vec::new()).data_in == [b'a'; BLOCK]
    });
    is_there.collect()
}

fn write_all(session: &mut PipelinedSession) {
    for lba in 0..BLOCKS as u8 {
        let written = session.run(0, write_block(0x8a, lba), 0, vec![b'a'; BLOCK]);
        assert_eq!(written.status, 0);
    }
}

#[test]
fn what_was_in_a_write_cache_is_durable_once_an_administrator_has_switched_it_off() {
    let disk = AnswersLate::new();
    let (mut served, mut session) = serve(&disk, true);
    write_all(&mut session);
    served.change(|config| config.units[0].write_cache = false);
    assert_eq!(survivors(&disk, &mut session), [true; BLOCKS as usize]);
    session.cut();
    served.stop();
}

/// Counter-proof of the test before: with a write cache, the disk loses something.
#[test]
fn what_is_in_a_write_cache_may_be_lost() {
    let disk = AnswersLate::new();
    let (served, mut session) = serve(&disk, true);
    write_all(&mut session);
    assert_ne!(survivors(&disk, &mut session), [true; BLOCKS as usize]);
    session.cut();
    served.stop();
}

#[test]
fn a_write_that_is_under_way_while_the_cache_is_switched_off_is_durable_when_it_is_answered() {
    // WRITE(16) and WRITE SAME(16): a plain write, and a task.
    for operation_code in [0x8a, 0x93] {
        let disk = AnswersLate::new();
        let (mut served, mut session) = serve(&disk, true);
        let lbas = 0..BLOCKS as u8;
        disk.hold();
        for lba in lbas.clone() {
            let cdb = write_block(operation_code, lba);
            session.write(lba.into(), 0, cdb, vec![b'a'; BLOCK]);
            session.pump(&mut Vec::new()).unwrap();
        }
        disk.wait_until_held();
        served.change(|config| config.units[0].write_cache = false);
        disk.let_go();
        let mut ended = Vec::new();
        while ended.len() < lbas.len() {
            wait_for_traffic(std::slice::from_ref(&session));
            session.pump(&mut ended).unwrap();
        }
        let good = ended.iter().filter(|command| command.status == 0).count();
        // A write that came after the change was told of it instead.
        assert!(good + 1 >= lbas.len(), "{ended:?}");
        let there = survivors(&disk, &mut session);
        for command in ended.iter().filter(|command| command.status == 0) {
            assert!(there[command.cookie as usize], "{command:?}");
        }
        session.cut();
        served.stop();
    }
}

/// Data that READ returned must not change because the power fails.
#[test]
fn what_was_read_with_force_unit_access_is_durable() {
    let disk = AnswersLate::new();
    let (served, mut session) = serve(&disk, true);
    write_all(&mut session);
    let mut read = write_cdb();
    (read[0], read[1], read[13]) = (0x88, 0x08, BLOCKS as u8);
    let found = session.run(0, read, BLOCKS as usize * BLOCK, Vec::new());
    assert_eq!(found.data_in, [b'a'; BLOCKS as usize * BLOCK]);
    assert_eq!(survivors(&disk, &mut session), [true; BLOCKS as usize]);
    session.cut();
    served.stop();
}

/// MODE SELECT without SP switched it on; a reset brings the saved value back.
#[test]
fn what_was_in_a_write_cache_is_durable_once_a_reset_that_switched_it_off_is_answered() {
    let disk = AnswersLate::new();
    let (served, mut session) = serve(&disk, false);
    let mut sense = [0; 16];
    sense[..6].copy_from_slice(&[0x1a, 0x08, 0x08, 0, 255, 0]);
    let sensed = session.run(0, sense, 255, Vec::new()).data_in;
    let mut list = [&[0; 4], &sensed[4..]].concat();
    list[4 + 2] ^= 0x04;
    let mut select = [0; 16];
    select[..6].copy_from_slice(&[0x15, 0x10, 0, 0, list.len() as u8, 0]);
    let selected = session.run(0, select, 0, list);
    assert_eq!(selected.status, 0, "{selected:?}");
    write_all(&mut session);
    session.manage(9, TaskManagementFunction::LogicalUnitReset, 0, None);
    let mut managed = Vec::new();
    while managed.is_empty() {
        wait_for_traffic(std::slice::from_ref(&session));
        session.pump(&mut Vec::new()).unwrap();
        managed = session.take_managed();
    }
    assert_eq!(managed, [(9, TaskManagementResult::Complete)]);
    assert_eq!(survivors(&disk, &mut session), [true; BLOCKS as usize]);
    session.cut();
    served.stop();
}

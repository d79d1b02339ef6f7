//! A delay shows in the stage in which it arises, and in no other.
//!
//! The tests make a delay of known length. A stage that has the delay lasts at least as long. Other
//! stages last less, unless the machine stalls; then the test tries again.

use std::sync::Arc;
use std::time::Duration;

use block::memory::MemoryDevice;
use model::figures::{CommandKind, CommandStage, KindTotals};
use scsi::BlockRange;
use scsi::range_lock::Hold;
use target::DaemonLimits;
use unit::unit::Unit;

use crate::losses::fencing::logged_in;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{Ended, PipelinedSession, wait};

const DELAY: Duration = Duration::from_millis(300);
/// Tries until a machine that stalls is not the reason any more.
const TRIES: usize = 5;
const BLOCKS: u64 = 64 << 20 >> 9;

/// Runs a case until its delay shows in this stage alone. A case returns the totals of the kind of
/// command that it delayed.
fn shows_in(stage: CommandStage, case: impl Fn() -> KindTotals) {
    let delay = DELAY.as_nanos() as u64;
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let totals = case();
        let spent = totals.stages_ns[stage as usize];
        assert!(spent >= delay, "{stage:?} misses the delay: {totals:?}");
        let others = CommandStage::ALL
            .into_iter()
            .filter(|other| *other != stage);
        let most = others.map(|other| totals.stages_ns[other as usize]).max();
        if most < Some(delay) {
            return;
        }
        seen.push(totals);
    }
    panic!("the delay shows in other stages than {stage:?}: {seen:?}");
}

/// Serves a unit in memory.
fn in_memory() -> (Served, Arc<Unit>, PipelinedSession) {
    let portal = free_portal();
    let size = BLOCKS * BLOCK as u64;
    let device = Arc::new(MemoryDevice::new(size, BLOCK as u32, size).unwrap());
    let units = vec![unit(0, BLOCKS, BLOCK as u32, true)];
    let memory = DaemonLimits {
        memory: 256 << 20,
        ..limits()
    };
    let served = Served::start(&[portal], units, vec![device], memory);
    let unit = served.service().unit_at_work("unit-0").unwrap();
    (served, unit, logged_in(portal, 1))
}

/// Waits for the ends of commands, all of them good.
fn all_end(session: &mut PipelinedSession, commands: usize) {
    let mut ended: Vec<Ended> = Vec::new();
    while ended.len() < commands {
        wait(std::slice::from_ref(session));
        session.pump(&mut ended).unwrap();
    }
    let statuses: Vec<u8> = ended.iter().map(|ended| ended.status).collect();
    assert!(statuses.iter().all(|status| *status == 0), "{statuses:?}");
}

/// Returns a CDB of 16 bytes for these blocks from the first on.
fn cdb(operation: u8, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = operation;
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// Ends a case, and returns the totals of a kind. The answer may reach the test a moment before it
/// is counted.
fn totals(
    served: Served,
    unit: &Unit,
    mut session: PipelinedSession,
    kind: CommandKind,
) -> KindTotals {
    session.cut();
    served.stop();
    unit.timing.totals()[kind as usize]
}

#[test]
fn a_slow_device_shows_in_the_device_stage() {
    shows_in(CommandStage::Device, || {
        let portal = free_portal();
        let device = Arc::new(FirstWriteWaits::new());
        let units = vec![unit(0, 8, BLOCK as u32, true)];
        let served = Served::start(&[portal], units, vec![device.clone()], limits());
        let unit = served.service().unit_at_work("unit-0").unwrap();
        let mut session = logged_in(portal, 1);
        session.write(1, 0, write_cdb(), vec![b'a'; BLOCK]);
        while session.sent() < BLOCK as u64 {
            session.pump(&mut Vec::new()).unwrap();
        }
        device.wait_until_held();
        std::thread::sleep(DELAY);
        device.let_go();
        all_end(&mut session, 1);
        let told = totals(served, &unit, session, CommandKind::Write);
        assert_eq!((told.commands, told.bytes), (1, BLOCK as u64));
        told
    });
}

#[test]
fn a_held_range_shows_in_the_queue_stage() {
    shows_in(CommandStage::Queue, || {
        let (served, unit, mut session) = in_memory();
        let range = BlockRange::new(0, 1).unwrap();
        assert!(unit.range_lock.lock(range, Hold::Exclusive, u64::MAX));
        session.write(1, 0, cdb(0x8a, 1), vec![b'a'; BLOCK]);
        while session.sent() < BLOCK as u64 {
            session.pump(&mut Vec::new()).unwrap();
        }
        // The data is on its way, and arrives long before the time is over.
        std::thread::sleep(2 * DELAY);
        unit.range_lock.unlock(range, Hold::Exclusive);
        all_end(&mut session, 1);
        totals(served, &unit, session, CommandKind::Write)
    });
}

#[test]
fn a_slow_client_shows_in_the_wire_stage() {
    shows_in(CommandStage::WireIn, || {
        let (served, unit, mut session) = in_memory();
        let blocks = 4096;
        session.write(1, 0, cdb(0x8a, blocks), vec![b'a'; blocks as usize * BLOCK]);
        // The command leaves. Its data has to be asked for, and that is not heard for a while.
        session.send_only();
        std::thread::sleep(DELAY);
        all_end(&mut session, 1);
        let told = totals(served, &unit, session, CommandKind::Write);
        assert_eq!(told.bytes, u64::from(blocks) * BLOCK as u64);
        told
    });
}

#[test]
fn a_slow_reader_shows_in_the_reply_stage() {
    shows_in(CommandStage::Reply, || {
        let (served, unit, mut session) = in_memory();
        let (commands, blocks) = (4, 8 << 20 >> 9);
        for cookie in 0..commands {
            let length = blocks as usize * BLOCK;
            session.read(cookie, 0, cdb(0x88, blocks), length);
        }
        session.send_only();
        std::thread::sleep(DELAY);
        all_end(&mut session, commands as usize);
        totals(served, &unit, session, CommandKind::Read)
    });
}

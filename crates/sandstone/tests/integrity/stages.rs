//! A delay shows in the stage in which it arises, and in no other.
//!
//! The tests make a delay of known length. A stage that has the delay lasts at least as long. Other
//! stages last less, unless the machine stalls; then the test tries again.

use std::sync::Arc;
use std::time::Duration;

use block::memory::MemoryDevice;
use model::data_plane::DataPlane as _;
use model::figures::{CommandKind, CommandStage, CommandsRead, Figures, KindTotals};
use scsi::BlockRange;
use scsi::range_lock::Hold;
use target::DaemonLimits;
use testing::wait;
use unit::unit::Unit;

use crate::losses::fencing::logged_in;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{Ended, PipelinedSession, wait_for_traffic};

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
        wait_for_traffic(std::slice::from_ref(session));
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
    unit.tally.totals()[kind as usize]
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
        // The device is slow.
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
        // The client is slow.
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
        // The reader is slow.
        std::thread::sleep(DELAY);
        all_end(&mut session, commands as usize);
        totals(served, &unit, session, CommandKind::Read)
    });
}

/// Each session's commands are told for each unit, and add up to the figures of the session, the
/// port group and the units.
#[test]
fn figures_tell_sessions_and_units_apart() {
    let portal = free_portal();
    let size = BLOCKS * BLOCK as u64;
    let units = vec![
        unit(0, BLOCKS, BLOCK as u32, true),
        unit(1, BLOCKS, BLOCK as u32, true),
    ];
    let memory = || Arc::new(MemoryDevice::new(size, BLOCK as u32, size).unwrap()) as _;
    let mut served = Served::start(&[portal], units, vec![memory(), memory()], limits());
    let mut sessions = [logged_in(portal, 1), logged_in(portal, 2)];
    // Session 1 uses both units, session 2 the second one alone.
    for (session, lun, writes) in [(0, 0, 2), (0, 1, 3), (1, 1, 4)] {
        let session: &mut PipelinedSession = &mut sessions[session];
        session.wait_until_ready(lun);
        for _ in 0..writes {
            let ended = session.run(lun, cdb(0x8a, 1), 0, vec![b'a'; BLOCK]);
            assert_eq!(ended.status, 0);
        }
    }
    let writes = |totals: &[KindTotals; 3]| totals[CommandKind::Write as usize].commands;
    let all_are_counted = |figures: &Figures| {
        let units = figures.units.iter().map(|unit| writes(&unit.totals));
        units.sum::<u64>() == 9
    };
    // An answer may reach the test a moment before it is counted.
    let figures = || served.service().figures(&CommandsRead::new());
    let figures = wait::until_seen("all are counted", figures, all_are_counted);
    let units: Vec<u64> = figures.units.iter().map(|it| writes(&it.totals)).collect();
    assert_eq!(units, [2, 7]);
    let mut told: Vec<_> = Vec::new();
    for session in &figures.sessions {
        let luns = session.luns.iter();
        let luns = luns.map(|lun| (lun.lun, lun.unit.as_str(), writes(&lun.totals)));
        told.push((
            session.initiator.as_str(),
            writes(&session.totals),
            luns.collect::<Vec<_>>(),
        ));
    }
    told.sort();
    let node = |number| format!("iqn.2026-01.io.sandstone:node-{number}");
    let expected = [
        (&*node(1), 5, vec![(0, "unit-0", 2), (1, "unit-1", 3)]),
        // Its login asked the first unit whether it is ready.
        (&*node(2), 4, vec![(0, "unit-0", 0), (1, "unit-1", 4)]),
    ];
    assert_eq!(told, expected);
    let groups = figures.port_groups.iter();
    assert_eq!(groups.map(|group| writes(&group.totals)).sum::<u64>(), 9);
    // Latencies of units at rest are read once.
    let read = figures.units.iter();
    let read = read.map(|unit| (unit.number, model::figures::commands(&unit.totals)));
    let again = served.service().figures(&read.collect());
    assert!(
        again.units.iter().all(|unit| unit.latency.is_none()),
        "{again:?}"
    );
    sessions.iter_mut().for_each(PipelinedSession::cut);
    // A target that is deleted is forgotten, once its sessions have ended.
    served.change(|config| {
        config.targets.clear();
        config.maps.clear();
    });
    wait::until("the port group is forgotten", || {
        let figures = served.service().figures(&CommandsRead::new());
        figures.port_groups.is_empty()
    });
    served.stop();
}

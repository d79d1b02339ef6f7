//! Memory for data in flight stays within the stated cap, whatever initiators leave undone.
//!
//! Well-behaved initiators are served meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};

use block::{BlockDevice, BlockError, Done, Geometry, Lane, Request, Submitted, Ticket, Usage};
use iscsi::initiator::LoginSettings;
use iscsi::negotiation::Limits;
use iscsi::pdu::Isid;
use testing::wait;

use model::config::{BackendSpec, UnitSpec};

use crate::losses::volatile_disk::VolatileDisk;
use crate::rig::process::{Process, TARGET, file_unit, free_portal, target};
use crate::rig::random::Random;
use crate::rig::served::{self, Served};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const MIB: u64 = 1 << 20;
const CAP: u64 = 64 * MIB;
/// Memory that is not data in flight: sessions, sockets, stacks of threads, allocators.
const OVERHEAD: u64 = 40 * MIB;
const GOOD: u8 = 0x00;
const TASK_SET_FULL: u8 = 0x28;

fn process(arguments: &[&str], portal: std::net::SocketAddr) -> Process {
    Process::start(arguments, |config| {
        let (unit, map) = file_unit(0, 128 * MIB / 4096, 4096, true);
        config.targets.push(target(&[portal]));
        config.units.push(unit);
        config.maps.push(map);
    })
}

fn settings(number: u8) -> LoginSettings {
    let settings = LoginSettings::new(
        format!("iqn.2026-01.io.sandstone:many-{number}"),
        Some(TARGET.into()),
        Isid([0x80, 0, 0, 0, 1, number]),
    );
    LoginSettings {
        limits: Limits {
            first_burst_length: 256 << 10,
            max_burst_length: 1 << 20,
            ..settings.limits.clone()
        },
        ..settings
    }
}

fn logged_in(portal: std::net::SocketAddr, number: u8) -> PipelinedSession {
    let mut session = PipelinedSession::new(portal, settings(number));
    session.log_in();
    session.wait_until_ready(0);
    session
}

fn cdb(opcode: u8, block: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&block.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// Serves a well-behaved initiator: block by block, each written and read back.
fn works(session: &mut PipelinedSession) {
    for block in 0..50 {
        let data = vec![block as u8 + 1; 4096];
        let written = session.run(0, cdb(0x8a, block, 1), 0, data.clone());
        assert_eq!(written.status, GOOD, "{:02x?}", written.sense);
        let read = session.run(0, cdb(0x88, block, 1), 4096, Vec::new());
        assert_eq!((read.status, read.data_in == data), (GOOD, true));
    }
}

#[test]
fn writes_whose_data_never_comes_stay_within_the_cap() {
    let portal = free_portal();
    let process = process(&["--threads", "2", "--memory-cap", "64M"], portal);
    let mut good = logged_in(portal, 255);
    let before = process.memory("VmRSS");
    let mut stalled = Vec::new();
    for number in 0..60 {
        let mut session = logged_in(portal, number);
        for command in 0..16 {
            // The largest unsolicited data, and one block that is asked for in vain.
            let blocks = 65;
            let data = vec![0x55; blocks as usize * 4096];
            let block = u64::from(number) * 400 + command * 20;
            session.write(command, 0, cdb(0x8a, block, blocks), data);
        }
        session.send_only();
        stalled.push(session);
        if number % 20 == 19 {
            works(&mut good);
        }
    }
    // Let each of them send the rest that did not fit into its socket at first.
    for _ in 0..20 {
        stalled.iter_mut().for_each(PipelinedSession::send_only);
        works(&mut good);
    }
    let most = process.memory("VmHWM");
    assert!(
        most < before + CAP + OVERHEAD,
        "{} MiB",
        (most - before) / MIB
    );
    stalled.iter_mut().for_each(PipelinedSession::cut);
}

#[test]
fn no_more_sessions_are_taken_than_the_cap_has_room_for() {
    let portal = free_portal();
    let _process = process(&["--threads", "2", "--memory-cap", "64K"], portal);
    let mut sessions: Vec<PipelinedSession> =
        (0..4).map(|number| logged_in(portal, number)).collect();
    let mut fifth = PipelinedSession::new(portal, settings(4));
    assert!(fifth.try_log_in(crate::rig::session::PATIENCE).is_err());
    sessions.iter_mut().for_each(works);
    // When one session ends, there is room for another.
    sessions[0].cut();
    fifth.log_in();
    fifth.wait_until_ready(0);
    works(&mut fifth);
}

#[test]
fn reads_that_nobody_fetches_stay_within_the_cap() {
    let portal = free_portal();
    let process = process(&["--threads", "2", "--memory-cap", "64M"], portal);
    let mut good = logged_in(portal, 255);
    for chunk in 0..64 {
        let data = vec![chunk as u8 + 1; MIB as usize];
        let written = good.run(0, cdb(0x8a, chunk * 256, 256), 0, data);
        assert_eq!(written.status, GOOD);
    }
    let before = process.memory("VmRSS");
    let mut idle = Vec::new();
    for number in 0..40 {
        let mut session = logged_in(portal, number);
        for command in 0..30 {
            session.read(command, 0, cdb(0x88, command * 256, 256), MIB as usize);
        }
        session.send_only();
        idle.push(session);
        if number % 10 == 9 {
            works(&mut good);
        }
    }
    let most = process.memory("VmHWM");
    assert!(
        most < before + CAP + OVERHEAD,
        "{} MiB",
        (most - before) / MIB
    );
    // An initiator that fetches in the end gets everything, or was told to come again.
    let fetched = fetch_all(&mut idle);
    assert!(fetched[&GOOD] > 0);
    let others = fetched
        .keys()
        .find(|status| ![GOOD, TASK_SET_FULL].contains(status));
    assert_eq!(others, None);
    assert_eq!(fetched.values().sum::<u64>(), 40 * 30);
    works(&mut good);
}

/// Short reads of a memory unit send its own pages. Once a page is overwritten, only an unfetched
/// read keeps it.
#[test]
fn short_reads_of_what_is_overwritten_stay_within_the_cap() {
    const SIZE: u64 = 8 * MIB;
    const READS: u64 = 100;
    let portal = free_portal();
    let process = Process::start(&["--threads", "2", "--memory-cap", "64M"], |config| {
        let (unit, map) = file_unit(0, SIZE / 4096, 4096, true);
        config.targets.push(target(&[portal]));
        config.units.push(UnitSpec {
            backend: BackendSpec::Memory { size: SIZE },
            ..unit
        });
        config.maps.push(map);
    });
    let mut good = logged_in(portal, 255);
    let fill = |good: &mut PipelinedSession, byte: u8| {
        // So short that there is always room for it.
        for block in (0..READS * 15).step_by(2) {
            let written = good.run(0, cdb(0x8a, block, 2), 0, vec![byte; 8192]);
            assert_eq!(written.status, GOOD);
        }
    };
    fill(&mut good, 1);
    let before = process.memory("VmRSS");
    let mut idle = Vec::new();
    for number in 0..40 {
        let mut session = logged_in(portal, number);
        for command in 0..READS {
            session.read(command, 0, cdb(0x88, command * 15, 15), 15 * 4096);
        }
        session.send_only();
        idle.push(session);
        // It has taken the data that it asked for, as far as the target gives it.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fill(&mut good, number + 2);
    }
    let most = process.memory("VmHWM");
    assert!(
        most < before + CAP + OVERHEAD,
        "{} MiB",
        (most - before) / MIB
    );
    // The worst status was TASK SET FULL, and the sent data is of one piece.
    let mut ended = Vec::new();
    while (ended.len() as u64) < READS {
        idle[0].pump(&mut ended).unwrap();
        if (ended.len() as u64) < READS {
            wait_for_traffic(&idle[..1]);
        }
    }
    for ended in ended {
        assert!([GOOD, TASK_SET_FULL].contains(&ended.status), "{ended:?}");
        assert!(ended.data_in.iter().all(|byte| *byte == 1));
    }
    works(&mut good);
}

fn fetch_all(sessions: &mut [PipelinedSession]) -> HashMap<u8, u64> {
    let mut by_status = HashMap::new();
    let mut left = 40 * 30;
    while left > 0 {
        let mut ended = Vec::new();
        for session in sessions.iter_mut() {
            session.pump(&mut ended).unwrap();
        }
        if ended.is_empty() {
            wait_for_traffic(sessions);
        }
        for ended in ended {
            let wanted = ended.cookie as u8 + 1;
            let right = ended.data_in.iter().all(|byte| *byte == wanted);
            assert!(right || ended.cookie == 0, "command {}", ended.cookie);
            *by_status.entry(ended.status).or_default() += 1;
            left -= 1;
        }
    }
    by_status
}

/// Disk that takes writes and is busy until it is let go.
#[derive(Debug)]
struct BusyDisk {
    disk: Arc<VolatileDisk>,
    state: Arc<(Mutex<Busy>, Condvar)>,
}

#[derive(Debug, Default)]
struct Busy {
    over: bool,
    held: u64,
    most: u64,
}

impl BlockDevice for BusyDisk {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        let Request::Write { data, .. } = request else {
            return self.disk.submit(request, ticket, lane);
        };
        let len = data.len() as u64;
        let mut busy = self.state.0.lock().unwrap();
        busy.held += len;
        busy.most = busy.most.max(busy.held);
        drop(busy);
        let state = self.state.clone();
        lane.run_blocking(ticket, move || {
            let busy = state.0.lock().unwrap();
            let mut busy = state.1.wait_while(busy, |busy| !busy.over).unwrap();
            busy.held -= len;
            Ok(Done::Nothing)
        })
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.disk.usage()
    }
}

/// Starts a disk of 1,024 blocks of this size that keeps writes, served to four sessions with this
/// much memory.
fn with_a_busy_disk(memory: u64, block: usize) -> (Arc<BusyDisk>, Served, Vec<PipelinedSession>) {
    let portal = free_portal();
    let busy = Arc::new(BusyDisk {
        disk: Arc::new(VolatileDisk::new(Random::new(1), 1024, block)),
        state: Arc::default(),
    });
    let limits = target::DaemonLimits {
        memory,
        ..served::limits()
    };
    let units = vec![served::unit(0, 1024, block as u32, true)];
    let served = Served::start(&[portal], units, vec![busy.clone()], limits);
    let sessions = (0..4).map(|number| logged_in(portal, number)).collect();
    (busy, served, sessions)
}

#[test]
fn writes_that_a_slow_disk_holds_stay_within_the_cap() {
    const LIMIT: u64 = 4 * MIB;
    let (busy, served, mut sessions) = with_a_busy_disk(LIMIT, 4096);
    for session in &mut sessions {
        for command in 0..20 {
            let data = vec![7; 256 << 10];
            session.write(command, 0, cdb(0x8a, command, 64), data);
        }
    }
    let mut statuses = Vec::new();
    wait::until("all writes end", || {
        let mut ended = Vec::new();
        for session in &mut sessions {
            session.pump(&mut ended).unwrap();
        }
        statuses.extend(ended.iter().map(|ended| ended.status));
        let held = busy.state.0.lock().unwrap().held;
        // All writes that are not held were refused: now the disk may go on.
        if ended.is_empty() && (held >> 18) + statuses.len() as u64 == 80 {
            busy.state.0.lock().unwrap().over = true;
            busy.state.1.notify_all();
        }
        statuses.len() >= 4 * 20
    });
    let most = busy.state.0.lock().unwrap().most;
    assert!(most <= LIMIT, "{} KiB", most >> 10);
    let count = |wanted: u8| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(count(GOOD) + count(TASK_SET_FULL), statuses.len());
    assert!(count(GOOD) >= 4, "each session gets its part");
    sessions.iter_mut().for_each(PipelinedSession::cut);
    served.stop();
}

/// A short write takes a page, and whole pages count.
#[test]
fn short_writes_that_a_slow_disk_holds_stay_within_the_cap() {
    const LIMIT: u64 = MIB;
    const PAGE: u64 = 4096;
    let (busy, served, mut sessions) = with_a_busy_disk(LIMIT, 512);
    for session in &mut sessions {
        for command in 0..100 {
            session.write(command, 0, cdb(0x8a, command, 1), vec![7; 512]);
        }
    }
    let mut answered = 0;
    let counts = || {
        let mut ended = Vec::new();
        for session in &mut sessions {
            session.pump(&mut ended).unwrap();
        }
        answered += ended.len() as u64;
        (busy.state.0.lock().unwrap().held / 512, answered)
    };
    let what = "all are held or answered";
    let (held, _) = wait::until_seen(what, counts, |(held, answered)| held + answered == 400);
    assert!(held * PAGE <= LIMIT, "{held} pages");
    assert!(held >= 4, "each session gets its part");
    busy.state.0.lock().unwrap().over = true;
    busy.state.1.notify_all();
    sessions.iter_mut().for_each(PipelinedSession::cut);
    served.stop();
}

#[test]
fn whoever_sits_on_scarce_memory_is_sent_away() {
    let portal = free_portal();
    let disk = Arc::new(VolatileDisk::new(Random::new(1), 1024, 4096));
    let limits = target::DaemonLimits {
        memory: 2 * MIB,
        stall_timeout: std::time::Duration::from_secs(2),
        ..served::limits()
    };
    let units = vec![served::unit(0, 1024, 4096, true)];
    let served = Served::start(&[portal], units, vec![disk], limits);
    let mut stalled: Vec<PipelinedSession> =
        (0..8).map(|number| logged_in(portal, number)).collect();
    for session in &mut stalled {
        for command in 0..8 {
            // Half of it may come unsolicited; the other half is asked for in vain.
            let data = vec![7; 512 << 10];
            session.write(command, 0, cdb(0x8a, command, 128), data);
        }
        session.send_only();
    }
    let mut good = logged_in(portal, 255);
    let write = |good: &mut PipelinedSession| {
        let data = vec![8; 512 << 10];
        good.run(0, cdb(0x8a, 0, 128), 0, data).status
    };
    assert_eq!(write(&mut good), TASK_SET_FULL);
    wait::until("the memory comes back", || write(&mut good) == GOOD);
    stalled.iter_mut().for_each(PipelinedSession::cut);
    good.cut();
    served.stop();
}

/// Lets 20 sessions send `flood` each, as far as the target takes it, and returns the memory that
/// this costs.
fn cost_of(flood: &[u8]) -> u64 {
    let portal = free_portal();
    let process = process(&["--threads", "2", "--memory-cap", "64M"], portal);
    let mut good = logged_in(portal, 255);
    let before = process.memory("VmRSS");
    let mut sessions: Vec<PipelinedSession> =
        (0..20).map(|number| logged_in(portal, number)).collect();
    let mut sent = [0; 20];
    for _ in 0..40 {
        for (session, sent) in sessions.iter_mut().zip(&mut sent) {
            *sent += session.send_some(&flood[*sent..]);
        }
        works(&mut good);
    }
    sessions.iter_mut().for_each(PipelinedSession::cut);
    process.memory("VmHWM").saturating_sub(before)
}

#[test]
fn commands_ahead_of_their_turn_stay_within_the_cap() {
    let mut flood = Vec::new();
    for number in 0..100_u32 {
        let mut command = vec![0; 48];
        (command[0], command[1]) = (0x01, 0xa1);
        let length = 256_u32 << 10;
        command[4..8].copy_from_slice(&length.to_be_bytes());
        command[16..20].copy_from_slice(&(1000 + number).to_be_bytes());
        command[20..24].copy_from_slice(&length.to_be_bytes());
        // The one that is due is never sent; these fit into the window behind it.
        command[24..28].copy_from_slice(&(20 + number).to_be_bytes());
        command[32..48].copy_from_slice(&cdb(0x8a, 0, 64));
        flood.extend(command);
        flood.resize(flood.len() + length as usize, 0x55);
    }
    let cost = cost_of(&flood);
    assert!(cost < CAP + OVERHEAD, "{} MiB", cost / MIB);
}

#[test]
fn pings_whose_answers_nobody_fetches_stay_within_the_cap() {
    let mut flood = Vec::new();
    for number in 0..300_u32 {
        let mut ping = vec![0; 48];
        (ping[0], ping[1]) = (0x40, 0x80);
        let length = 64_u32 << 10;
        ping[4..8].copy_from_slice(&length.to_be_bytes());
        ping[16..20].copy_from_slice(&(1000 + number).to_be_bytes());
        ping[20..24].fill(0xff);
        flood.extend(ping);
        flood.resize(flood.len() + length as usize, 0x55);
    }
    let cost = cost_of(&flood);
    assert!(cost < CAP + OVERHEAD, "{} MiB", cost / MIB);
}

/// A well-behaved session has a second connection that is ahead by more than is kept.
///
/// That connection waits until the first one has sent the command that is due.
#[test]
fn a_connection_that_is_ahead_waits_for_the_other() {
    let portal = free_portal();
    let disk = Arc::new(VolatileDisk::new(Random::new(1), 1024, 4096));
    let units = vec![served::unit(0, 1024, 4096, true)];
    let served = Served::start(&[portal], units, vec![disk], served::limits());
    let mut first = PipelinedSession::new(portal, settings(1));
    first.settings.limits.max_connections = 2;
    first.log_in();
    first.wait_until_ready(0);
    let mut second = first.second_connection(1);
    second.log_in();
    for command in 0..20 {
        let data = vec![command as u8 + 1; 256 << 10];
        second.write(command, 0, cdb(0x8a, command * 32, 64), data);
    }
    let mut ended = Vec::new();
    wait::throughout(std::time::Duration::from_millis(100), || {
        second.pump(&mut ended).unwrap();
        assert!(ended.is_empty(), "not before their turn");
    });
    assert_eq!(first.run(0, [0; 16], 0, Vec::new()).status, GOOD);
    let mut sessions = [second];
    while ended.len() < 20 {
        wait_for_traffic(&sessions);
        sessions[0].pump(&mut ended).unwrap();
    }
    assert!(ended.iter().all(|ended| ended.status == GOOD), "{ended:?}");
    // In order, each over the half of the one before.
    let mut reader = logged_in(portal, 2);
    for command in 0..20 {
        let found = reader.run(0, cdb(0x88, command * 32, 32), 128 << 10, Vec::new());
        assert!(found.data_in.iter().all(|byte| *byte == command as u8 + 1));
    }
    reader.cut();
    first.cut();
    served.stop();
}

/// The data of a due command comes behind more than is kept ahead of its turn, on its connection.
///
/// The target must read on for that data nevertheless.
#[test]
fn a_connection_that_is_ahead_is_read_on_for_the_data_of_the_command_that_is_due() {
    const HALF: usize = 128 << 10;
    let portal = free_portal();
    let disk = Arc::new(VolatileDisk::new(Random::new(1), 1024, 4096));
    let units = vec![served::unit(0, 1024, 4096, true)];
    let served = Served::start(&[portal], units, vec![disk], served::limits());
    let mut first = PipelinedSession::new(portal, settings(1));
    first.settings.limits.max_connections = 2;
    first.settings.limits.initial_r2t = false;
    first.log_in();
    first.wait_until_ready(0);
    let mut second = first.second_connection(1);
    second.log_in();
    // Two writes, and a half of each one's data; then the other halves.
    let mut flood = Vec::new();
    for number in 0..3_u32 {
        flood.extend(write_pdu(number, second.settings.cmd_sn + number, HALF));
        flood.resize(flood.len() + HALF, number as u8 + 1);
    }
    for number in 0..3_u32 {
        let mut data_out = vec![0; 48];
        (data_out[0], data_out[1]) = (0x05, 0x80);
        data_out[4..8].copy_from_slice(&(HALF as u32).to_be_bytes());
        data_out[16..20].copy_from_slice(&(1000 + number).to_be_bytes());
        data_out[20..24].fill(0xff);
        data_out[40..44].copy_from_slice(&(HALF as u32).to_be_bytes());
        flood.extend(data_out);
        flood.resize(flood.len() + HALF, number as u8 + 1);
    }
    let mut sent = 0;
    let mut reader = logged_in(portal, 2);
    let whole = |reader: &mut PipelinedSession, number: u8| {
        let block = u64::from(number) * 64;
        let found = reader.run(0, cdb(0x88, block, 64), 2 * HALF, Vec::new());
        found.data_in.iter().all(|byte| *byte == number + 1)
    };
    // The target takes what it keeps ahead of its turn.
    wait::throughout(std::time::Duration::from_millis(50), || {
        sent += second.send_some(&flood[sent..]);
    });
    assert_eq!(first.run(0, [0; 16], 0, Vec::new()).status, GOOD);
    // Far below the time in which a ping finds a silent initiator dead.
    wait::at_most(std::time::Duration::from_secs(10)).until("all is written", || {
        sent += second.send_some(&flood[sent..]);
        (0..3).all(|number| whole(&mut reader, number))
    });
    reader.cut();
    first.cut();
    second.cut();
    served.stop();
}

/// Returns the header of a write of 64 blocks with this much immediate data; unsolicited data
/// follows.
fn write_pdu(number: u32, cmd_sn: u32, immediate: usize) -> Vec<u8> {
    let mut command = vec![0; 48];
    (command[0], command[1]) = (0x01, 0x21);
    command[4..8].copy_from_slice(&(immediate as u32).to_be_bytes());
    command[16..20].copy_from_slice(&(1000 + number).to_be_bytes());
    command[20..24].copy_from_slice(&(256_u32 << 10).to_be_bytes());
    command[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    command[32..48].copy_from_slice(&cdb(0x8a, u64::from(number) * 64, 64));
    command
}

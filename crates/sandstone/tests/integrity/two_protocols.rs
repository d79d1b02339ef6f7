//! One unit over iSCSI and over NBD at once: reservations, write protection, atomic commands,
//! statistics and readiness hold for both, and neither suffers from what is SCSI's own.

#[path = "../nbd/client.rs"]
#[expect(dead_code, reason = "the tests of NBD use the rest")]
mod client;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use block::BlockDevice;
use block::delay::DelayDevice;
use block::memory::MemoryDevice;
use iscsi::pdu::{TaskManagementFunction, TaskManagementResult};
use nbd::wire::command;
use nbd_server::{Endpoint, Loops, Server, ServerOptions};
use unit::unit::Unit;

use self::client::Client;
use super::losses::fencing::{logged_in, one_block, persistent_reserve_out};
use super::rig::process::free_portal;
use super::rig::served::{self, Served};
use super::rig::session::{PipelinedSession, wait_for_traffic};

const BLOCK: usize = 512;
const BLOCKS: u64 = 2048;
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const RESERVATION_CONFLICT: u8 = 0x18;
const MISCOMPARE: Option<(u8, u8)> = Some((0x1d, 0x00));
const WRITE_PROTECTED: Option<(u8, u8)> = Some((0x27, 0x02));
/// Errors of NBD.
const DONE: u32 = 0;
const EPERM: u32 = 1;
const EIO: u32 = 5;

/// A unit that both protocols serve.
struct Both {
    served: Option<Served>,
    nbd: Option<Server>,
    socket: PathBuf,
    unit: Arc<Unit>,
    portal: std::net::SocketAddr,
    _folder: tempfile::TempDir,
}

impl Both {
    /// `latency` is that of its device.
    fn start(latency: Option<Duration>) -> Self {
        let portal = free_portal();
        let len = BLOCKS * BLOCK as u64;
        let memory = Arc::new(MemoryDevice::new(len, BLOCK as u32, len).unwrap());
        let device: Arc<dyn BlockDevice> = match latency {
            Some(latency) => Arc::new(DelayDevice::new(memory, latency, None)),
            None => memory,
        };
        let units = vec![served::unit(0, BLOCKS, BLOCK as u32, true)];
        let served = Served::start(&[portal], units, vec![device], served::limits());
        let unit = served.service().unit_at_work("unit-0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nbd");
        let options = ServerOptions {
            name: String::new(),
            description: String::new(),
            read_only: false,
            endpoints: vec![Endpoint::Unix(socket.clone())],
            tls: None,
            memory_cap: 64 << 20,
            max_connections: 8,
        };
        let loops = Loops::prepare(2, false).unwrap();
        let nbd = Server::start(loops, Arc::clone(&unit), &options).unwrap();
        Self {
            served: Some(served),
            nbd: Some(nbd),
            socket,
            unit,
            portal,
            _folder: folder,
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket)
    }

    /// Takes the unit offline, or back.
    fn set_offline(&mut self, offline: bool) {
        let served = self.served.as_mut().unwrap();
        served.change(|config| config.units[0].offline = offline);
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        if let Some(server) = self.nbd.take() {
            server.stop();
        }
        if let Some(served) = self.served.take() {
            served.stop();
        }
    }
}

fn write(session: &mut PipelinedSession, byte: u8) -> u8 {
    let ended = session.run(0, one_block(0x8a), 0, vec![byte; BLOCK]);
    ended.status
}

fn read(session: &mut PipelinedSession) -> Vec<u8> {
    let ended = session.run(0, one_block(0x88), BLOCK, Vec::new());
    assert_eq!(ended.status, GOOD, "{ended:?}");
    ended.data_in
}

/// Returns the answers to a client's requests of each kind: to read, ask for extents, write, trim,
/// zero and flush.
fn answers(client: &mut Client) -> [u32; 6] {
    let read = client.read(0, BLOCK as u32).err().unwrap_or(DONE);
    let len = BLOCK as u32;
    [
        read,
        client.ask(0, command::BLOCK_STATUS, 0, len),
        client.write(0, &[9; BLOCK], 0),
        client.ask(0, command::TRIM, 0, len),
        client.ask(0, command::WRITE_ZEROES, 0, len),
        client.ask(0, command::FLUSH, 0, 0),
    ]
}

/// Sets or clears SWP in the control mode page.
fn write_protect(session: &mut PipelinedSession, on: bool) {
    let mut sense = [0; 16];
    sense[..6].copy_from_slice(&[0x1a, 0x08, 0x0a, 0, 255, 0]);
    let mut list = session.run(0, sense, 255, Vec::new()).data_in;
    // The header is reserved in MODE SELECT, and so is PS.
    list[..4].fill(0);
    list[4] &= 0x7f;
    list[4 + 4] = list[4 + 4] & !0x08 | u8::from(on) << 3;
    let mut select = [0; 16];
    select[..6].copy_from_slice(&[0x15, 0x10, 0, 0, list.len() as u8, 0]);
    let ended = session.run(0, select, 0, list);
    assert_eq!(ended.status, GOOD, "{ended:?}");
}

#[test]
fn a_reservation_taken_over_iscsi_holds_for_nbd() {
    let both = Both::start(None);
    let mut owner = logged_in(both.portal, 1);
    let mut other = logged_in(both.portal, 2);
    let mut client = both.client();
    let (cdb, list) = persistent_reserve_out(0, 0, 0, 42);
    assert_eq!(owner.run(0, cdb, 0, list).status, GOOD);
    assert_eq!(answers(&mut client), [DONE; 6], "a registration alone");
    for (kind, reading) in [(1, DONE), (3, EPERM)] {
        assert_eq!(write(&mut owner, 5), GOOD);
        let (cdb, list) = persistent_reserve_out(1, kind, 42, 0);
        assert_eq!(owner.run(0, cdb, 0, list).status, GOOD);
        let expected = [reading, reading, EPERM, EPERM, EPERM, EPERM];
        assert_eq!(answers(&mut client), expected, "type {kind}");
        // Also one that comes later.
        assert_eq!(answers(&mut both.client()), expected, "type {kind}");
        assert_eq!(write(&mut other, 6), RESERVATION_CONFLICT);
        assert_eq!(read(&mut owner), [5; BLOCK], "type {kind}");
        let (cdb, list) = persistent_reserve_out(2, kind, 42, 0);
        assert_eq!(owner.run(0, cdb, 0, list).status, GOOD);
        assert_eq!(answers(&mut client), [DONE; 6], "released");
        other.wait_until_ready(0);
    }
}

#[test]
fn write_protection_set_over_iscsi_holds_for_nbd() {
    let both = Both::start(None);
    let mut session = logged_in(both.portal, 1);
    let mut client = both.client();
    assert_eq!(write(&mut session, 5), GOOD);
    write_protect(&mut session, true);
    let refused = session.run(0, one_block(0x8a), 0, vec![6; BLOCK]);
    assert_eq!(refused.status, CHECK_CONDITION);
    assert_eq!(refused.asc(), WRITE_PROTECTED);
    let expected = [DONE, DONE, EPERM, EPERM, EPERM, DONE];
    assert_eq!(answers(&mut client), expected);
    assert_eq!(client.read(0, BLOCK as u32).unwrap(), [5; BLOCK]);
    write_protect(&mut session, false);
    assert_eq!(answers(&mut client), [DONE; 6]);
}

#[test]
fn an_offline_unit_serves_neither_protocol() {
    let mut both = Both::start(None);
    let mut session = logged_in(both.portal, 1);
    let mut client = both.client();
    both.set_offline(true);
    let refused = session.run(0, one_block(0x88), BLOCK, Vec::new());
    assert_eq!(refused.status, CHECK_CONDITION);
    assert_eq!(refused.asc(), Some((0x04, 0x12)));
    assert_eq!(answers(&mut client), [EIO; 6]);
    both.set_offline(false);
    assert_eq!(answers(&mut client), [DONE; 6]);
    session.wait_until_ready(0);
    assert_eq!(write(&mut session, 1), GOOD);
}

#[test]
fn statistics_count_both_protocols() {
    let both = Both::start(None);
    let mut session = logged_in(both.portal, 1);
    let mut client = both.client();
    let before = both.unit.logical.statistics().totals();
    for byte in 0..3 {
        assert_eq!(write(&mut session, byte), GOOD);
    }
    assert_eq!(client.write(0, &[7; 4 * BLOCK], 0), DONE);
    assert_eq!(read(&mut session), [7; BLOCK]);
    assert!(client.read(0, 8 * BLOCK as u32).is_ok());
    assert!(client.read(0, BLOCK as u32).is_ok());
    let after = both.unit.logical.statistics().totals();
    assert_eq!(after.write_commands - before.write_commands, 4);
    assert_eq!(after.write_blocks - before.write_blocks, 3 + 4);
    assert_eq!(after.read_commands - before.read_commands, 3);
    assert_eq!(after.read_blocks - before.read_blocks, 1 + 8 + 1);
    // The times of both are counted, once their answers have left.
    let unit = Arc::clone(&both.unit);
    session.cut();
    drop((client, both));
    let [reads, writes, others] = unit.tally.totals();
    assert_eq!((reads.commands, writes.commands), (3, 4));
    assert_eq!(reads.bytes, 10 * BLOCK as u64);
    assert_eq!(writes.bytes, 7 * BLOCK as u64);
    assert!(others.commands > 0, "the login's questions");
}

/// A block that says who wrote it last.
fn block(number: u64, is_claimed: bool) -> Vec<u8> {
    let mut block = vec![u8::from(is_claimed); BLOCK];
    block[..8].copy_from_slice(&number.to_be_bytes());
    block
}

fn number(block: &[u8]) -> u64 {
    let (number, _) = block.split_first_chunk().unwrap();
    u64::from_be_bytes(*number)
}

/// An NBD client writes numbers, one after the other; an initiator claims the number that it finds
/// by COMPARE AND WRITE. If the command were not atomic, a claim of an old number would sooner or
/// later replace a new number, and the client would find it there.
#[test]
fn compare_and_write_is_atomic_against_writes_of_nbd() {
    const ROUNDS: u64 = 500;
    let both = Both::start(Some(Duration::from_micros(300)));
    let mut session = logged_in(both.portal, 1);
    let mut client = both.client();
    assert_eq!(client.write(0, &block(0, false), 0), DONE);
    let newest = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let (claims, misses) = std::thread::scope(|threads| {
        let claimer = threads.spawn(|| {
            let (mut claims, mut misses) = (0, 0);
            loop {
                // The last number is claimed in any case.
                let was_over = is_over.load(Ordering::Acquire);
                let found = read(&mut session);
                let claimed = block(number(&found), true);
                if found == claimed {
                    if was_over {
                        break;
                    }
                    continue;
                }
                while number(&found) % 4 == 3
                    && newest.load(Ordering::Acquire) == number(&found)
                    && !is_over.load(Ordering::Acquire)
                {
                    std::thread::yield_now();
                }
                let data = [found, claimed].concat();
                let ended = session.run(0, one_block(0x89), 0, data);
                match ended.status {
                    GOOD => claims += 1,
                    _ => {
                        assert_eq!(ended.asc(), MISCOMPARE, "{ended:?}");
                        misses += 1;
                    }
                }
            }
            (claims, misses)
        });
        let mut lost = Vec::new();
        for round in 1..=ROUNDS {
            assert_eq!(client.write(0, &block(round, false), 0), DONE);
            newest.store(round, Ordering::Release);
            let found = client.read(0, BLOCK as u32).unwrap();
            if number(&found) != round {
                lost.push(round);
            }
            // The next write meets the claimer at any of its steps.
            std::thread::sleep(Duration::from_micros(round * 7919 % 3000));
        }
        is_over.store(true, Ordering::Release);
        let counts = claimer.join().unwrap();
        assert!(lost.is_empty(), "writes {lost:?} were lost; {counts:?}");
        counts
    });
    // Both ways were taken, so they met.
    assert!(claims > 0 && misses > 0, "{claims} claims, {misses} misses");
    assert!(claims <= ROUNDS + 1, "no number is claimed twice");
}

/// Resets the logical unit, and waits for the response.
fn reset(session: &mut PipelinedSession) {
    session.manage(7, TaskManagementFunction::LogicalUnitReset, 0, None);
    let mut answered = Vec::new();
    while answered.is_empty() {
        session.pump(&mut Vec::new()).unwrap();
        answered = session.take_managed();
        if answered.is_empty() {
            wait_for_traffic(std::slice::from_ref(session));
        }
    }
    assert_eq!(answered, [(7, TaskManagementResult::Complete)]);
}

/// Sends requests for one block each, of which a slow device has none answered when this returns.
fn send_slow(client: &mut Client, kind: u16, count: u64) {
    for cookie in 1..=count {
        client.send(0, kind, cookie, cookie * BLOCK as u64, BLOCK as u32);
    }
    // No device is asked about blocks behind the end, so this is answered first.
    client.send(0, command::READ, 99, BLOCKS * BLOCK as u64, BLOCK as u32);
    assert_eq!(client.receive().cookie, 99);
}

#[test]
fn a_reset_is_answered_after_requests_of_nbd_that_came_before() {
    let both = Both::start(Some(Duration::from_millis(300)));
    let mut session = logged_in(both.portal, 1);
    let mut client = both.client();
    let before = both.unit.logical.statistics().totals();
    send_slow(&mut client, command::READ, 16);
    reset(&mut session);
    let after = both.unit.logical.statistics().totals();
    assert_eq!(after.read_commands - before.read_commands, 16);
    for _ in 1..=16 {
        assert_eq!(client.receive().error, DONE);
    }
}

#[test]
fn a_deleted_unit_ends_requests_of_nbd_and_takes_no_more() {
    let mut both = Both::start(Some(Duration::from_millis(300)));
    let mut client = both.client();
    let before = both.unit.logical.statistics().totals();
    send_slow(&mut client, command::READ, 16);
    let served = both.served.as_mut().unwrap();
    served.change(|config| {
        config.maps.clear();
        config.units.clear();
    });
    let after = both.unit.logical.statistics().totals();
    assert_eq!(after.read_commands - before.read_commands, 16);
    for _ in 1..=16 {
        assert_eq!(client.receive().error, DONE);
    }
    assert_eq!(answers(&mut client), [EIO; 6]);
}

#[test]
fn resets_and_lost_connections_of_one_protocol_harm_nothing_of_the_other() {
    let both = Both::start(Some(Duration::from_millis(100)));
    let mut session = logged_in(both.portal, 1);
    let mut client = both.client();
    let mut lost = both.client();
    for cookie in 1..=16 {
        let at = cookie * BLOCK as u64;
        client.send(0, command::WRITE_ZEROES, cookie, at, BLOCK as u32);
        lost.send(0, command::WRITE_ZEROES, cookie, at, BLOCK as u32);
    }
    reset(&mut session);
    for _ in 1..=16 {
        assert_eq!(client.receive().error, DONE);
    }
    // The reset is told to initiators alone.
    assert_eq!(answers(&mut client), [DONE; 6]);
    let told = session.run(0, [0; 16], 0, Vec::new());
    assert_eq!(told.status, CHECK_CONDITION);
    session.wait_until_ready(0);
    // A connection that goes while its requests are under way leaves the session's commands alone.
    for cookie in 1..=16 {
        lost.send(0, command::WRITE_ZEROES, cookie, 0, BLOCK as u32);
    }
    session.write(1, 0, one_block(0x8a), vec![3; BLOCK]);
    session.send_only();
    drop(lost);
    let mut ended = Vec::new();
    while ended.is_empty() {
        wait_for_traffic(std::slice::from_ref(&session));
        session.pump(&mut ended).unwrap();
    }
    assert_eq!(ended[0].status, GOOD, "{ended:?}");
    // And one that ends takes nothing of the unit with it.
    session.cut();
    assert_eq!(answers(&mut client), [DONE; 6]);
}

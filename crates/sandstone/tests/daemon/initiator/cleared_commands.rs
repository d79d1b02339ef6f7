//! Commands that a target aborted without an answer, as a unit attention tells.
//!
//! Unit attentions that come with commands of the adapter itself are heeded too. No command times
//! out in these tests: whatever was lost is repeated at once.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use block::{BlockDevice as _, Pages, Request};

use super::driver::Driver;
use super::fake_target::{Command, FakeTarget, Peer, World};

const READ: u8 = 0x88;
const WRITE: u8 = 0x8a;
const TEST_UNIT_READY: u8 = 0x00;
const READ_CAPACITY: u8 = 0x9e;
const SIZE: usize = 1 << 20;

fn write(driver: &mut Driver, token: u64) {
    let data = Pages::from_bytes(&[7; 4096]);
    let offset = token * 4096;
    driver.submit(
        token,
        Request::Write {
            offset,
            data,
            durable: false,
        },
    );
}

/// Waits until this number of requests have ended well.
fn all_end(driver: &mut Driver, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut ended = 0;
    while ended < count {
        assert!(Instant::now() < deadline, "{ended} of {count} ended");
        for (token, outcome) in driver.take_until(deadline) {
            assert!(outcome.is_ok(), "{token}: {outcome:?}");
            ended += 1;
        }
    }
}

/// Starts a target that swallows its first writes, and answers the first read with this unit
/// attention.
fn clears(swallowed: usize, attention: [u8; 3]) -> FakeTarget {
    let (writes, reads) = (AtomicUsize::new(0), AtomicUsize::new(0));
    FakeTarget::start(World::of(&[SIZE]), move |peer, command| {
        match command.opcode() {
            WRITE => Ok(writes.fetch_add(1, Ordering::Relaxed) < swallowed),
            READ if reads.fetch_add(1, Ordering::Relaxed) == 0 => peer.sense(command, attention),
            _ => Ok(false),
        }
    })
}

#[test]
fn commands_that_a_target_cleared_are_repeated_at_once() {
    for attention in [
        // Power on, LOGICAL UNIT RESET by another initiator, and loss of the nexus.
        [6, 0x29, 0x00],
        [6, 0x29, 0x03],
        [6, 0x29, 0x07],
        // CLEAR TASK SET of another initiator, and the two other reasons.
        [6, 0x2f, 0x00],
        [6, 0x2f, 0x01],
        [6, 0x2f, 0x02],
        // PREEMPT AND ABORT.
        [6, 0x2a, 0x03],
        [6, 0x2a, 0x05],
    ] {
        let fake = clears(3, attention);
        let mut driver = Driver::open(&fake.url("?command_timeout=600")).unwrap();
        (1..4).for_each(|token| write(&mut driver, token));
        driver.submit(
            0,
            Request::Read {
                offset: 0,
                len: 4096,
            },
        );
        all_end(&mut driver, 4);
        assert_eq!(fake.world().disks[0].writes, 3, "{attention:x?}");
        assert_eq!(fake.lives(), 1, "{attention:x?}");
    }
}

#[test]
fn other_unit_attentions_leave_commands_alone() {
    for attention in [[6, 0x2a, 0x01], [6, 0x2a, 0x04], [6, 0x2a, 0x09]] {
        let fake = clears(1, attention);
        let mut driver = Driver::open(&fake.url("?command_timeout=600")).unwrap();
        write(&mut driver, 1);
        assert_eq!(read_beside(&mut driver), 1, "{attention:x?}");
        driver.idle(Duration::from_millis(200));
        assert_eq!(fake.world().disks[0].writes, 0, "{attention:x?}");
    }
}

/// Reads while another request is under way, and returns the number of requests that ended.
fn read_beside(driver: &mut Driver) -> usize {
    driver.submit(
        0,
        Request::Read {
            offset: 0,
            len: 4096,
        },
    );
    let taken = driver.take_until(Instant::now() + Duration::from_secs(30));
    assert!(matches!(taken[..], [(0, Ok(_))]), "{taken:?}");
    taken.len()
}

/// Returns a target whose unit has grown since it was opened, and a driver of it. `tells` sees each
/// command with the number of reads so far.
fn grows(
    tells: impl Fn(&mut Peer, &Command, usize) -> io::Result<bool> + Send + Sync + 'static,
) -> (FakeTarget, Driver) {
    let reads = AtomicUsize::new(0);
    let fake = FakeTarget::start(World::of(&[SIZE]), move |peer, command| {
        let number = match command.opcode() {
            READ => reads.fetch_add(1, Ordering::Relaxed) + 1,
            _ => reads.load(Ordering::Relaxed),
        };
        tells(peer, command, number)
    });
    let driver = Driver::open(&fake.url("?command_timeout=600")).unwrap();
    let mut world = fake.world();
    world.disks[0].data.resize(2 * SIZE, 9);
    world.disks[0].last_lba = (2 * SIZE / 512 - 1) as u64;
    drop(world);
    (fake, driver)
}

fn is_known_to_have_grown(driver: &mut Driver) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while driver.device.geometry().len < 2 * SIZE as u64 {
        assert!(Instant::now() < deadline, "the old size stays");
        driver.idle(Duration::from_millis(5));
    }
}

/// The answer to READ CAPACITY (16) is the next unit attention, or no answer at all.
#[test]
fn a_capacity_that_was_not_told_is_asked_for_again() {
    for is_swallowed in [false, true] {
        let asked = AtomicUsize::new(0);
        let (_fake, mut driver) =
            grows(
                move |peer, command, reads| match (command.opcode(), reads) {
                    (READ, 1) => peer.sense(command, [6, 0x2a, 0x09]),
                    (READ, 2) if is_swallowed => peer.sense(command, [6, 0x2f, 0x00]),
                    (READ_CAPACITY, 1..) if asked.fetch_add(1, Ordering::Relaxed) == 0 => {
                        if is_swallowed {
                            return Ok(true);
                        }
                        peer.sense(command, [6, 0x2a, 0x01])
                    }
                    _ => Ok(false),
                },
            );
        assert_eq!(driver.read(0, 512), [1; 512]);
        assert_eq!(driver.read(0, 512), [1; 512]);
        is_known_to_have_grown(&mut driver);
    }
}

/// A change is told once, and perhaps to the command by which the adapter looks after a path.
#[test]
fn a_change_that_the_adapters_own_command_hears_of_is_heeded() {
    let asked = AtomicUsize::new(0);
    let (_fake, mut driver) = grows(
        move |peer, command, reads| match (command.opcode(), reads) {
            // The adapter asks whether the unit is ready.
            (READ, 1) => peer.sense(command, [6, 0x2a, 0x06]),
            (TEST_UNIT_READY, 1..) if asked.fetch_add(1, Ordering::Relaxed) == 0 => {
                peer.sense(command, [6, 0x2a, 0x09])
            }
            _ => Ok(false),
        },
    );
    assert_eq!(driver.read(0, 512), [1; 512]);
    is_known_to_have_grown(&mut driver);
}

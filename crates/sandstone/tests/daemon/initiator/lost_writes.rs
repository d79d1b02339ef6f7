//! Targets that lose writes that they had acknowledged, and report it once: nobody is told that
//! these writes are durable.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{BlockDevice as _, BlockErrorKind, Done, Pages, Request};

use super::driver::Driver;
use super::fake_target::{Command, FakeTarget};
use super::hostile::world;

const MODE_SENSE: u8 = 0x1a;
const READ: u8 = 0x88;
const WRITE: u8 = 0x8a;
const SYNCHRONIZE_CACHE: u8 = 0x91;
const WRITE_SAME: u8 = 0x93;

/// Mode parameters without DPOFUA and without pages: durable writes need a flush.
const NO_FUA: [u8; 4] = [3, 0, 0, 0];

/// A target may report a failed flush once, and then flush nothing with success.
#[test]
fn a_flush_that_failed_once_fails_for_ever() {
    let failed = AtomicBool::new(false);
    let fake = FakeTarget::start(world(), move |peer, command| match command.opcode() {
        MODE_SENSE => peer.answer(command, &NO_FUA),
        SYNCHRONIZE_CACHE if !failed.swap(true, Ordering::Relaxed) => {
            peer.sense(command, [0x2, 0x08, 0x00])
        }
        _ => Ok(false),
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    driver.write(0, &[9; 512], false).unwrap();
    for _ in 0..2 {
        driver.run(Request::Flush).unwrap_err();
    }
    driver.write(0, &[9; 512], true).unwrap_err();
    // The refusal holds until an administrator knows of it.
    let lost = driver.device.lost_writes().unwrap();
    assert!(lost.contains("has lost writes"), "{lost}");
    assert!(driver.device.acknowledge_lost_writes());
    assert_eq!(driver.device.lost_writes(), None);
    assert!(matches!(driver.run(Request::Flush), Ok(Done::Nothing)));
    driver.write(0, &[9; 512], true).unwrap();
}

/// Starts a target that loses writes.
///
/// It holds the first command with this opcode until the first READ. The first flush beside that
/// command reports lost writes, and everything else succeeds.
fn loses_writes(held: u8) -> FakeTarget {
    #[derive(Default)]
    struct CacheState {
        has_held: bool,
        holds: Option<Command>,
        has_told: bool,
    }
    let state = Mutex::new(CacheState::default());
    let mut world = world();
    // A few blocks for each command.
    world.disks[0].max_transfer = 8;
    world.disks[0].max_write_same = 8;
    FakeTarget::start(world, move |peer, command| {
        let mut state = state.lock().unwrap();
        match command.opcode() {
            MODE_SENSE => peer.answer(command, &NO_FUA),
            opcode if opcode == held && !state.has_held => {
                state.has_held = true;
                state.holds = Some(command.clone());
                Ok(true)
            }
            SYNCHRONIZE_CACHE if !state.has_told => {
                state.has_told = true;
                peer.sense(command, [0x3, 0x0c, 0x00])
            }
            READ => {
                if let Some(command) = state.holds.take() {
                    peer.perform(&command)?;
                }
                Ok(false)
            }
            _ => Ok(false),
        }
    })
}

#[test]
fn what_was_to_be_durable_when_writes_were_lost_fails_though_the_loss_is_acknowledged_first() {
    let flush = || Request::Flush;
    let write = || Request::Write {
        offset: 0,
        data: Pages::from_bytes(&[9; 16 << 10]),
        durable: true,
    };
    let zeros = || Request::WriteZeroes {
        offset: 0,
        len: 16 << 10,
        unmap: false,
        durable: true,
    };
    let all: [(u8, &dyn Fn() -> Request); 3] = [
        (SYNCHRONIZE_CACHE, &flush),
        (WRITE, &write),
        (WRITE_SAME, &zeros),
    ];
    for (held, request) in all {
        let fake = loses_writes(held);
        let mut driver = Driver::open(&fake.url("")).unwrap();
        driver.submit(1, request());
        driver.submit(2, Request::Flush);
        let ended = driver.take();
        assert!(matches!(ended[..], [(2, Err(_))]), "{held:02x}: {ended:?}");
        assert!(driver.device.lost_writes().is_some());
        assert!(driver.device.acknowledge_lost_writes(), "{held:02x}");
        assert_eq!(driver.device.lost_writes(), None);
        let offset = 512 << 10;
        driver.submit(3, Request::Read { offset, len: 512 });
        let mut ended = driver.take();
        while ended.len() < 2 {
            ended.extend(driver.take());
        }
        let (_, first) = ended.into_iter().find(|(token, _)| *token == 1).unwrap();
        let error = first.expect_err("its data may be what was lost");
        assert_eq!(error.kind(), BlockErrorKind::Write, "{held:02x}");
        assert!(error.to_string().contains("has lost writes"), "{error}");
        // No error of it stays for later writes.
        assert_eq!(driver.device.lost_writes(), None);
        assert!(matches!(driver.run(request()), Ok(Done::Nothing)));
    }
}

//! Units that lie about themselves, vanish, or are others when they come back.
//!
//! Nothing is ever written to a disk that is not the one that was opened.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use block::{BlockDevice as _, Done, Request};
use model::initiator::settings::{BackOff, DeviceSettings};

use super::driver::{self, Driver};
use super::fake_target::{FakeTarget, World};
use super::hostile::{SIZE, peak_memory, world};

#[test]
fn a_list_of_luns_that_lies_about_its_length() {
    for (length, shown) in [(u32::MAX, 1), (800_000, 1), (0, 0), (7, 0)] {
        let fake = FakeTarget::start(world(), move |peer, command| {
            if command.opcode() != 0xa0 {
                return Ok(false);
            }
            let mut list = length.to_be_bytes().to_vec();
            list.resize(8 + shown * 8, 0);
            peer.answer(command, &list)
        });
        let mut settings = driver::target(&fake.url(""));
        settings.lun = None;
        let begun = Instant::now();
        match Driver::open_with(settings, DeviceSettings::default()) {
            Ok(mut driver) => assert_eq!((driver.read(0, 512)[0], shown), (1, 1)),
            Err(error) => {
                assert_eq!(shown, 0, "{error}");
                assert!(error.to_string().contains("shows no disk"), "{error}");
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_hundred_thousand_luns() {
    let fake = FakeTarget::start(world(), |peer, command| {
        if command.opcode() != 0xa0 {
            return Ok(false);
        }
        let mut list = 800_000u32.to_be_bytes().to_vec();
        list.resize(8, 0);
        for lun in 0..100_000u64 {
            list.extend_from_slice(&((0x4000 | lun & 0x3fff) << 48).to_be_bytes());
        }
        peer.answer(command, &list)
    });
    let mut settings = driver::target(&fake.url(""));
    settings.lun = None;
    let mut driver = Driver::open_with(settings, DeviceSettings::default()).unwrap();
    assert_eq!(driver.read(0, 512)[0], 1);
}

#[test]
fn answers_of_the_probe_cut_at_every_length() {
    let cut = Arc::new(AtomicUsize::new(0));
    for page in [None, Some(0), Some(0x83), Some(0xb0), Some(0xb2)] {
        let cuts = Arc::clone(&cut);
        let fake = FakeTarget::start(world(), move |peer, command| {
            if !command.is_inquiry(page) {
                return Ok(false);
            }
            let zeros = [0; 252];
            let bytes = [0, page.unwrap_or(0), 0xff, 0xff];
            let lie = [&bytes[..], &zeros[4..]].concat();
            peer.answer(command, &lie[..cuts.load(Ordering::Relaxed)])
        });
        for length in (0..40).chain([250, 251]) {
            cut.store(length, Ordering::Relaxed);
            match Driver::open(&fake.url("")) {
                Ok(mut driver) => assert_eq!(driver.read(0, 512)[0], 1),
                Err(error) => {
                    let said = error.to_string();
                    assert!(
                        page.is_none() && said.contains("INQUIRY data is too short"),
                        "{said}"
                    );
                }
            }
        }
    }
}

#[test]
fn shapes_that_no_disk_has() {
    type Change = fn(&mut World);
    let cases: [(Change, Option<&str>); 8] = [
        (|w| w.disks[0].block_length = 0, Some("READ CAPACITY")),
        (|w| w.disks[0].block_length = 513, Some("READ CAPACITY")),
        (|w| w.disks[0].block_length = 1 << 31, Some("READ CAPACITY")),
        (|w| w.disks[0].last_lba = u64::MAX, Some("READ CAPACITY")),
        (|w| w.disks[0].last_lba = 1 << 62, Some("READ CAPACITY")),
        (|w| w.disks[0].exponent = 15, None),
        (|w| w.disks[0].max_transfer = 1, None),
        (|w| w.disks[0].max_transfer = u32::MAX, None),
    ];
    for (change, refused) in cases {
        let mut world = world();
        change(&mut world);
        let fake = FakeTarget::honest(world);
        match (Driver::open(&fake.url("")), refused) {
            (Ok(mut driver), None) => {
                let data: Vec<u8> = (0..64 << 10).map(|at| (at >> 4) as u8).collect();
                driver.write(4096, &data, true).unwrap();
                assert!(driver.read(4096, 64 << 10) == data);
            }
            (Err(error), Some(what)) => {
                assert!(error.to_string().contains(what), "{what}: {error}");
            }
            (Ok(_), Some(what)) => panic!("{what} was accepted"),
            (Err(error), None) => panic!("{error}"),
        }
    }
}

#[test]
fn zeros_over_a_vast_unit_one_block_at_a_time_take_bounded_memory() {
    let mut world = world();
    (world.disks[0].last_lba, world.disks[0].max_write_same) = ((1 << 50) - 1, 1);
    let fake = FakeTarget::start(world, |peer, command| match command.opcode() {
        0x93 => peer.status(command, 0),
        _ => Ok(false),
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    let before = peak_memory();
    let request = Request::WriteZeroes {
        offset: 0,
        len: 512 << 30,
        unmap: false,
        durable: false,
    };
    driver.submit(1, request);
    driver.idle(Duration::from_secs(1));
    // Other requests get their turn meanwhile.
    let (offset, len) = (0, 512);
    driver.submit(2, Request::Read { offset, len });
    let taken = driver.take_until(Instant::now() + Duration::from_secs(5));
    assert_eq!(taken.first().map(|(token, _)| *token), Some(2));
    let grown = peak_memory() - before;
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
}

#[test]
fn zeros_that_are_to_be_durable_are_flushed() {
    for knows_write_same in [true, false] {
        let flushed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&flushed);
        let fake = FakeTarget::start(world(), move |peer, command| match command.opcode() {
            0x93 if !knows_write_same => peer.sense(command, [5, 0x20, 0]),
            0x91 => {
                count.fetch_add(1, Ordering::Relaxed);
                peer.status(command, 0)
            }
            _ => Ok(false),
        });
        let mut driver = Driver::open(&fake.url("")).unwrap();
        for (durable, flushes) in [(false, 0), (true, 1)] {
            let request = Request::WriteZeroes {
                offset: 4096,
                len: 512 << 10,
                unmap: false,
                durable,
            };
            assert!(matches!(driver.run(request), Ok(Done::Nothing)));
            assert_eq!(flushed.load(Ordering::Relaxed), flushes);
        }
        let data = &fake.world().disks[0].data;
        assert!(data[4096..][..512 << 10].iter().all(|byte| *byte == 0));
        assert_eq!((data[4095], data[(512 << 10) + 4096]), (1, 1));
    }
}

#[test]
fn another_disk_of_the_same_name_is_no_path() {
    let first = FakeTarget::honest(World::of(&[SIZE]));
    let mut smaller = World::of(&[SIZE / 2]);
    smaller.disks[0].data.fill(9);
    let second = FakeTarget::honest(smaller);
    let mut settings = driver::target(&first.url(&format!("?portal={}", second.address)));
    settings.session.back_off = BackOff {
        first: Duration::from_millis(1),
        most: Duration::from_millis(10),
    };
    let mut driver = Driver::open_with(settings, driver::round_robin()).unwrap();
    let (size, fill) = match driver.device.geometry().len as usize {
        SIZE => (SIZE, 1),
        len => (len, 9),
    };
    for _ in 0..3 {
        for offset in (0..size as u64).step_by(64 << 10) {
            assert_eq!(
                driver.read(offset, 4096),
                [fill; 4096],
                "a mixture of two disks"
            );
        }
        driver.idle(Duration::from_millis(300));
        assert_eq!(driver.device.geometry().len as usize, size);
    }
    drop(second);
}

/// LUN 0 becomes another disk while the session is away, with writes under way.
#[test]
fn a_lun_that_is_another_disk_after_reconnecting_is_never_written_to() {
    let fake = FakeTarget::start(World::of(&[SIZE, SIZE]), |peer, command| {
        if peer.life == 0 && command.opcode() == 0x8a {
            peer.close();
            return Ok(true);
        }
        Ok(false)
    });
    fake.world().luns = vec![(0, 0)];
    let mut driver = Driver::open(&fake.url("")).unwrap();
    fake.world().luns = vec![(0, 1)];
    let data = block::Pages::from_bytes(&[5; 4096]);
    driver.submit(
        1,
        Request::Write {
            offset: 0,
            data,
            durable: false,
        },
    );
    driver.idle(Duration::from_secs(1));
    assert_eq!(fake.world().disks[1].writes, 0);
    // The disk returns, and the write goes to it.
    fake.world().luns = vec![(0, 0)];
    fake.cut();
    let taken = driver.take_until(Instant::now() + Duration::from_secs(10));
    assert!(matches!(taken[..], [(1, Ok(Done::Nothing))]), "{taken:?}");
    let world = fake.world();
    assert_eq!((world.disks[0].data[0], world.disks[1].writes), (5, 0));
}

/// LUN 0 becomes another disk within a session, which a unit attention reports.
#[test]
fn a_lun_that_changes_under_a_unit_attention_is_never_written_to() {
    for code in [[6, 0x3f, 0x0e], [6, 0x3f, 0x03]] {
        let told = AtomicBool::new(false);
        let world = Arc::new(Mutex::new(World::of(&[SIZE, SIZE])));
        world.lock().unwrap().luns = vec![(0, 0)];
        let shared = Arc::clone(&world);
        let fake = FakeTarget::portal(world, move |peer, command| {
            if command.opcode() == 0x8a && !told.swap(true, Ordering::Relaxed) {
                shared.lock().unwrap().luns = vec![(0, 1)];
                return peer.sense(command, code);
            }
            Ok(false)
        });
        let mut driver = Driver::open(&fake.url("")).unwrap();
        let data = block::Pages::from_bytes(&[5; 4096]);
        driver.submit(
            1,
            Request::Write {
                offset: 0,
                data,
                durable: false,
            },
        );
        driver.idle(Duration::from_millis(500));
        assert_eq!(fake.world().disks[1].writes, 0);
        assert_eq!(fake.lives(), 1);
    }
}

#[test]
fn a_unit_attention_that_names_no_change_costs_one_look() {
    let told = AtomicBool::new(false);
    let fake = FakeTarget::start(world(), move |peer, command| {
        if command.is_io() && !told.swap(true, Ordering::Relaxed) {
            return peer.sense(command, [6, 0x3f, 0x0e]);
        }
        Ok(false)
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    assert_eq!(driver.read(0, 512)[0], 1);
    assert_eq!(fake.lives(), 1);
}

/// A unit that is busy when its session returns is looked at again until it is not busy.
#[test]
fn a_unit_that_is_away_for_a_while_is_found_again() {
    for gone in [false, true] {
        let busy = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&busy);
        let fake = FakeTarget::start(world(), move |peer, command| {
            match asked.load(Ordering::Relaxed) {
                true if !gone => peer.status(command, 8),
                true if command.is_inquiry(None) => {
                    let mut data = [0; 36];
                    data[0] = 0x7f;
                    peer.answer(command, &data)
                }
                true => peer.sense(command, [5, 0x25, 0]),
                false => Ok(false),
            }
        });
        let mut driver = Driver::open(&fake.url("")).unwrap();
        busy.store(true, Ordering::Relaxed);
        fake.cut();
        let (offset, len) = (0, 512);
        driver.submit(1, Request::Read { offset, len });
        driver.idle(Duration::from_secs(4));
        busy.store(false, Ordering::Relaxed);
        let taken = driver.take_until(Instant::now() + Duration::from_secs(10));
        assert!(matches!(taken[..], [(1, Ok(_))]), "gone={gone}: {taken:?}");
    }
}

#[test]
fn a_lun_that_is_listed_twice_is_one() {
    let asked = AtomicUsize::new(0);
    let fake = FakeTarget::start(world(), move |peer, command| {
        if command.opcode() == 0xa0 {
            return peer.answer(command, &[&[0, 0, 0, 16][..], &[0; 20]].concat());
        }
        if command.is_inquiry(Some(0x83)) && asked.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            let page = [0, 0x83, 0, 12, 1, 3, 0, 8, 0x50, 0, 0, 0, 0, 0, 0, 0x99];
            return peer.answer(command, &page);
        }
        Ok(false)
    });
    let mut settings = driver::target(&fake.url(""));
    settings.lun = None;
    let mut driver = Driver::open_with(settings, DeviceSettings::default()).unwrap();
    assert_eq!(driver.read(0, 512)[0], 1);
}

/// A unit that went away is asked by TEST UNIT READY. An answer does not prove that it is the same
/// unit.
#[test]
fn a_lun_that_went_away_and_came_back_as_another_disk_is_never_written_to() {
    let world = Arc::new(Mutex::new(World::of(&[SIZE, SIZE])));
    world.lock().unwrap().luns = vec![(0, 0)];
    let asked = Arc::new(AtomicUsize::new(0));
    let asks = Arc::clone(&asked);
    let fake = FakeTarget::portal(world, move |_, command| {
        asks.fetch_add(usize::from(command.opcode() == 0x00), Ordering::Relaxed);
        Ok(false)
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    driver.write(0, &[5; 4096], false).unwrap();
    fake.world().luns.clear();
    driver.write(0, &[6; 4096], false).expect_err("it is gone");
    fake.world().luns = vec![(0, 1)];
    let before = asked.load(Ordering::Relaxed);
    let limit = Instant::now() + Duration::from_secs(30);
    while asked.load(Ordering::Relaxed) == before {
        assert!(Instant::now() < limit, "nobody asks for it");
        driver.idle(Duration::from_millis(20));
    }
    // Time for the consequences of the answer.
    driver.idle(Duration::from_millis(500));
    driver
        .write(0, &[7; 4096], false)
        .expect_err("another disk");
    assert_eq!(fake.world().disks[1].writes, 0);
}

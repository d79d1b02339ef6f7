//! A target that answers pings but not every command: the command is aborted and repeated, or the
//! session made anew.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sandstone::block::{Pages, Request};
use sandstone::initiator::settings::{DeviceSettings, TargetSettings};

use super::driver::{Driver, round_robin, target};
use super::fake_target::{FakeTarget, World};

/// Swallows the first READ or WRITE.
fn swallows_one() -> FakeTarget {
    let done = AtomicBool::new(false);
    FakeTarget::start(World::of(&[1 << 20]), move |_, command| {
        Ok(command.is_io() && !done.swap(true, Ordering::Relaxed))
    })
}

#[test]
fn a_command_without_an_answer_is_aborted_and_repeated() {
    let fake = swallows_one();
    let mut driver = Driver::open(&fake.url("?command_timeout=1")).unwrap();
    assert!(driver.read(4096, 4096).iter().all(|byte| *byte == 1));
    assert_eq!(fake.lives(), 1, "in the same session");
    driver.write(4096, &[7; 4096], false).unwrap();
    assert_eq!(driver.read(4096, 4096), [7; 4096]);
}

#[test]
fn a_target_that_does_not_abort_either_loses_the_session() {
    let fake = swallows_one();
    fake.ignore_aborts();
    let mut driver = Driver::open(&fake.url("?command_timeout=1")).unwrap();
    driver.write(8192, &[7; 4096], false).unwrap();
    assert_eq!(fake.lives(), 2);
    assert_eq!(driver.read(8192, 4096), [7; 4096]);
}

#[test]
fn a_scan_without_an_answer_is_explained() {
    let asked = AtomicUsize::new(0);
    let fake = FakeTarget::start(World::of(&[1 << 20]), move |_, command| {
        Ok(command.is_inquiry(Some(0x83)) && asked.fetch_add(1, Ordering::Relaxed) == 0)
    });
    let url = fake.url("?command_timeout=1");
    let opened = Driver::open(&url);
    if let Err(error) = &opened {
        let said = error.to_string();
        assert!(said.contains("answers pings but no commands"), "{said}");
    }
    let mut driver = opened.or_else(|_| Driver::open(&url)).unwrap();
    assert_eq!(driver.read(0, 512), [1; 512]);
}

/// The command ends just before its abort is answered, and another one has its number by then.
#[test]
fn the_answer_to_an_abort_is_not_taken_for_another_commands() {
    let done = AtomicBool::new(false);
    let fake = FakeTarget::start(World::of(&[1 << 20]), move |peer, command| {
        if !command.is_io() || done.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        peer.stashed = Some(command.clone());
        Ok(true)
    });
    let mut driver = Driver::open(&fake.url("?command_timeout=1")).unwrap();
    driver.write(0, &[5; 4096], false).unwrap();
    driver.write(0, &[6; 4096], false).unwrap();
    assert_eq!(driver.read(0, 4096), [6; 4096]);
    assert_eq!(fake.lives(), 1, "nothing was out of step");
    assert_eq!(fake.world().disks[0].writes, 2, "each was written once");
}

/// On a slow link the answer to a ping comes after all that was written before it; the link is no less alive.
#[test]
fn a_slow_link_is_not_taken_for_a_silent_one() {
    let world = Arc::new(Mutex::new(World::of(&[2 << 20])));
    let portals = [(); 2].map(|()| FakeTarget::portal(Arc::clone(&world), |_, _| Ok(false)));
    portals
        .iter()
        .for_each(|portal| portal.crawl(Duration::from_millis(4)));
    let mut settings = target(&portals[0].url(&format!("?portal={}", portals[1].address)));
    settings.session.keep_alive.quiet = Duration::from_millis(50);
    settings.session.keep_alive.timeout = Duration::from_millis(200);
    let devices = DeviceSettings {
        max_io: Some(1 << 20),
        ..round_robin()
    };
    let mut driver = Driver::open_with(settings, devices).unwrap();
    // A second and more in which nothing comes back.
    let data = Pages::from_bytes(&[7; 1 << 20]);
    driver.submit(
        1,
        Request::Write {
            offset: 0,
            data,
            durable: false,
        },
    );
    let taken = driver.take_until(Instant::now() + Duration::from_secs(30));
    assert!(matches!(taken[..], [(1, Ok(_))]), "{taken:?}");
    assert_eq!(world.lock().unwrap().disks[0].writes, 1);
    assert_eq!(portals.each_ref().map(FakeTarget::lives), [1, 1]);
}

/// Its write is repeated through its sibling, but not before the target has ended what it left.
#[test]
fn a_session_that_leaves_with_a_write_unanswered_is_ended_at_the_target_first() {
    let world = Arc::new(Mutex::new(World::of(&[1 << 20])));
    let swallows = FakeTarget::portal(
        Arc::clone(&world),
        |_, command| Ok(command.opcode() == 0x8a),
    );
    let sibling = FakeTarget::portal(Arc::clone(&world), |_, _| Ok(false));
    let settings = target(&swallows.url(&format!("?portal={}", sibling.address)));
    let mut devices = round_robin();
    devices.base.fence_timeout_us = None;
    let mut driver = Driver::open_with(settings.clone(), devices).unwrap();
    for token in [1, 2] {
        let data = Pages::from_bytes(&[5; 4096]);
        driver.submit(
            token,
            Request::Write {
                offset: token * 4096,
                data,
                durable: false,
            },
        );
    }
    assert_eq!(driver.take().len(), 1, "one of them is swallowed");
    let rest = TargetSettings {
        routes: settings.routes[1..].to_vec(),
        ..settings
    };
    driver.adapter.modify(0, rest, false).unwrap();
    let taken = driver.take_until(Instant::now() + Duration::from_secs(30));
    assert!(matches!(taken[..], [(_, Ok(_))]), "{taken:?}");
    assert_eq!(world.lock().unwrap().disks[0].writes, 2);
    assert_eq!(swallows.lives(), 2, "a LOGIN ended what it left there");
}

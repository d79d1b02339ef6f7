//! Target that answers pings but not every command: the command is aborted and repeated, or the
//! session is made anew.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use block::{Pages, Request};
use iscsi::target::login::Authentication;
use model::initiator::settings::{DeviceSettings, TargetSettings};

use super::driver::{Driver, round_robin, round_robin_without_settling, target};
use super::fake_target::{FakeTarget, World, in_group};

/// Starts a target that swallows the first READ or WRITE.
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

/// The command ends just before its abort is answered, and another command has its number by then.
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

/// The answer to a ping on a slow link comes after the data that was written before it; the link is
/// alive.
#[test]
fn a_slow_link_is_not_taken_for_a_silent_one() {
    let world = Arc::new(Mutex::new(World::of(&[2 << 20])));
    let portals = [(); 2].map(|()| FakeTarget::portal(Arc::clone(&world), |_, _| Ok(false)));
    portals
        .iter()
        .for_each(|portal| portal.crawl(Duration::from_millis(4)));
    let mut settings = target(&portals[0].url(&format!("?portal={}", portals[1].address)));
    settings.session.keep_alive.quiet = Duration::from_millis(50);
    settings.session.keep_alive.timeout = Duration::from_millis(600);
    let devices = DeviceSettings {
        max_io: Some(1 << 20),
        ..round_robin()
    };
    let mut driver = Driver::open_with(settings, devices).unwrap();
    // For more than a second nothing comes back.
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

/// Starts two portals of one world, of which the first swallows writes.
///
/// The driver never takes the end of a write for granted.
fn one_swallows() -> (FakeTarget, FakeTarget, TargetSettings, Driver) {
    let world = Arc::new(Mutex::new(World::of(&[1 << 20])));
    let swallows = FakeTarget::portal(
        Arc::clone(&world),
        |_, command| Ok(command.opcode() == 0x8a),
    );
    let sibling = FakeTarget::portal(world, |_, _| Ok(false));
    let settings = target(&swallows.url(&format!("?portal={}", sibling.address)));
    let driver = Driver::open_with(settings.clone(), never_taken_for_granted()).unwrap();
    (swallows, sibling, settings, driver)
}

fn never_taken_for_granted() -> DeviceSettings {
    let mut devices = round_robin();
    devices.base.fence_timeout_us = None;
    devices
}

fn write(driver: &mut Driver, token: u64) {
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

fn one_ends(driver: &mut Driver) {
    let taken = driver.take_until(Instant::now() + Duration::from_secs(30));
    assert!(matches!(taken[..], [(_, Ok(_))]), "{taken:?}");
}

/// The write is repeated through the sibling, but not before the target has ended the session it
/// left.
#[test]
fn a_session_that_leaves_with_a_write_unanswered_is_ended_at_the_target_first() {
    let (swallows, _sibling, mut settings, mut driver) = one_swallows();
    write(&mut driver, 1);
    write(&mut driver, 2);
    one_ends(&mut driver);
    settings.routes.remove(0);
    driver.adapter.modify(0, settings, false).unwrap();
    one_ends(&mut driver);
    assert_eq!(swallows.world().disks[0].writes, 2);
    assert_eq!(swallows.lives(), 2, "a LOGIN ended what it left there");
}

/// The session's own portal is closed: the LOGIN goes through the sibling.
#[test]
fn a_session_that_leaves_a_portal_that_is_gone_is_ended_through_its_sibling() {
    let (swallows, sibling, mut settings, mut driver) = one_swallows();
    write(&mut driver, 1);
    write(&mut driver, 2);
    one_ends(&mut driver);
    settings.routes.remove(0);
    driver.adapter.modify(0, settings, false).unwrap();
    driver.idle(Duration::from_millis(50));
    drop(swallows);
    one_ends(&mut driver);
    assert_eq!(sibling.world().disks[0].writes, 2);
    assert_eq!(sibling.lives(), 2, "its own life and the detour");
}

/// Writes in a former portal group are over: they do not stand in the way of a fence in another
/// one.
#[test]
fn a_session_that_moved_to_another_portal_group_is_fenced_there() {
    let fake = FakeTarget::start(World::of(&[1 << 20]), |peer, command| {
        let swallows = peer.life == 1 && command.opcode() == 0x8a;
        if swallows {
            peer.close();
        }
        Ok(swallows)
    });
    let mut driver = Driver::open_with(target(&fake.url("")), never_taken_for_granted()).unwrap();
    fake.authorize(in_group(2, Authentication::None));
    fake.cut();
    while fake.lives() < 2 {
        driver.idle(Duration::from_millis(5));
    }
    write(&mut driver, 1);
    one_ends(&mut driver);
    assert_eq!((fake.lives(), fake.world().disks[0].writes), (3, 1));
}

/// A target closes the connection and answers the LOGIN of the next life while a thread is at the
/// first write.
///
/// That write lands late, but still before all acknowledged data.
#[test]
fn a_write_that_lands_after_the_fence_does_not_land_on_newer_data() {
    let world = Arc::new(Mutex::new(World::of(&[1 << 20])));
    let (begun, landed) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let (medium, is_late) = (Arc::clone(&world), Arc::clone(&landed));
    let fake = FakeTarget::portal(world, move |peer, command| {
        if command.opcode() != 0x8a || begun.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        peer.close();
        let (data, medium) = (command.data.clone(), Arc::clone(&medium));
        let is_late = Arc::clone(&is_late);
        std::thread::spawn(move || {
            // The write lands long after its connection has ended.
            std::thread::sleep(Duration::from_millis(400));
            medium.lock().unwrap().disks[0].data[..4096].copy_from_slice(&data);
            is_late.store(true, Ordering::Release);
        });
        Ok(true)
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    driver.write(0, &[5; 4096], false).unwrap();
    driver.write(0, &[6; 4096], false).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !landed.load(Ordering::Acquire) {
        assert!(Instant::now() < deadline, "the old write never landed");
        driver.idle(Duration::from_millis(5));
    }
    assert_eq!(fake.lives(), 2, "it was fenced");
    assert_eq!(driver.read(0, 4096), [6; 4096]);
}

/// A kernel acknowledges bytes for a program that hangs; they are no sign of life.
#[test]
fn a_program_that_hangs_is_given_up_although_its_kernel_takes_more() {
    let world = Arc::new(Mutex::new(World::of(&[1 << 20])));
    let hangs = FakeTarget::portal(Arc::clone(&world), |_, command| {
        if command.opcode() == 0x8a {
            // The program hangs.
            std::thread::sleep(Duration::from_secs(60));
        }
        Ok(false)
    });
    let sibling = FakeTarget::portal(world, |_, _| Ok(false));
    let settings = target(&hangs.url(&format!("?portal={}", sibling.address)));
    // The settling login would go to the hanging portal again: that portal takes LOGINs.
    let devices = round_robin_without_settling();
    let mut driver = Driver::open_with(settings, devices).unwrap();
    let mut ended = Vec::new();
    // One of the first two is stuck; more follow, each of which the kernel takes.
    for token in 0..64 {
        write(&mut driver, token);
        let until = Instant::now() + Duration::from_millis(50);
        while Instant::now() < until {
            ended.extend(driver.take_until(until).into_iter().map(|(token, _)| token));
        }
        if ended.contains(&0) && ended.contains(&1) {
            return;
        }
    }
    panic!("still stuck after {ended:?}");
}

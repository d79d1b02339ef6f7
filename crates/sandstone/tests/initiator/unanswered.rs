//! A target that answers pings but not every command: the command is aborted and repeated, or the
//! session made anew.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::driver::Driver;
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

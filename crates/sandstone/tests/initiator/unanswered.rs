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
    let said = Driver::open(&url)
        .err()
        .expect("no unit is known")
        .to_string();
    assert!(said.contains("answers pings but no commands"), "{said}");
    let mut driver = Driver::open(&url).unwrap();
    assert_eq!(driver.read(0, 512), [1; 512]);
}

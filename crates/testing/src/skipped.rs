//! Tests that the machine does not allow. Such a test says so in its output, and tells `cargo xtask
//! test`, which lists it at the end.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Reports that the running test is skipped, and why.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    let Some(list) = std::env::var_os("SANDSTONE_SKIPPED_TESTS") else {
        return;
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let list = OpenOptions::new().append(true).create(true).open(list);
    writeln!(list.expect("the list of skipped tests"), "{test}: {why}").expect("it is noted");
}

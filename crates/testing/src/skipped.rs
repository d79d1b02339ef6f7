//! A test that the machine does not allow: it says so in its output, and to `cargo xtask test`,
//! which tells it at the end.

use std::fs::OpenOptions;
use std::io::Write as _;

/// The running test is not done, and why.
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

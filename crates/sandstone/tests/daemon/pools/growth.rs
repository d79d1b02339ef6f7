//! Pools whose devices get larger while they are in use: `pool online -e` under the real daemon.
//!
//! A client writes more data than there was room for before. The daemon is killed, and the pool
//! opened again.

use std::fs::OpenOptions;
use std::net::SocketAddr;

use serde_json::Value;

use crate::pools::devices::{flat, line_of, scrubbed_clean, serve, verify_all, write_all};
use crate::process::Process;

const SMALL: u64 = 128 << 20;
const LARGE: u64 = 256 << 20;
/// Writes of 256 KiB: 176 MiB, more than the small device holds.
const MANY: u64 = 704;

/// Returns the size of the pool in bytes.
fn size(process: &Process) -> u64 {
    let told = process.done("pool list -H -p -o size tank");
    told.trim().parse().expect(&told)
}

fn resize(process: &Process, device: &str, size: u64) {
    let path = process.folder().join(device);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(size).unwrap();
}

/// Checks that the pool has this size, more room than before, and after a kill its size and data
/// again.
fn is_as_large(process: &mut Process, portal: SocketAddr, expected: u64) {
    assert_eq!(size(process), expected);
    process.kill();
    process.restart();
    assert_eq!(size(process), expected);
    verify_all(portal, 0..40);
    write_all(portal, 40..MANY);
    process.kill();
    process.restart();
    assert_eq!(size(process), expected);
    verify_all(portal, 0..MANY);
    scrubbed_clean(process);
    process.done("pool export -f tank");
    process.done("pool check -d . tank");
    process.done("pool import -d . tank");
    assert_eq!(size(process), expected);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
}

#[test]
fn a_device_that_grew_is_used_up_to_its_end() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank a");
    let portal = serve(&process, "192M");
    write_all(portal, 0..40);
    let before = size(&process);
    // At an unchanged size nothing happens, and the command is no error.
    process.done("pool online -e tank a");
    assert_eq!(size(&process), before);
    resize(&process, "a", LARGE);
    process.done("pool online tank a");
    assert_eq!(size(&process), before, "only with -e");
    let refused = flat(&process.refused("pool online -e tank b"));
    for said in [
        "pool tank has no device b",
        "nothing was changed",
        "sandstone pool status tank",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    // The pool does not grow by itself when it is opened, either.
    process.kill();
    process.restart();
    assert_eq!(size(&process), before);
    process.done("pool online -e tank a");
    is_as_large(&mut process, portal, before + LARGE - SMALL);
}

#[test]
fn a_mirror_grows_with_the_smallest_of_its_devices() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let portal = serve(&process, "192M");
    write_all(portal, 0..20);
    let before = size(&process);
    resize(&process, "a", LARGE);
    process.done("pool online -e tank a");
    assert_eq!(size(&process), before, "the other is as small as it was");
    write_all(portal, 20..40);
    process.kill();
    process.restart();
    assert_eq!(size(&process), before);
    verify_all(portal, 0..40);
    // The other becomes larger than the first.
    resize(&process, "b", LARGE + (32 << 20));
    process.done("pool online -e tank b");
    is_as_large(&mut process, portal, before + LARGE - SMALL);
}

/// Returns the pool's figures of its cache.
fn cache(process: &Process) -> Value {
    let views: Value = serde_json::from_str(&process.done("pool status --json tank")).unwrap();
    views[0]["caches"][0].clone()
}

/// Cuts a device to this size until `pool online -e` refuses, and returns the refusal.
///
/// Writes of the pool at the old end may make a file as large again: then it is cut once more.
fn cut_off(process: &Process, device: &str, size: u64, named: &str) -> String {
    for _ in 0..20 {
        resize(process, device, size);
        let (is_done, text) = process.verb(&format!("pool online -e tank {named}"));
        if !is_done {
            return flat(&text);
        }
    }
    panic!("it is not refused");
}

#[test]
fn a_cache_that_grew_is_used_up_to_its_end() {
    let mut process = Process::start();
    process.done("pool create --size 256M tank a cache fast");
    let portal = serve(&process, "128M");
    // 110 MiB, while the daemon's memory for blocks is 64 MiB: blocks that leave memory go to the
    // cache.
    let all = 0..440;
    write_all(portal, all.clone());
    verify_all(portal, all.clone());
    let size = |process: &Process| cache(process)["cache"]["size"].as_u64().unwrap();
    let before = size(&process);
    process.done("pool online -e tank fast");
    assert_eq!(size(&process), before, "as large as it was");
    resize(&process, "fast", LARGE + SMALL);
    process.done("pool online tank fast");
    assert_eq!(size(&process), before, "only with -e");
    process.done("pool online -e tank a fast");
    assert_eq!(size(&process), before + SMALL);
    for _ in 0..4 {
        verify_all(portal, all.clone());
    }
    let told = cache(&process)["cache"].clone();
    assert!(told["written"].as_u64().unwrap() > 0, "{told}");
    assert!(told["hits"].as_u64().unwrap() > 0, "{told}");
    let line = line_of(&process, "fast").join(" ");
    assert!(line.starts_with("ONLINE 0 0 0 "), "{line}");
    process.kill();
    process.restart();
    assert_eq!(size(&process), before + SMALL);
    verify_all(portal, all.clone());
    // The device was put aside, and grew meanwhile.
    process.done("pool offline tank fast");
    resize(&process, "fast", 2 * LARGE);
    process.done("pool online -e tank fast");
    assert_eq!(size(&process), before + LARGE);
    verify_all(portal, all.clone());
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    process.done("pool export -f tank");
    process.done("pool check -d . tank");
    process.done("pool import -d . tank");
    assert_eq!(size(&process), before + LARGE);

    let refused = cut_off(&process, "fast", LARGE, "fast");
    for said in [
        "cannot expand",
        "/fast: device is too small: it has 256M, but had 512M when it was last used",
        "nothing was changed",
        "restore its size",
        "pool remove tank",
        "pool add tank cache",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    let refused = cut_off(&process, "fast", LARGE, "a fast");
    assert!(
        refused.contains("/a had been brought online before and stays so"),
        "{refused}"
    );
    process.done("pool remove tank fast");
    resize(&process, "fast", LARGE);
    process.done("pool add tank cache fast");
    assert_eq!(size(&process), before);
    verify_all(portal, all);
}

#[test]
fn a_device_that_shrank_is_told_so() {
    let mut process = Process::start();
    process.done("pool create --size 256M tank mirror a b");
    let portal = serve(&process, "64M");
    write_all(portal, 0..40);
    let before = size(&process);
    let refused = cut_off(&process, "b", SMALL, "b");
    for said in [
        "cannot expand",
        "/b: device is too small: it has 128M, but had 256M when it was last used",
        "nothing was changed",
        "restore its size",
        "pool replace tank",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    assert_eq!(size(&process), before);
    process.done("pool offline tank b");
    resize(&process, "b", SMALL);
    let refused = flat(&process.refused("pool online -e tank b"));
    for said in [
        "cannot online",
        "the device has 128M, but had 256M when it was last used",
        "nothing was changed",
        "find out why it shrank",
        "pool replace tank",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    assert_eq!(line_of(&process, "b")[0], "OFFLINE");
    assert_eq!(size(&process), before);
    verify_all(portal, 0..40);
    process.kill();
    process.restart();
    assert_eq!(size(&process), before);
    verify_all(portal, 0..40);
}

//! Pools whose devices get larger while they are in use: `pool online -e` under the real daemon, with a client that
//! writes more than there was room for before; killed and opened again.

use std::fs::OpenOptions;
use std::net::SocketAddr;

use crate::pool_devices::{flat, scrubbed_clean, serve, verify_all, write_all};
use crate::process::Process;

const SMALL: u64 = 128 << 20;
const LARGE: u64 = 256 << 20;
/// Writes of 256 KiB: 176 MiB, more than the small device holds.
const MANY: u64 = 704;

/// Bytes that the pool has.
fn size(process: &Process) -> u64 {
    let told = process.done("pool list -H -p -o size tank");
    told.trim().parse().expect(&told)
}

fn resize(process: &Process, device: &str, size: u64) {
    let path = process.folder().join(device);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(size).unwrap();
}

/// The pool has this size, and has it and the data again after a kill; there is room for more than there was before.
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
    // As large as it was nothing happens, and it is no mistake.
    process.done("pool online -e tank a");
    assert_eq!(size(&process), before);
    resize(&process, "a", LARGE);
    process.done("pool online tank a");
    assert_eq!(size(&process), before, "only with -e");
    let refused = flat(&process.refused("pool online -e tank b"));
    for said in [
        "no such device in pool tank: b",
        "nothing was changed",
        "sandstone pool status tank",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    // Nor by itself, when it is opened.
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

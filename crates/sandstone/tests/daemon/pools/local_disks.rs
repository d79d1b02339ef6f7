//! Disks of this machine that are pulled and put back, under real daemons.
//!
//! The disks are used again by themselves, replaced by a new one in their place, and grown. The
//! tests use the command line, and a client that writes meanwhile.

use std::fs::File;
use std::path::Path;

use testing::wait;

use crate::pools::devices::{
    flat, line_of, resilvered, scrubbed_clean, serve, verify_all, write_all,
};
use crate::pools::over_iscsi::until;
use crate::process::Process;

/// Moves a device away, or back.
fn rename(process: &Process, from: &str, to: &str) {
    let at = |name: &str| process.folder().join(name);
    std::fs::rename(at(from), at(to)).expect("renamed");
}

/// Creates a file of this size that holds nothing.
fn blank(path: &Path, size: u64) {
    File::create(path).unwrap().set_len(size).unwrap();
}

#[test]
fn a_disk_that_is_pulled_under_load_and_put_back_is_rebuilt_without_a_command() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror d0 d1");
    let portal = serve(&process, "64M");
    write_all(portal, 0..20);
    let writer = std::thread::spawn(move || write_all(portal, 20..120));
    rename(&process, "d1", "pulled");
    until(&process, "pool status tank", "REMOVED");
    writer
        .join()
        .expect("nothing fails that the other half has");
    write_all(portal, 120..160);
    let status = process.done("pool status tank");
    assert!(
        flat(&status).contains("uses it again automatically"),
        "{status}"
    );
    rename(&process, "pulled", "d1");
    let status = resilvered(&process);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    scrubbed_clean(&process);
    // This device alone has all the data.
    process.done("pool offline tank d0");
    verify_all(portal, 0..160);
    let events = process.done("pool events -H -o event tank");
    assert!(events.contains("d1 is REMOVED"), "{events}");
    assert!(events.contains("d1 is ONLINE"), "{events}");
}

#[test]
fn a_disk_that_was_put_aside_by_hand_stays_aside_when_it_is_pulled_and_put_back() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror d0 d1 d2");
    process.done("pool offline tank d1");
    rename(&process, "d1", "pulled");
    rename(&process, "pulled", "d1");
    // The other loss is noticed after it.
    rename(&process, "d2", "pulled");
    until(&process, "pool status tank", "REMOVED");
    rename(&process, "pulled", "d2");
    until(&process, "pool events -H -o event tank", "d2 is ONLINE");
    assert_eq!(line_of(&process, "d1")[0], "OFFLINE");
}

#[test]
fn the_only_disk_of_a_pool_is_not_given_up_for_its_name() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror d0 d1");
    process.done("pool create --size 128M alone d2");
    rename(&process, "d2", "other");
    // This loss is noticed after it.
    rename(&process, "d1", "pulled");
    until(&process, "pool status tank", "REMOVED");
    let status = process.done("pool status alone");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    process.done("volume create -V 16M alone/v");
}

#[test]
fn a_pool_that_waits_for_its_disks_opens_when_they_are_there() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank d0");
    let portal = serve(&process, "64M");
    write_all(portal, 0..8);
    process.kill();
    rename(&process, "d0", "pulled");
    process.restart();
    let status = process.done("pool status tank");
    assert!(status.contains(" state: UNAVAIL\n"), "{status}");
    rename(&process, "pulled", "d0");
    until(&process, "pool status tank", " state: ONLINE\n");
    until(&process, "lu list -H -o state", "online");
    verify_all(portal, 0..8);
}

#[test]
fn a_new_blank_disk_in_the_place_of_one_that_went_takes_its_place_where_that_is_wanted() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror d0 d1");
    let portal = serve(&process, "64M");
    write_all(portal, 0..40);
    let place = process.folder().join("d1");

    // The device is not wanted: it is left alone.
    rename(&process, "d1", "old");
    until(&process, "pool status tank", "REMOVED");
    blank(&place, 128 << 20);
    until(&process, "pool status tank", "no label of the pool");
    std::fs::remove_file(&place).unwrap();
    rename(&process, "old", "d1");
    resilvered(&process);

    process.done("pool set autoreplace=on tank");
    rename(&process, "d1", "old");
    until(&process, "pool status tank", "REMOVED");
    // A disk with content is never overwritten.
    let file = File::create(&place).unwrap();
    file.set_len(128 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"somebody's", 300_000).unwrap();
    until(&process, "pool status tank", "no label of the pool");
    drop(file);
    std::fs::remove_file(&place).unwrap();
    blank(&place, 128 << 20);
    until(&process, "pool events -H -o event tank", "autoreplace: ");
    let status = resilvered(&process);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    scrubbed_clean(&process);
    process.done("pool offline tank d0");
    verify_all(portal, 0..40);
    let history = process.done("pool history -i tank");
    assert!(history.contains("autoreplace: "), "{history}");
}

#[test]
fn a_vdev_grows_when_all_its_disks_have_grown_where_that_is_wanted() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror d0 d1");
    let size = || {
        let told = process.done("pool get -H -p size tank");
        let size = told.split_whitespace().nth(2).expect("a value");
        size.parse::<u64>().expect("bytes")
    };
    let grow = |name: &str, size: u64| {
        let file = File::options()
            .write(true)
            .open(process.folder().join(name));
        file.unwrap().set_len(size).unwrap();
    };
    let before = size();
    grow("d0", 256 << 20);
    process.done("pool set autoexpand=on tank");
    until(&process, "pool events -H -o event tank", "autoexpand: ");
    assert_eq!(size(), before, "one of them is as small as it was");
    grow("d1", 256 << 20);
    let what = format!("the pool grows by 100 MiB from {before}");
    wait::until_seen(&what, size, |size| *size >= before + (100 << 20));
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
}

//! One host at a time: two real daemons with installations of their own reach one disk.
//!
//! They reach it by two loop devices over one file, or by their initiators over a unit of a third
//! daemon.

use std::fs::File;
use std::path::Path;

use crate::pools::devices::{flat, pattern, serve, verify_all, write_all};
use crate::pools::over_iscsi::Array;
use crate::process::Process;
use crate::served::{self, settings, write};
use testing::loop_device::Loop;
use testing::wait;

/// Creates a file of 128 MiB and a loop device for each host; `None` if this machine has no loop
/// devices.
fn two_ways(folder: &Path) -> Option<[Loop; 2]> {
    let file = folder.join("disk");
    File::create(&file)
        .and_then(|made| made.set_len(128 << 20))
        .expect("a file");
    let attach = || Loop::attach(&file, &["--direct-io=on"]).or_else(|| Loop::attach(&file, &[]));
    Some([attach()?, attach()?])
}

/// Starts two hosts; the first has a protected pool on its path to the disk.
fn two_hosts(folder: &Path) -> Option<(Process, Process, [Loop; 2])> {
    let ways = two_ways(folder)?;
    let (first, second) = (Process::start(), Process::start());
    let node = ways[0].node().display();
    first.done(&format!("pool create -o multihost=on tank {node}"));
    Some((first, second, ways))
}

fn import(way: &Loop) -> String {
    format!("pool import -f -d {} tank", way.node().display())
}

/// Waits until a status contains this text.
fn until(process: &Process, wanted: &str) -> String {
    let status = || flat(&process.done("pool status tank"));
    wait::until_seen(wanted, status, |status| status.contains(wanted))
}

#[test]
fn a_forced_import_of_a_live_pool_is_refused_with_who_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((first, second, ways)) = two_hosts(folder.path()) else {
        return;
    };
    let portal = serve(&first, "64M");
    write_all(portal, 0..4);
    let status = first.done("pool status tank");
    assert!(status.contains(" hosts: one at a time"), "{status}");
    let said = flat(&second.refused(&format!("pool import -d {} tank", ways[1].node().display())));
    assert!(said.contains("was not exported there"), "{said}");
    let said = flat(&second.refused(&import(&ways[1])));
    assert!(
        said.contains("has the pool open: its activity record changed"),
        "{said}"
    );
    // Nothing was harmed.
    write_all(portal, 4..8);
    verify_all(portal, 0..8);
    // After an export in order, the other host imports the pool.
    first.done("map remove vm1 --all --yes");
    first.done("lu delete vm1 --yes");
    first.done("pool export tank");
    second.done(&format!("pool import -d {} tank", ways[1].node().display()));
}

#[test]
fn a_host_is_killed_and_another_one_takes_its_pool_after_the_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((mut first, second, ways)) = two_hosts(folder.path()) else {
        return;
    };
    write_all(serve(&first, "64M"), 0..8);
    first.kill();
    // On its old boot the host goes on without a wait: nobody reports one.
    first.restart();
    until(&first, "state: ONLINE");
    first.kill();
    let said = flat(&second.done(&import(&ways[1])));
    let why = "had the pool and did not export it: watching the devices";
    assert!(said.contains(why), "it tells why it waits: {said}");
    assert!(
        said.contains("waiting for objections of another host"),
        "{said}"
    );
    let portal = served::free_portal();
    second.done("lu create vm1 --volume tank/vm1");
    second.done(&format!(
        "target create {} --portal {portal}",
        served::TARGET
    ));
    second.done(&format!(
        "map add vm1 --every-host --target {} --lun 0",
        served::TARGET
    ));
    verify_all(portal, 0..8);
    // The killed host is back, and does not open the pool.
    first.restart();
    let status = flat(&first.done("pool status tank"));
    assert!(status.contains("was not exported there"), "{status}");
}

#[test]
fn a_paused_host_acknowledges_nothing_after_another_one_took_its_pool_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((first, second, ways)) = two_hosts(folder.path()) else {
        return;
    };
    let portal = serve(&first, "64M");
    write_all(portal, 0..8);
    let mut session = served::log_in(portal, settings(1));
    first.signal("STOP");
    second.done(&import(&ways[1]));
    first.signal("CONT");
    let told = write(&mut session, 0, &pattern(40));
    assert_ne!(told.status, Some(0), "it is acknowledged: {told:?}");
    let status = until(&first, "state: SUSPENDED");
    assert!(
        status.contains("is not served any more") || status.contains("opened pool"),
        "{status}"
    );
    assert!(status.contains("pool clear tank"), "{status}");
    // While the other host has the pool, no command brings it back here.
    let said = flat(&first.refused("pool clear tank"));
    assert!(
        said.contains("opened pool") || said.contains("has the pool open"),
        "{said}"
    );
    first.done("lu delete vm1 --yes");
    let said = flat(&first.refused("pool destroy tank --yes"));
    assert!(
        said.contains("opened"),
        "its labels are the other host's: {said}"
    );
    first.done("pool export tank");
    until(&second, "state: ONLINE");
    // The labels of the pool are whole.
    second.done("pool export tank");
    second.done(&import(&ways[1]));
    second.done("volume list tank/vm1");
}

#[test]
fn disks_of_other_machines_are_protected_by_themselves() {
    let array = Array::start(1, 128 << 20);
    let (mut first, second) = (Process::start(), Process::start());
    array.log_in(&first);
    array.log_in(&second);
    first.done(&format!("pool create tank {}", array.naa));
    assert_eq!(first.done("pool get -H -o value multihost tank"), "auto\n");
    let status = first.done("pool status tank");
    assert!(status.contains(" hosts: one at a time"), "{status}");
    let said = flat(&second.refused("pool import -f tank"));
    assert!(said.contains("has the pool open"), "{said}");
    first.kill();
    let said = flat(&second.done("pool import -f tank"));
    assert!(said.contains("watching the devices"), "{said}");
}

#[test]
fn protection_is_switched_on_and_off_and_shown() {
    let process = Process::start();
    process.done("pool create --size 128M tank disk");
    let shown = |process: &Process| process.done("pool status tank").contains(" hosts: ");
    assert!(!shown(&process), "nobody else reaches a file");
    process.done("pool set multihost=on tank");
    assert!(shown(&process));
    process.done("pool set multihost=off tank");
    until(&process, "scan: none requested config:");
    process.done("pool set multihost=on tank");
    process.done("pool export tank");
    // The pool was exported in order.
    let said = process.done("pool import -d disk tank");
    assert!(!said.contains("watching the devices"), "{said}");
    assert!(shown(&process));
    assert_eq!(process.done("pool get -H -o value multihost tank"), "on\n");
}

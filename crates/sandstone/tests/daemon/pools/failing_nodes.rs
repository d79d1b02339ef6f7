//! Device nodes that fail while a pool writes to them: their medium goes, or they take no more
//! writes.

use std::fs::File;
use std::process::Command;

use crate::pools::devices::{line_of, resilvered, scrubbed_clean, serve, verify_all, write_all};
use crate::process::Process;
use crate::small_folder::inside_small_folder;
use testing::loop_device::Loop;
use testing::wait;

/// Waits until a device is not used any more.
fn faulted(process: &Process, device: &str) {
    let line = || line_of(process, device);
    wait::until_seen("the device is faulted", line, |line| line[0] == "FAULTED");
}

/// Tells a node that the file behind it has another size now.
fn tell_its_size(node: &Loop) {
    let told = Command::new("losetup").arg("-c").arg(node.node()).status();
    assert!(told.is_ok_and(|status| status.success()), "losetup -c");
}

/// Returns a device node with the file behind it; `None` if this machine has none.
fn backed(process: &Process) -> Option<(File, Loop)> {
    let path = process.folder().join("back");
    let back = File::create(&path).unwrap();
    back.set_len(128 << 20).unwrap();
    let node = Loop::attach(&path, &[])?;
    Some((back, node))
}

/// A device node loses its medium while it is open and written to: every request fails from then
/// on.
#[test]
fn a_loop_device_is_pulled_under_load_and_comes_back_empty() {
    let process = Process::start();
    let Some((back, node)) = backed(&process) else {
        return;
    };
    let told = node.node().display().to_string();
    process.done(&format!("pool create --size 128M tank mirror d0 {told}"));
    let portal = serve(&process, "64M");
    write_all(portal, 0..40);
    let writer = std::thread::spawn(move || write_all(portal, 40..120));
    back.set_len(0).unwrap();
    tell_its_size(&node);
    writer
        .join()
        .expect("nothing fails that the other half has");
    verify_all(portal, 0..120);
    write_all(portal, 120..140);
    faulted(&process, node.name());
    let status = process.done("pool status tank");
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    // The reason is no full pool, and the remedy names the device and where another one is found.
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(status.contains("it has shrunk, or"), "{status}");
    for advised in [
        format!(
            "'sandstone pool replace tank {told} NEW' ('sandstone pool disks' lists free ones)"
        ),
        format!("'sandstone pool clear tank {told}'"),
    ] {
        assert!(status.contains(&advised), "{status}");
    }

    back.set_len(128 << 20).unwrap();
    tell_its_size(&node);
    for verb in ["online", "clear"] {
        let refused = process.refused(&format!("pool {verb} tank {told}"));
        assert!(refused.contains("no label of the pool"), "{refused}");
        let replace = format!("sandstone pool replace tank {told}");
        assert!(refused.contains(&replace), "{refused}");
    }
    process.done(&format!("pool replace -w tank {told}"));
    scrubbed_clean(&process);
    verify_all(portal, 0..140);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    // The device is detached before it is let go.
    process.done("pool detach tank d0");
    verify_all(portal, 0..140);
}

/// A device node still reads but refuses writes: the file behind it is on a full file system.
#[test]
fn a_device_node_that_starts_failing_is_put_aside_and_used_again_when_it_is_well() {
    let name = "pool_failing_nodes::a_device_node_that_starts_failing_is_put_aside_and_used_again_when_it_is_well";
    let Some(folder) = inside_small_folder(name) else {
        return;
    };
    let back = folder.join("back");
    File::create(&back).unwrap().set_len(128 << 20).unwrap();
    let Some(node) = Loop::attach(&back, &[]) else {
        return;
    };
    let process = Process::start();
    let told = node.node().display().to_string();
    process.done(&format!("pool create --size 128M tank mirror d0 {told}"));
    let portal = serve(&process, "64M");
    write_all(portal, 0..20);
    assert_eq!(line_of(&process, node.name()), ["ONLINE", "0", "0", "0"]);
    // More than the file system takes.
    write_all(portal, 20..120);
    faulted(&process, node.name());
    let line = line_of(&process, node.name());
    assert!(line[2] != "0" && line[3] == "0", "writes failed: {line:?}");
    let status = process.done("pool status tank");
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    verify_all(portal, 0..120);

    let mut larger = Command::new("mount");
    let larger = larger.args(["-o", "remount,size=200m"]).arg(&folder);
    let status = larger.status();
    assert!(status.unwrap().success(), "the file system is larger");
    process.done(&format!("pool clear tank {told}"));
    resilvered(&process);
    scrubbed_clean(&process);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    // This device alone has all the data.
    process.done("pool offline tank d0");
    verify_all(portal, 0..120);
}

/// The only device of a pool loses its medium. The pool is let go, and a new one takes its name:
/// the unit must not tell of the old one's trouble for ever.
#[test]
fn a_unit_of_a_pool_that_is_gone_for_good_tells_what_there_is_now() {
    let process = Process::start();
    let Some((back, node)) = backed(&process) else {
        return;
    };
    let told = node.node().display().to_string();
    process.done(&format!("pool create tank {told}"));
    let portal = serve(&process, "64M");
    write_all(portal, 0..20);
    back.set_len(0).unwrap();
    tell_its_size(&node);
    // A change that must be written stops the pool.
    let _ = process.verb("volume create -V 1M tank/other");
    let refused = process.refused("pool clear tank");
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told_next = flat(&refused);
    assert!(told_next.contains("opens by itself"), "{refused}");
    assert!(
        told_next.contains("sandstone pool export tank"),
        "{refused}"
    );
    assert!(!told_next.contains("NAME"), "{refused}");
    let forgotten = process.done("pool export -f tank");
    assert!(forgotten.contains("it is forgotten"), "{forgotten}");
    let remedy = || flat(&process.done("lu list -H -o name,state,remedy"));
    wait::until_seen("the unit tells", remedy, |told| {
        told.contains("there is no pool tank")
    });
    process.done("pool create --size 128M tank d0");
    process.done("volume create -V 64M tank/vm1");
    process.done("lu modify -y vm1 --volume tank/vm1");
    assert_eq!(process.done("lu list -H -o name,state"), "vm1\tonline\n");
}

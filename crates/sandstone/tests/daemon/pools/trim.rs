//! Freed space goes back to the storage beneath a pool, under real daemons by the command line.
//!
//! The storage is the file behind a loop device, files, and a thin volume of another daemon.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::pools::devices::{serve, write_all};
use crate::pools::over_iscsi::until;
use crate::process::Process;
use crate::served::free_portal;
use testing::loop_device::Loop;
use testing::wait;

/// Returns the bytes that a file takes.
fn taken(path: &Path) -> u64 {
    std::fs::metadata(path).expect("a file").blocks() * 512
}

/// Writes 24 MiB to a volume.
fn fill(process: &Process) {
    let portal = serve(process, "64M");
    write_all(portal, 0..96);
}

/// Destroys the volume, and lets the pool make the checkpoints after which its space is free.
fn empty(process: &Process) {
    process.done("lu delete vm1 --yes");
    process.done("volume destroy -y tank/vm1");
    for _ in 0..4 {
        process.done("pool sync tank");
    }
}

/// Waits until most of the space is given back.
fn shrinks(what: &str, before: u64, now: impl Fn() -> u64) {
    let what = format!("{what} shrinks by 20 MiB from {before}");
    wait::until_seen(&what, now, |now| now + (20 << 20) <= before);
}

#[test]
fn freed_space_returns_to_the_file_behind_a_loop_device_by_itself() {
    let process = Process::start();
    let back = process.folder().join("back");
    File::create(&back).unwrap().set_len(128 << 20).unwrap();
    let Some(node) = Loop::attach(&back, &[]) else {
        return;
    };
    process.done(&format!("pool create tank {}", node.node().display()));
    assert!(
        process
            .done("pool get -H autotrim tank")
            .contains("off\tdefault")
    );
    process.done("pool set autotrim=on tank");
    assert!(
        process
            .done("pool get -H autotrim tank")
            .contains("on\tlocal")
    );
    fill(&process);
    process.done("pool sync tank");
    let before = taken(&back);
    empty(&process);
    shrinks("the file behind", before, || taken(&back));
    until(&process, "pool status -t tank", "autotrim: ");
    process.done("pool scrub -w tank");
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    process.done("pool destroy -y tank");
}

#[test]
fn a_trim_gives_files_back_what_was_freed_before() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank raidz1 d0 d1 d2");
    fill(&process);
    process.done("pool sync tank");
    let files = ["d0", "d1", "d2"].map(|name| process.folder().join(name));
    let all = |files: &[std::path::PathBuf]| files.iter().map(|file| taken(file)).sum::<u64>();
    let before = all(&files);
    empty(&process);
    // Nobody asked for it.
    assert!(all(&files) + (8 << 20) > before);
    let status = process.done("pool status -t tank");
    assert_eq!(status.matches("(untrimmed)").count(), 3, "{status}");
    let refused = process.refused("pool trim tank nowhere");
    assert!(
        refused.contains("nowhere is not one of the pool's devices"),
        "{refused}"
    );
    let refused = process.refused("pool trim --cancel tank");
    assert!(refused.contains("is not being trimmed"), "{refused}");

    // A slow trim can be seen, paused, continued and ended.
    process.done("pool trim --rate 64K tank d0");
    let status = process.done("pool status -t tank");
    assert!(status.contains("% trimmed, started at "), "{status}");
    process.done("pool trim --pause tank d0");
    process.done("pool sync tank");
    process.kill();
    process.restart();
    let status = process.done("pool status -t tank");
    assert!(
        status.contains("% trimmed, suspended, started at "),
        "{status}"
    );
    process.done("pool trim --cancel tank d0");
    let status = process.done("pool status -t tank");
    assert!(status.contains("% trimmed, canceled at "), "{status}");

    process.done("pool trim --wait tank");
    shrinks("the files", before, || all(&files));
    let status = process.done("pool status -t tank");
    assert_eq!(
        status.matches("(100% trimmed, completed at ").count(),
        3,
        "{status}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&process.done("pool status --json tank")).unwrap();
    let leaf = &json[0]["vdevs"][0]["children"][0];
    assert_eq!(
        (
            leaf["trim"]["state"].as_str(),
            leaf["trim"]["percent"].as_u64()
        ),
        (Some("finished"), Some(100))
    );
    let events = process.done("pool events -H -o event tank");
    assert!(events.contains("all free space is trimmed"), "{events}");
    let history = process.done("pool history tank");
    assert!(history.contains("pool trim --wait tank"), "{history}");
    process.done("pool scrub -w tank");
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
}

/// The disk is a thin volume of another daemon: space that is freed here becomes free there.
#[test]
fn freed_space_returns_to_the_thin_volume_of_another_daemon() {
    let (back, front) = (Process::start(), Process::start());
    back.done("pool create --size 512M rust far");
    back.done("volume create -s -V 128M -o compression=off rust/disk");
    back.done("lu create disk --volume rust/disk");
    let naa = back.done("lu list -H -o naa").trim().to_owned();
    let (target, portal) = ("iqn.2026-01.io.sandstone:thin", free_portal());
    back.done(&format!("target create {target} --portal {portal}"));
    back.done(&format!(
        "map add disk --every-host --target {target} --lun 0"
    ));
    front.done(&format!("initiator login {target} --portal {portal}"));
    front.done(&format!("pool create tank {naa}"));
    front.done("pool set autotrim=on tank");
    fill(&front);
    front.done("pool sync tank");
    let used = || {
        (0..3).for_each(|_| drop(back.done("pool sync rust")));
        let used = back.done("volume list -H -p -o used rust/disk");
        used.trim().parse::<u64>().expect("bytes")
    };
    let before = used();
    assert!(before > 24 << 20, "{before}");
    empty(&front);
    shrinks("the volume", before, used);
    front.done("pool scrub -w tank");
    assert_eq!(front.done("pool status -x"), "all pools are healthy\n");
}

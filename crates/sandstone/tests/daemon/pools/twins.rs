//! Block devices and their copies under the real daemon.
//!
//! The tests cover `dd` onto a second device, devices whose numbers changed, and an administrator
//! who follows only the messages.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::pools::devices::{flat, line_of, serve, verify_all, write_all};
use crate::process::Process;
use testing::loop_device::Loop;

fn file(process: &Process, name: &str) -> std::path::PathBuf {
    let path = process.folder().join(name);
    File::create(&path).unwrap().set_len(128 << 20).unwrap();
    path
}

fn dd(from: &Path, to: &Path) {
    let copied = Command::new("dd")
        .arg(format!("if={}", from.display()))
        .arg(format!("of={}", to.display()))
        .args(["bs=1M", "conv=fsync", "status=none"])
        .status();
    assert!(copied.unwrap().success(), "dd");
}

/// The status once named one device while writes went to the other.
#[test]
fn of_a_device_and_its_copy_by_dd_the_one_that_is_named_is_shown_and_written() {
    let mut process = Process::start();
    let (a, b) = (file(&process, "a"), file(&process, "b"));
    let (Some(own), Some(other)) = (Loop::attach(&a, &[]), Loop::attach(&b, &[])) else {
        return;
    };
    let [own_path, other_path] = [&own, &other].map(|of| of.node().display().to_string());
    process.done(&format!("pool create tank {own_path}"));
    let portal = serve(&process, "64M");
    write_all(portal, 0..8);
    process.done("pool export -f tank");
    dd(own.node(), other.node());
    let before = std::fs::read(&b).unwrap();
    for how in ["", "-f ", "-o readonly=on "] {
        let words = format!("pool import {how}-d {own_path} -d {other_path} tank");
        let told = flat(&process.refused(&words));
        assert!(told.contains("have one identity"), "{told}");
        assert!(
            told.contains(&format!("pool import -d {own_path} tank")),
            "{told}"
        );
    }
    let listed = flat(&process.done(&format!("pool import -d {own_path} -d {other_path}")));
    for path in [&own_path, &other_path] {
        assert!(
            listed.contains(&format!("{path} TWIN checkpoint")),
            "{listed}"
        );
    }
    process.done(&format!("pool import -d {own_path} tank"));
    write_all(portal, 4..12);
    assert_eq!(line_of(&process, own.name()), ["ONLINE", "0", "0", "0"]);
    process.kill();
    process.restart();
    assert_eq!(line_of(&process, own.name()), ["ONLINE", "0", "0", "0"]);
    verify_all(portal, 0..12);
    assert!(std::fs::read(&b).unwrap() == before, "the copy was written");
    process.done("pool export -f tank");
}

/// A loop device over a whole file is that file.
///
/// A path leads to another device after a start, as `/dev/sdb` does when disks come up in another
/// order.
#[test]
fn a_device_is_found_again_under_another_name_and_its_copy_in_its_place_is_not_taken() {
    let mut process = Process::start();
    let (a, b) = (file(&process, "a"), file(&process, "b"));
    let (Some(own), Some(copy)) = (Loop::attach(&a, &[]), Loop::attach(&b, &[])) else {
        return;
    };
    let link = process.folder().join("disk");
    let lead_to = |node: &Path| {
        let _ = std::fs::remove_file(&link);
        symlink(node, &link).unwrap();
    };
    lead_to(own.node());
    process.done(&format!("pool create tank {}", link.display()));
    let portal = serve(&process, "64M");
    write_all(portal, 0..8);
    process.done("pool export -f tank");
    // The file, the device and the link are one.
    let words = [&a, own.node(), &link].map(|path| format!("-d {}", path.display()));
    let told = process.done(&format!("pool import {} tank", words.join(" ")));
    assert_eq!(told, "");
    process.done("pool export -f tank");
    process.done(&format!("pool import -d {} tank", link.display()));
    process.kill();
    dd(own.node(), copy.node());
    let before = std::fs::read(&b).unwrap();
    // The copy alone is there, at the place of the original.
    drop(own);
    lead_to(copy.node());
    process.restart();
    let told = flat(&process.done("pool status tank"));
    assert!(told.contains("is not the device that was used"), "{told}");
    assert!(!told.contains("no label"), "its labels are there: {told}");
    let line = "UNAVAIL 0 0 0 not the device that was used";
    assert!(told.contains(line), "{told}");
    let expected = format!("pool import -d {} tank", link.display());
    assert!(told.contains(&expected), "{told}");
    process.kill();
    // The original is back under another name.
    let own = Loop::attach(&a, &[]).expect("a loop device");
    process.restart();
    assert_eq!(line_of(&process, own.name()), ["ONLINE", "0", "0", "0"]);
    verify_all(portal, 0..8);
    write_all(portal, 4..12);
    process.kill();
    process.restart();
    assert_eq!(line_of(&process, own.name()), ["ONLINE", "0", "0", "0"]);
    verify_all(portal, 0..12);
    assert!(std::fs::read(&b).unwrap() == before, "the copy was written");
    process.done("pool export -f tank");
}

/// An import finds two copies of one disk, and its user knows only the messages.
#[test]
fn who_follows_the_messages_gets_both_the_original_and_its_copy() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror d0 d1");
    let portal = serve(&process, "64M");
    write_all(portal, 0..8);
    process.done("pool export -f tank");
    let cp = |from: &str, to: &str| {
        let folder = process.folder();
        let copied = Command::new("cp")
            .arg("--sparse=always")
            .args([folder.join(from), folder.join(to)])
            .status();
        assert!(copied.unwrap().success(), "cp");
    };
    cp("d0", "d0.bak");
    cp("d1", "d1.bak");
    /// Returns the command between the first quotes behind a word.
    fn command(told: &str, word: &str) -> String {
        let told = flat(told);
        let (_, behind) = told
            .split_once(&format!("`sandstone {word}"))
            .unwrap_or_else(|| panic!("no {word} in {told}"));
        let (command, _) = behind.split_once('`').unwrap();
        format!("{word}{command}")
    }
    let folder = process.folder().display().to_string();
    let told = process.refused(&format!("pool import -d {folder} tank"));
    let separate = command(&told, "pool reguid").replace("NEWNAME", "clone");
    process.done(&command(&told, "pool import"));
    write_all(portal, 4..12);
    verify_all(portal, 0..12);
    let told = process.done(&separate);
    let import = command(&told, "pool import");
    process.done(&import);
    let datasets = process.done("volume list");
    for name in ["tank/vm1", "clone/vm1"] {
        assert!(datasets.contains(name), "{datasets}");
    }
    let scrubbed = process.done("pool scrub -w clone");
    assert_eq!(scrubbed, "");
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
}

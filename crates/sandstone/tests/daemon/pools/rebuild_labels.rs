//! `pool check --rebuild-labels` by the command line, on files.
//!
//! All labels at both ends are gone. The tests check its findings, that it writes nothing before
//! `-y`, its refusals, and that the pool then holds its data.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::pools::devices::{flat, serve};
use crate::process::Process;
use crate::units::known_sectors::{verify_sectors, write_sectors};

/// Sectors that are written: 8 MiB.
const WRITTEN: std::ops::Range<u64> = 0..2048;
const MIB: u64 = 1 << 20;

struct Told {
    text: String,
    error: String,
    code: i32,
}

fn rebuild(words: &[&str]) -> Told {
    let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args(["pool", "check", "--rebuild-labels"])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| flat(&String::from_utf8(bytes).unwrap());
    let told = Told {
        text: text(output.stdout),
        error: text(output.stderr),
        code: output.status.code().expect("it ended by itself"),
    };
    eprintln!("{}{}", told.text, told.error);
    told
}

/// Creates a pool of files with a volume, writes to the volume, and exports the pool; returns its
/// files.
fn exported(layout: &str, files: &[&str]) -> (Process, std::net::SocketAddr, Vec<PathBuf>) {
    let process = Process::start();
    process.done(&format!("pool create --size 128M tank {layout}"));
    let portal = serve(&process, "64M");
    write_sectors(portal, WRITTEN);
    process.done("pool export -f tank");
    let files = files
        .iter()
        .map(|name| process.folder().join(name))
        .collect();
    (process, portal, files)
}

/// Overwrites both ends of a disk, as `dd` and partitioning tools do.
fn lose_ends(path: &PathBuf) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let end = file.metadata().unwrap().len();
    for at in [0, end - MIB] {
        file.write_all_at(&vec![0xee; MIB as usize], at).unwrap();
    }
}

fn words(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|path| path.to_str().unwrap()).collect()
}

/// Imports the pool from the files, and reads the written data.
fn holds_all(process: &Process, portal: std::net::SocketAddr, files: &[PathBuf]) {
    let from: String = files
        .iter()
        .map(|path| format!(" -d {}", path.display()))
        .collect();
    process.done(&format!("pool import{from} tank"));
    verify_sectors(portal, WRITTEN);
}

#[test]
fn a_single_disk_that_lost_both_ends_is_shown_then_rebuilt_and_holds_all() {
    let (process, portal, files) = exported("a", &["a"]);
    lose_ends(&files[0]);
    let error = process.refused(&format!("pool import -d {} tank", files[0].display()));
    assert!(error.contains("tank"), "{error}");
    let before = std::fs::read(&files[0]).unwrap();
    let told = rebuild(&words(&files));
    assert_eq!((told.code, told.error.as_str()), (0, ""));
    for said in [
        "pool: tank",
        "inner labels at bytes",
        "would be written at bytes 0, 262144,",
        "every copy is right",
        "Nothing was changed",
    ] {
        assert!(told.text.contains(said), "{said}: {}", told.text);
    }
    let next = format!(
        "`sandstone pool check --rebuild-labels -y {}`",
        files[0].display()
    );
    assert!(told.text.contains(&next), "{next}: {}", told.text);
    assert!(
        std::fs::read(&files[0]).unwrap() == before,
        "without -y nothing is written"
    );

    let output = rebuild(&[&["-y", "--json"], &words(&files)[..]].concat());
    assert_eq!(output.code, 0, "{}", output.error);
    let view: Value = serde_json::from_str(&output.text).expect(&output.text);
    assert_eq!(
        (&view["is_written"], &view["name"]),
        (&Value::from(true), &Value::from("tank"))
    );
    assert_eq!(
        view["devices"][0]["labels_at"].as_array().map(Vec::len),
        Some(4)
    );
    // There is nothing left to be done.
    let told = rebuild(&words(&files));
    assert_ne!(told.code, 0);
    assert!(told.error.contains("nothing to rebuild"), "{}", told.error);
    holds_all(&process, portal, &files);
}

#[test]
fn halves_and_columns_get_their_own_labels_back() {
    for (layout, names) in [
        ("mirror a b", &["a", "b"][..]),
        ("raidz a b c", &["a", "b", "c"]),
    ] {
        let (process, portal, files) = exported(layout, names);
        // First all of them, and after that the last one alone.
        for first in [0, names.len() - 1] {
            files[first..].iter().for_each(lose_ends);
            let told = rebuild(&[&["-y"], &words(&files)[..]].concat());
            assert_eq!((told.code, told.error.as_str()), (0, ""));
            let own = told.text.matches("has labels of its own").count();
            assert_eq!(own, first, "{}", told.text);
        }
        holds_all(&process, portal, &files);
        let status = process.done("pool status tank");
        assert!(status.contains("state: ONLINE"), "{status}");
    }
}

#[test]
fn what_cannot_be_rebuilt_is_refused_and_nothing_is_written() {
    let (process, portal, files) = exported("mirror a b", &["a", "b"]);
    // Labels are there.
    let told = rebuild(&words(&files));
    assert!(told.error.contains("nothing to rebuild"), "{}", told.error);
    // A copy of a disk, both without labels.
    lose_ends(&files[1]);
    let copy = process.folder().join("copy");
    std::fs::copy(&files[1], &copy).unwrap();
    let all = [&files[..], std::slice::from_ref(&copy)].concat();
    let told = rebuild(&[&["-y"], &words(&all)[..]].concat());
    assert_ne!(told.code, 0);
    assert!(told.error.contains("copy of another"), "{}", told.error);
    assert!(told.error.contains("nothing was written"), "{}", told.error);
    // Nothing is left of this one: the others rebuild it.
    std::fs::write(&copy, vec![0; (128 * MIB) as usize]).unwrap();
    let told = rebuild(&words(&all));
    assert!(
        told.error.contains("sandstone pool replace POOL OLD NEW"),
        "{}",
        told.error
    );
    // A folder may hold anything.
    let told = rebuild(&[process.folder().to_str().unwrap()]);
    assert!(told.error.contains("is a folder"), "{}", told.error);
    // No pool has this name.
    let told = rebuild(&[&["pond"], &words(&files)[..]].concat());
    assert!(
        told.error.contains("no trace of pool pond was found"),
        "{}",
        told.error
    );
    let told = rebuild(&[&["-y"], &words(&files)[..]].concat());
    assert_eq!(told.code, 0, "{}", told.error);
    holds_all(&process, portal, &files);
    // The pool is open now.
    let told = rebuild(&words(&files));
    assert_ne!(told.code, 0);
    assert!(told.error.contains("pool export"), "{}", told.error);
}

/// A disk has traces of two pools: neither is taken before the user names one.
#[test]
fn traces_of_two_pools_are_named_and_none_is_taken_untold() {
    let (process, portal, files) = exported("mirror a b", &["a", "b"]);
    process.done("pool create --size 128M pond c");
    process.done("pool export pond");
    let pond = process.folder().join("c");
    let both = [files[0].clone(), pond.clone()];
    both.iter().for_each(lose_ends);
    let told = rebuild(&[&["-y"], &words(&both)[..]].concat());
    assert_ne!(told.code, 0);
    for name in ["traces of several pools", "pool tank", "pool pond"] {
        assert!(told.error.contains(name), "{name}: {}", told.error);
    }
    let told = rebuild(&["-y", "pond", pond.to_str().unwrap()]);
    assert_eq!(told.code, 0, "{}", told.error);
    let told = rebuild(&[&["-y"], &words(&files)[..]].concat());
    assert_eq!(told.code, 0, "{}", told.error);
    holds_all(&process, portal, &files);
    process.done(&format!("pool import -d {} pond", pond.display()));
}

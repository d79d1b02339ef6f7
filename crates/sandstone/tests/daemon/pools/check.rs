//! `pool check` by the command line, on pools whose files were damaged.
//!
//! The tests check its findings, its advice, its exit code, and that it writes nothing.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::pools::devices::{flat, scrubbed_clean, serve};
use crate::process::Process;
use crate::units::known_sectors::{
    SECTOR, beginning_with, places, spoil, verify_sectors, write_sectors,
};

/// Sectors that are written: 8 MiB.
const WRITTEN: std::ops::Range<u64> = 0..2048;
/// Number of sectors of a block of the volume.
const BLOCK_SECTORS: u64 = 4;
/// Bytes of a block of the volume.
const BLOCK_BYTES: u64 = BLOCK_SECTORS * SECTOR as u64;

/// Result of a check: output for people, standard error, and exit code.
struct Told {
    text: String,
    error: String,
    code: i32,
}

/// Runs the check on the state folder, which holds the pools' files.
fn check(process: &Process, words: &[&str]) -> Told {
    let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args(["pool", "check", "-d"])
        .arg(process.folder())
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let told = Told {
        text: text(output.stdout),
        error: text(output.stderr),
        code: output.status.code().expect("it ended by itself"),
    };
    eprintln!("{}{}", told.text, told.error);
    told
}

/// Runs the check with JSON output; both runs must end with one code.
fn check_json(process: &Process, code: i32) -> Value {
    let told = check(process, &["tank", "--json"]);
    assert_eq!(
        (told.code, told.error.as_str()),
        (code, ""),
        "{}",
        told.text
    );
    serde_json::from_str(&told.text).expect(&told.text)
}

/// Returns the kinds and texts of the findings.
fn findings(told: &Value) -> Vec<(String, String)> {
    let found = told["findings"].as_array().expect("findings").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    found
        .map(|one| (text(&one["kind"]), text(&one["text"])))
        .collect()
}

/// Creates a pool with a volume, writes to the volume, and exports the pool.
fn exported(layout: &str, before: impl FnOnce(&Process)) -> (Process, std::net::SocketAddr) {
    let process = Process::start();
    process.done(&format!("pool create --size 128M tank {layout}"));
    let portal = serve(&process, "64M");
    write_sectors(portal, WRITTEN);
    before(&process);
    process.done("pool export -f tank");
    (process, portal)
}

fn file(process: &Process, name: &str) -> PathBuf {
    process.folder().join(name)
}

/// Returns the name of a block in the output for people.
fn named(block: u64, dataset: &str) -> String {
    let first = block * BLOCK_BYTES;
    format!("bytes {first} to {} of {dataset}", first + BLOCK_BYTES)
}

#[test]
fn a_sound_pool_is_said_to_be_sound() {
    let (process, _) = exported("mirror a b", |_| {});
    let told = check(&process, &["tank"]);
    assert_eq!((told.code, told.error.as_str()), (0, ""), "{}", told.text);
    assert!(told.text.contains("every copy is right"), "{}", told.text);
    let told = check_json(&process, 0);
    assert_eq!(findings(&told), [], "{told}");
    assert_eq!(told["missing"], Value::Array(vec![]));
    assert_eq!(told["blocks"], WRITTEN.end / BLOCK_SECTORS);
    // Other machines are not asked about it: a pool that is not there is an error of its own.
    let told = check(&process, &["pond"]);
    assert_ne!(told.code, 0);
    assert!(
        told.error.contains("no pool pond was found"),
        "{}",
        told.error
    );
}

#[test]
fn a_wrong_copy_of_a_mirror_is_found_and_a_scrub_mends_it() {
    let (process, portal) = exported("mirror a b", |_| {});
    let path = file(&process, "b");
    // Two sectors of block 5, one of block 9, one of block 511.
    let lie = places(&path, &WRITTEN);
    spoil(&path, [20, 22, 37, 2047].map(|sector| lie[&sector]));
    let before = std::fs::read(&path).unwrap();
    let told = check(&process, &["tank"]);
    assert_eq!((told.code, told.error.as_str()), (1, ""), "{}", told.text);
    assert!(told.text.contains("result: 3 findings\n"), "{}", told.text);
    let said = flat(&told.text);
    assert!(said.contains("bad-copy (3): nothing is lost: "), "{said}");
    assert!(said.contains("sandstone pool import -d"), "{said}");
    assert!(said.contains("sandstone pool scrub tank"), "{said}");
    // In the order in which they lie in the volume.
    let at = [5, 9, 511].map(|block| said.find(&named(block, "tank/vm1")));
    assert!(at.is_sorted() && at[0].is_some(), "{at:?}: {said}");
    let wrong = format!("{} gave wrong bytes 3 times", path.display());
    assert!(said.contains(&wrong), "{wrong}: {said}");
    let told = check_json(&process, 1);
    let kinds: Vec<String> = findings(&told).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["bad-copy"; 3], "{told}");
    assert!(
        std::fs::read(&path).unwrap() == before,
        "a check writes nothing"
    );

    process.done(&format!(
        "pool import -d {} tank",
        process.folder().display()
    ));
    process.done("pool scrub -w tank");
    scrubbed_clean(&process);
    verify_sectors(portal, WRITTEN);
    process.done("pool export -f tank");
    let told = check(&process, &["tank"]);
    assert_eq!(told.code, 0, "{}", told.text);
}

#[test]
fn a_block_without_a_right_copy_is_named_and_so_is_who_lost_it() {
    let (process, _) = exported("a", |process| {
        process.done("volume snapshot tank/vm1@now");
    });
    let path = file(&process, "a");
    let lie = places(&path, &WRITTEN);
    spoil(&path, [20, 37].map(|sector| lie[&sector]));
    let told = check(&process, &["tank"]);
    assert_eq!((told.code, told.error.as_str()), (1, ""), "{}", told.text);
    let said = flat(&told.text);
    assert!(
        said.contains("unreadable (2): these bytes are lost"),
        "{said}"
    );
    assert!(said.contains("restore them from a backup"), "{said}");
    for block in [5, 9] {
        assert!(said.contains(&named(block, "tank/vm1@now")), "{said}");
    }
    let told = check_json(&process, 1);
    let kinds: Vec<String> = findings(&told).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["unreadable"; 2], "{told}");

    // Two bad copies of a mirror are no better than a bad single copy.
    drop(process);
    let (process, _) = exported("mirror a b", |_| {});
    for name in ["a", "b"] {
        let path = file(&process, name);
        spoil(&path, [places(&path, &WRITTEN)[&20]]);
    }
    let told = check(&process, &["tank"]);
    assert_eq!(told.code, 1, "{}", told.text);
    let said = flat(&told.text);
    assert!(said.contains("unreadable (1): "), "{said}");
    assert!(said.contains(&named(5, "tank/vm1")), "{said}");
}

#[test]
fn a_lost_node_is_told_with_what_cannot_be_proven_without_it() {
    let (process, _) = exported("a", |_| {});
    let path = file(&process, "a");
    // The node of the volume's blocks is the full one. The others are nodes of the space map,
    // without which nothing opens.
    let disk = std::fs::read(&path).unwrap();
    let mut nodes = beginning_with(&path, b"SANDNODE");
    nodes.retain(|at| disk[*at as usize + 12..][..2] == 512_u16.to_le_bytes());
    assert!(!nodes.is_empty());
    spoil(&path, nodes);
    let told = check(&process, &["tank"]);
    assert_eq!(told.code, 1, "{}{}", told.text, told.error);
    let said = flat(&told.text);
    let node = "node 0/0 of tank/vm1, which leads to bytes 0 to 8388608 (sectors";
    let at = ["unreadable (1): ", node, "unproven ("].map(|word| said.find(word));
    assert!(at.is_sorted() && at[0].is_some(), "{at:?}: {said}");
}

#[test]
fn a_pool_that_does_not_open_says_how_to_go_back() {
    let (process, _) = exported("mirror a b", |_| {});
    for name in ["a", "b"] {
        let path = file(&process, name);
        // The manifest is JSON.
        let manifests = beginning_with(&path, b"{\"epoch\":");
        assert!(!manifests.is_empty());
        spoil(&path, manifests);
    }
    let told = check(&process, &["tank"]);
    assert_ne!(told.code, 0);
    assert_eq!(told.text, "");
    let said = flat(&told.error);
    assert!(said.contains("cannot be opened"), "{said}");
    assert!(said.contains("pool import -F -n -d"), "{said}");
}

#[test]
fn what_is_missing_is_not_said_to_be_right() {
    let (process, _) = exported("mirror a b", |_| {});
    std::fs::rename(
        file(&process, "b"),
        file(&process, "b").with_extension("away"),
    )
    .unwrap();
    // The file still carries its label, so it has to leave the folder.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(file(&process, "b.away"), elsewhere.path().join("b")).unwrap();
    std::fs::remove_file(file(&process, "b.away")).unwrap();
    let told = check(&process, &["tank"]);
    assert_eq!(told.code, 0, "{}{}", told.text, told.error);
    assert!(told.text.contains("missing: "), "{}", told.text);
    assert!(
        told.text.contains("its contents were not checked"),
        "{}",
        told.text
    );
    assert!(
        !told.text.contains("and every copy is right"),
        "{}",
        told.text
    );
    // A device that is named is checked.
    let whole = check(
        &process,
        &["-d", elsewhere.path().join("b").to_str().unwrap(), "tank"],
    );
    assert!(
        whole.text.contains("and every copy is right"),
        "{}",
        whole.text
    );
}

#[test]
fn a_pool_without_its_log_device_is_checked_where_that_is_asked_for() {
    let (process, _) = exported("mirror a b log l", |_| {});
    let elsewhere = tempfile::tempdir().unwrap();
    let log = file(&process, "l");
    std::fs::copy(&log, elsewhere.path().join("l")).unwrap();
    std::fs::remove_file(&log).unwrap();
    let told = check(&process, &["tank"]);
    assert_eq!((told.code, told.text.as_str()), (1, ""), "{}", told.error);
    let said = flat(&told.error);
    assert!(said.contains("log device is missing"), "{said}");
    assert!(said.contains("-m checks the pool"), "{said}");
    let told = check(&process, &["-m", "tank"]);
    assert_eq!((told.code, told.error.as_str()), (0, ""), "{}", told.text);
    assert!(told.text.contains("missing: "), "{}", told.text);
}

#[test]
fn a_pool_in_use_is_not_checked() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let told = check(&process, &["tank"]);
    assert_ne!(told.code, 0);
    let said = flat(&told.error);
    assert!(said.contains("sandstone pool scrub tank"), "{said}");
    assert!(said.contains("export it first"), "{said}");
    let device = file(&process, "a").display().to_string();
    assert_eq!(said.matches(&device).count(), 1, "named once: {said}");
}

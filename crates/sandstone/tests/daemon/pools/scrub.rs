//! Scrubs of pools with known rot: each wrong copy is repaired and counted exactly once.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::pools::devices::{flat, line_of, serve};
use crate::process::Process;
use crate::units::known_sectors::{SECTOR, places, spoil, verify_sectors, write_sectors};

/// Sectors that are written: 16 MiB.
const WRITTEN: std::ops::Range<u64> = 0..4096;
/// Number of sectors of a block of the volume.
const BLOCK_SECTORS: u64 = 4;
/// Number of sectors that rot, all of different places.
const ROTTEN: usize = 700;

/// Returns random sectors, none of them twice.
fn at_random(count: usize, seed: u64) -> BTreeSet<u64> {
    let mut state = seed;
    let mut sectors = BTreeSet::new();
    while sectors.len() < count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        sectors.insert((state >> 33) % WRITTEN.end);
    }
    sectors
}

fn status(process: &Process) -> Value {
    let told = process.done("pool status --json tank");
    let told: Value = serde_json::from_str(&told).expect(&told);
    told[0].clone()
}

/// Returns the read, write and checksum errors of a device, as the API counts them.
fn errors(status: &Value, device: &str) -> [u64; 3] {
    let mirror = status["vdevs"][0]["children"].as_array();
    let mut devices = mirror.expect("devices").iter();
    let is_meant = |found: &&Value| {
        let name = found["name"].as_str();
        name.is_some_and(|name| name.ends_with(&format!("/{device}")))
    };
    let device = devices.find(is_meant).expect("the device");
    ["read", "write", "checksum"].map(|count| device[count].as_u64().expect("a count"))
}

#[test]
fn what_rotted_is_mended_and_counted_exactly() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let portal = serve(&process, "64M");
    write_sectors(portal, WRITTEN);
    process.done("volume snapshot tank/vm1@now");
    process.done("pool export -f tank");

    let path = process.folder().join("b");
    let lie = places(&path, &WRITTEN);
    let rotten = at_random(ROTTEN, 20);
    spoil(&path, rotten.iter().map(|sector| lie[sector]));
    // A copy of a block is right or wrong as a whole, and it is rewritten as a whole.
    let blocks: BTreeSet<u64> = rotten.iter().map(|sector| sector / BLOCK_SECTORS).collect();
    let wrong = blocks.len() as u64;
    assert!(
        wrong < ROTTEN as u64,
        "some blocks have several rotten sectors"
    );
    let bytes = wrong * BLOCK_SECTORS * SECTOR as u64;

    process.done(&format!(
        "pool import -d {} tank",
        process.folder().display()
    ));
    process.done("pool scrub -w tank");
    let told = status(&process);
    let scan = &told["scan_status"];
    assert_eq!(scan["kind"], "scrub", "{scan}");
    assert_eq!(scan["state"], "finished", "{scan}");
    assert_eq!(scan["bad"], wrong, "{scan}");
    assert_eq!(scan["repaired"], bytes, "{scan}");
    assert_eq!(scan["errors"], 0, "{scan}");
    assert_eq!(errors(&told, "a"), [0, 0, 0]);
    assert_eq!(errors(&told, "b"), [0, 0, wrong]);
    // The output for people shows these counts.
    assert_eq!(line_of(&process, "b")[1..4], ["0", "0", &wrong.to_string()]);
    assert_eq!(line_of(&process, "a"), ["ONLINE", "0", "0", "0"]);
    let said = flat(&process.done("pool status tank"));
    let mib = format!("scrub repaired {:.2}M", bytes as f64 / (1 << 20) as f64);
    assert!(said.contains(&mib), "{mib}: {said}");

    // Nothing is left for another scrub, and nothing is counted twice.
    process.done("pool scrub -w tank");
    let told = status(&process);
    let scan = &told["scan_status"];
    for count in ["bad", "repaired", "errors"] {
        assert_eq!(scan[count], 0, "{count}: {scan}");
    }
    assert_eq!(errors(&told, "b"), [0, 0, wrong]);
    verify_sectors(portal, WRITTEN);
    process.done("pool clear tank");
    process.done("pool offline tank a");
    verify_sectors(portal, WRITTEN);
    process.done("pool online tank a");
    process.done("pool export -f tank");
    assert_eq!(
        places(&path, &WRITTEN),
        lie,
        "each sector is what it was, where it was"
    );
}

#[test]
fn reads_mend_and_count_what_they_meet_and_a_scrub_the_rest() {
    let process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let portal = serve(&process, "64M");
    write_sectors(portal, WRITTEN);
    process.done("pool export -f tank");
    // One half rots on one side, the other half on the other side: whichever side is read, all data
    // is right.
    let rotten = at_random(200, 21);
    let blocks = |side: u64| -> BTreeSet<u64> {
        let all = rotten.iter().map(|sector| sector / BLOCK_SECTORS);
        all.filter(|block| block % 2 == side).collect()
    };
    for (side, name) in ["a", "b"].iter().enumerate() {
        let path = process.folder().join(name);
        let lie = places(&path, &WRITTEN);
        let here = rotten.iter();
        let here = here.filter(|sector| (*sector / BLOCK_SECTORS) % 2 == side as u64);
        spoil(&path, here.map(|sector| lie[sector]));
    }
    process.done(&format!(
        "pool import -d {} tank",
        process.folder().display()
    ));
    verify_sectors(portal, WRITTEN);
    process.done("pool scrub -w tank");
    // Whether a scrub or a read met a wrong copy first, it is counted once, on its own side.
    let told = status(&process);
    for (side, name) in ["a", "b"].iter().enumerate() {
        let wrong = blocks(side as u64).len() as u64;
        assert_eq!(errors(&told, name), [0, 0, wrong], "{name}: {told}");
    }
    assert_eq!(told["scan_status"]["errors"], 0, "{told}");
    process.done("pool scrub -w tank");
    assert_eq!(status(&process)["scan_status"]["bad"], 0);
}

//! Volumes by the command line: listing, holds, properties, and the warnings before destruction.

use crate::process::Process;

fn with_snapshots() -> Process {
    let process = Process::start();
    process.done("pool create --size 128M tank a");
    process.done("volume create tank/f");
    for name in ["tank/f/v", "tank/f/w"] {
        process.done(&format!("volume create -s -V 16M {name}"));
    }
    process.done("volume set my:note=x compression=zstd tank/f/v tank/f/w");
    process.done("volume snapshot -r tank/f@1");
    process
}

#[test]
fn every_property_is_listed_and_no_other() {
    let process = with_snapshots();
    process.done("volume clone tank/f/v@1 tank/c");
    let list = |line: &str| process.done(&format!("volume list -H -t all -o {line}"));
    let told = list("name,volblocksize,volblock,snapshot_limit,compression,my:note tank/f/v");
    assert_eq!(told, "tank/f/v\t16K\t16K\tnone\tzstd\tx\n");
    let told = list("userrefs,clones,type tank/f/v@1");
    assert_eq!(told, "0\ttank/c\tsnapshot\n");
    let told = list("creation,available,referenced -p tank/f/v");
    let mut numbers = told.trim_end().split('\t').map(str::parse::<u64>);
    assert!(numbers.all(|number| number.is_ok()), "{told}");
    let told = list("creation tank/f/v");
    assert!(told.starts_with("20") && told.contains(" UTC"), "{told}");
    let named = process.done("volume list -H -o name -t filesystem");
    assert_eq!(named, process.done("volume list -H -o name -t folder"));
    for line in ["volume list -o colour", "volume get colour tank/c"] {
        let text = process.refused(line);
        assert!(text.contains("no property 'colour'"), "{text}");
    }
    let told = process.done("volume get -H my:colour tank/c");
    assert_eq!(told, "tank/c\tmy:colour\t-\t-\n");
}

#[test]
fn a_held_snapshot_is_not_destroyed() {
    let process = with_snapshots();
    process.done("volume hold -r keep tank/f@1");
    let told = process.done("volume holds -H -r tank/f@1");
    let held = told.lines().filter_map(|line| line.split('\t').next());
    let held: Vec<&str> = held.collect();
    assert_eq!(held, ["tank/f/v@1", "tank/f/w@1"], "{told}");
    let text = process.refused("volume destroy -y tank/f/v@1");
    assert!(text.contains("keep"), "{text}");
    process.done("volume release keep tank/f/v@1");
    assert_eq!(process.done("volume holds -H tank/f/v@1"), "");
    process.done("volume destroy -y tank/f/v@1");
    process.done("volume release -r keep tank/f@1");
    process.done("volume destroy -y tank/f/w@1");
    process.done("volume snapshot tank/f/w@2");
    let text = process.refused("volume hold .mine tank/f/w@2");
    assert!(text.contains("begins with a dot"), "{text}");
    let text = process.refused("volume holds tank/f/w@1");
    assert!(text.contains("no snapshot 'tank/f/w@1'"), "{text}");
}

/// The clone has a snapshot with the name of its origin snapshot, which would go too.
#[test]
fn snapshots_of_one_name_do_not_go_while_a_clone_stands_on_one_of_them() {
    let process = with_snapshots();
    process.done("volume clone tank/f/v@1 tank/c");
    process.done("volume snapshot tank/c@1");
    let text = process.refused("volume destroy -y -r tank@1");
    assert!(text.contains("'tank/c' is a clone of it"), "{text}");
    process.done("pool export tank");
    let folder = process.folder().display();
    process.done(&format!("pool import -d {folder} tank"));
    let told = process.done("volume list -H -o name,origin tank/c");
    assert_eq!(told, "tank/c\ttank/f/v@1\n");
    let told = process.done("volume list -H -t snapshot");
    assert_eq!(told.lines().count(), 3, "{told}");
}

#[test]
fn what_goes_is_told_before() {
    let process = with_snapshots();
    process.done("lu create unit --volume tank/f/w");
    let told = process.done("volume destroy -n -v -r tank/f");
    let expected = "would destroy folder tank/f\n\
        would destroy volume tank/f/v\n\
        would destroy snapshot tank/f/v@1\n\
        would destroy volume tank/f/w (refused while lu unit serves it)\n\
        would destroy snapshot tank/f/w@1\n";
    assert!(told.starts_with(expected), "{told}");
    let text = process.refused("volume destroy -n tank/f");
    assert!(text.contains("-r"), "{text}");
    // Nobody is there to confirm the destruction.
    let text = process.refused("volume destroy tank/f/v@1");
    assert!(
        text.contains("this destroys snapshot tank/f/v@1\n"),
        "{text}"
    );
    assert_eq!(process.done("volume list -H -t all").lines().count(), 6);
}

#[test]
fn a_volume_gets_another_size() {
    let process = with_snapshots();
    let size = || process.done("volume get -H -p -o value volsize tank/f/v");
    process.done("volume resize tank/f/v 32M");
    assert_eq!(size(), "33554432\n");
    let text = process.refused("volume resize tank/f/v 8M");
    assert!(text.contains("--shrink"), "{text}");
    process.refused("volume set --shrink volsize=8M compression=bogus tank/f/v");
    assert_eq!(size(), "33554432\n");
    process.done("volume resize --shrink tank/f/v 8M");
    assert_eq!(size(), "8388608\n");
}

#[test]
fn raidz_gets_blocks_that_suit_it() {
    let process = Process::start();
    process.done("pool create --size 128M tank raidz a b c");
    process.done("volume create -s -V 16M tank/v");
    let told = process.done("volume get -H -o value volblocksize tank/v");
    assert_eq!(told, "64K\n");
    let told = process.done("volume create -s -V 16M -b 4K tank/w");
    assert!(told.contains("note: "), "{told}");
    assert!(told.contains("volblocksize=16K"), "{told}");
    let told = process.done("lu create u --size 16M --volblocksize 4K --volume tank/u");
    assert!(told.contains("note: "), "{told}");
}

#[test]
fn datasets_of_a_pool_that_is_not_there_are_not_said_not_to_exist() {
    let mut process = with_snapshots();
    process.kill();
    let disk = process.folder().join("a");
    std::fs::rename(&disk, process.folder().join("away")).unwrap();
    process.restart();
    let text = process.refused("volume list tank/f/v");
    assert!(!text.contains("does not exist"), "{text}");
    let text = process.done("volume list");
    assert!(
        text.contains("the datasets of tank are not listed"),
        "{text}"
    );
    let text = process.refused("volume list pond/v");
    assert!(text.contains("pond"), "{text}");
}

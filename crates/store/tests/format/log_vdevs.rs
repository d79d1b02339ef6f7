//! Tests of the second image. They prove the document on log vdevs, cache vdevs, spares and streams
//! on their way, as the first image proves the rest.

use std::collections::BTreeMap;

use serde_json::json;
use store::engine::OpenErrorKind;

use super::devices::{self, BEGUN, CACHE, HALVES, LOG, SINGLE, SPARES, STORY};
use super::disks::{self, Disk, SECTOR};
use super::engine::World;
use super::reader::{self, Contents, Refusal};
use super::same;
use super::story::{Expected, SENT, Step, expected_of, follow};

const IMAGE: &[u8] = include_bytes!("version-1-devices.image.zst");

/// Sector of a leaf at which the data area begins.
const DATA: u32 = 256;

fn image() -> Vec<Disk> {
    disks::unpack(IMAGE)
}

/// Removes the volumes that nobody may read, since streams were being received into them.
fn readable(mut all: BTreeMap<String, Expected>) -> BTreeMap<String, Expected> {
    for receiving in ["arriving", "db"] {
        all.remove(receiving).expect("a volume");
    }
    all
}

/// Checks that reader and engine find the data of the first `steps` steps.
fn both_find(disks: Vec<Disk>, steps: usize) -> Contents {
    let expected = expected_of(&STORY[..steps]);
    let found = reader::read(&disks);
    same(&found.datasets, &expected);
    same(&World::open(disks).contents(), &readable(expected));
    found
}

/// Checks that reader and engine both refuse.
fn both_refuse(disks: Vec<Disk>, refusal: Refusal, kind: OpenErrorKind) {
    assert_eq!(reader::try_read(&disks).err(), Some(refusal));
    let error = World::try_open(disks).err().expect("it is refused");
    assert_eq!(error.kind, kind, "{error}");
}

/// Returns the image without these disks.
fn without(away: &[usize]) -> Vec<Disk> {
    let all = image().into_iter().enumerate();
    all.filter(|(place, _)| !away.contains(place))
        .map(|(_, disk)| disk)
        .collect()
}

/// Returns the numbers of the records in the data areas of some disks, with their sectors.
fn records(disks: &[Disk], places: &[usize]) -> BTreeMap<u64, Vec<(usize, u32)>> {
    let mut all: BTreeMap<u64, Vec<(usize, u32)>> = BTreeMap::new();
    for place in places {
        for (at, sector) in disks[*place].sectors.range(DATA..) {
            if sector.starts_with(b"SANDLOGR") {
                let seq = u64::from_le_bytes(sector[24..32].try_into().expect("8 bytes"));
                all.entry(seq).or_default().push((*place, *at));
            }
        }
    }
    all
}

/// Returns the records that are on the log vdev only.
fn only_copied(disks: &[Disk]) -> BTreeMap<u64, Vec<(usize, u32)>> {
    let chain = records(disks, &[SINGLE, HALVES[0], HALVES[1], SPARES[0]]);
    let mut copies = records(disks, &LOG);
    copies.retain(|seq, _| !chain.contains_key(seq));
    copies
}

fn rot(disks: &mut [Disk], sectors: &[(usize, u32)]) {
    for (place, at) in sectors {
        disks[*place].sectors.insert(*at, vec![0xee; SECTOR]);
    }
}

#[test]
fn the_image_of_devices_is_read_the_same_by_reader_and_engine() {
    let mut disks = image();
    let found = both_find(disks.clone(), STORY.len());
    assert_eq!(found.in_use, found.reached);
    // The log vdev has records that the chain lacks, and blocks of records that are in the chain.
    let copied = (found.copied_records, found.copied_blocks);
    assert!(copied.0 > 5 && copied.1 > copied.0, "{copied:?}");
    assert_eq!(copied.0, only_copied(&disks).len() as u64);
    // The disks may come in any order.
    disks.rotate_left(3);
    both_find(disks, STORY.len());
}

#[test]
fn streams_on_their_way_are_told() {
    let found = reader::read(&image());
    let from = |at: &serde_json::Value| at["from"].is_u64();
    let [arriving, db] = ["arriving", "db"].map(|name| found.receiving[name].clone());
    assert_eq!(found.receiving.len(), 2);
    assert_eq!((from(&arriving), from(&db)), (false, true));
    let told = |name: &str, position: u64, is_new: bool| {
        json!({
            "attempt": 7, "snapshot": SENT, "source": format!("elsewhere/{name}@sent"),
            "position": position, "is_new": is_new, "is_resumable": true, "with_properties": false,
        })
    };
    assert_eq!(arriving, told("arriving", 10, true));
    let mut db = db;
    db.as_object_mut().expect("an object").remove("from");
    assert_eq!(db, told("db", 9, false));
}

/// An opening brings copies into the chain. The chain, and the opening's own writes, are read alike
/// by both.
#[test]
fn what_was_copied_is_in_the_chain_once_the_pool_was_opened() {
    let mut world = World::open(image());
    let found = reader::read(world.disks());
    assert_eq!((found.copied_records, found.copied_blocks), (0, 0));
    let more = [
        Step::EndReceive {
            name: "arriving",
            begun: &BEGUN,
        },
        Step::AbortReceive {
            name: "db",
            newest: "db@kept",
        },
        Step::Write {
            name: "arriving",
            block: 3,
            count: 9,
            what: super::story::What::Text,
        },
    ];
    let mut expected = expected_of(STORY);
    for (number, step) in (STORY.len()..).zip(&more) {
        world.follow(number, step);
        follow(&mut expected, number, step);
    }
    let found = reader::read(world.disks());
    same(&found.datasets, &expected);
    assert!(found.receiving.is_empty());
    same(&world.contents(), &expected);
}

const CLONED: Step = Step::BeginReceive {
    name: "copy",
    from: Some("plain@one"),
    size: 2 << 20,
    block_size: 4096,
};

/// A stream makes a smaller clone of an existing snapshot: on its way and at its end, in the log
/// and behind a checkpoint.
#[test]
fn a_clone_that_is_received_is_read_the_same() {
    let mut world = World::open(image());
    let mut expected = expected_of(STORY);
    let steps = [
        CLONED,
        Step::Receive {
            name: "copy",
            block: 500,
            count: 3,
        },
        Step::Checkpoint,
        Step::EndReceive {
            name: "copy",
            begun: &CLONED,
        },
        Step::Checkpoint,
    ];
    for (number, step) in (STORY.len()..).zip(&steps) {
        world.follow(number, step);
        follow(&mut expected, number, step);
        let found = reader::read(world.disks());
        same(&found.datasets, &expected);
        let is_on_its_way = number < STORY.len() + 3;
        assert_eq!(found.receiving.contains_key("copy"), is_on_its_way);
        let mut readable = readable(expected.clone());
        if is_on_its_way {
            let told = &found.receiving["copy"];
            assert!(told["from"].is_u64() && told["is_new"] == true, "{told}");
            readable.remove("copy");
        }
        same(&world.contents(), &readable);
    }
    let blocks = |name: &str| expected[name].blocks.keys().copied().max();
    assert_eq!(
        (blocks("copy@sent"), blocks("plain@one")),
        (Some(511), Some(519))
    );
}

#[test]
fn what_is_redundant_or_needed_by_nobody_may_be_away() {
    for away in [
        &[LOG[0]][..],
        &[LOG[1]],
        &[HALVES[1]],
        &[HALVES[1], SPARES[1], CACHE],
    ] {
        both_find(without(away), STORY.len());
    }
}

#[test]
fn the_cache_vdev_has_blocks_and_no_root() {
    let cache = &image()[CACHE];
    let starts = |magic: &[u8]| cache.sectors.values().any(|at| at.starts_with(magic));
    assert!(starts(b"SANDLABL") && !starts(b"SANDROOT"));
    assert!(cache.sectors.range(DATA..).count() > 32);
}

#[test]
fn copies_that_are_torn_are_read_from_both_halves() {
    let mut disks = image();
    for (parity, place) in (0..).zip(LOG) {
        let sectors = disks[place].sectors.range(DATA..);
        let own: Vec<_> = sectors
            .filter(|(at, _)| *at % 2 == parity)
            .map(|(at, _)| (place, *at))
            .collect();
        // A block of more sectors has one checksum: it must be whole on one of the disks.
        let single = own
            .into_iter()
            .filter(|(place, at)| disks[*place].sectors[at].starts_with(b"SANDLOGR"));
        let single: Vec<_> = single.collect();
        assert!(single.len() > 3);
        rot(&mut disks, &single);
    }
    both_find(disks, STORY.len());
}

#[test]
fn a_log_vdev_that_is_away_is_missed() {
    both_refuse(
        without(&LOG),
        Refusal::LogMissing,
        OpenErrorKind::LogMissing,
    );
}

#[test]
fn a_copy_that_later_ones_prove_is_missed() {
    let copied = only_copied(&image());
    let mut missed = 0;
    for sectors in copied.values() {
        let mut disks = image();
        rot(&mut disks, sectors);
        let by_reader = reader::try_read(&disks).err();
        let by_engine = World::try_open(disks).err().map(|error| error.kind);
        match by_reader {
            None => assert_eq!(by_engine, None),
            Some(refusal) => {
                let both = (refusal, by_engine);
                let expected = (Refusal::Damaged, Some(OpenErrorKind::LogDamaged));
                assert_eq!(both, expected);
                missed += 1;
            }
        }
    }
    // All records but the last are missed. Nothing can prove the last one.
    assert_eq!(missed + 1, copied.len());
}

/// Copies that are all gone are not missed if the labels of their log vdev are there: the document
/// says so.
#[test]
fn a_log_vdev_with_labels_and_no_copies_proves_nothing() {
    let mut disks = image();
    let copies: Vec<_> = records(&disks, &LOG).into_values().flatten().collect();
    rot(&mut disks, &copies);
    ends_early(disks);
}

/// The copies are not missed either if records of the chain behind them are gone too.
#[test]
fn copies_are_not_missed_where_nothing_proves_that_there_were_any() {
    let mut disks = image();
    let (first, _) = only_copied(&disks).pop_first().expect("copies");
    let everywhere = [SINGLE, HALVES[0], SPARES[0], LOG[0], LOG[1]];
    let behind = records(&disks, &everywhere).split_off(&first);
    let sectors: Vec<_> = behind.values().flatten().copied().collect();
    rot(&mut disks, &sectors);
    ends_early(disks);
}

/// Checks that reader and engine find equal data, and less than in the image.
fn ends_early(disks: Vec<Disk>) {
    let found = reader::read(&disks);
    let whole = reader::read(&image());
    assert!(found.groups < whole.groups && found.copied_records == 0);
    let found = readable(found.datasets);
    assert_ne!(found, readable(whole.datasets));
    same(&World::open(disks).contents(), &found);
}

#[test]
fn a_copy_that_nothing_proves_is_as_if_it_had_never_been() {
    let mut disks = image();
    let (_, sectors) = only_copied(&disks).pop_last().expect("copies");
    rot(&mut disks, &sectors);
    both_find(disks, STORY.len() - 1);
}

/// The payload behind a copy is as necessary as the copy.
#[test]
fn a_block_behind_a_copy_that_later_ones_prove_is_missed() {
    let mut disks = image();
    let copied = only_copied(&disks);
    let (_, sectors) = copied.first_key_value().expect("copies");
    let behind: Vec<_> = sectors.iter().map(|(place, at)| (*place, at + 1)).collect();
    rot(&mut disks, &behind);
    both_refuse(disks, Refusal::Damaged, OpenErrorKind::LogDamaged);
}

#[test]
#[ignore = "makes the image anew"]
fn make_image_of_devices() {
    let disks = devices::make_image();
    let packed = disks::pack(&disks);
    assert_eq!(disks::unpack(&packed), disks);
    let place = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/format/version-1-devices.image.zst"
    );
    both_find(disks, STORY.len());
    std::fs::write(place, packed).expect("the image is written");
}

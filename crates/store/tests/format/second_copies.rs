//! Tests of blocks that lie twice: document and engine read either copy. The fourth image has two
//! copies of its metadata, since it is of two disks without redundancy, and it has a volume with
//! `copies=2`.

use std::collections::BTreeMap;

use store::vdev::{Class, TopLevelKind};

use super::disks::{self, Disk, SECTOR};
use super::engine::{MEMORY, World};
use super::reader::{self, labels};
use super::same;
use super::story::{Step, What, expected_of};

const IMAGE: &[u8] = include_bytes!("two-copies.image.zst");

/// Story of the image. Steps behind the last checkpoint are in the log.
const STORY: &[Step] = &[
    Step::Volume {
        name: "twice",
        size: 4 << 20,
        block_size: 16_384,
        properties: &[("copies", "2")],
    },
    Step::Volume {
        name: "once",
        size: 4 << 20,
        block_size: 4096,
        properties: &[],
    },
    Step::Checkpoint,
    write("twice", 0, What::Noise),
    write("twice", 4, What::Text),
    write("once", 1, What::Text),
    Step::Checkpoint,
    write("once", 700, What::Noise),
    write("twice", 5, What::Noise),
    Step::Checkpoint,
    write("twice", 0, What::Text),
    write("once", 2, What::Text),
];

const fn write(name: &'static str, block: u64, what: What) -> Step {
    Step::Write {
        name,
        block,
        count: 3,
        what,
    }
}

fn two_disks() -> World {
    World::of(&[(TopLevelKind::Leaf, Class::Normal, 1); 2], 0, MEMORY)
}

/// Returns the sectors of the data areas that lie in two places: of each pair the first one, and
/// the other. Records with a signpost are left out. Nobody looks for the log behind their signpost
/// if the record itself can be read.
fn pairs(disks: &[Disk]) -> Vec<[(usize, u32); 2]> {
    let mut places: BTreeMap<&[u8], Vec<(usize, u32)>> = BTreeMap::new();
    for (number, disk) in disks.iter().enumerate() {
        let labels = 256..(disk.size / SECTOR as u64) as u32 - 128;
        let sectors = disk.sectors.range(labels);
        for (at, bytes) in sectors.filter(|(_, bytes)| !bytes.starts_with(b"SANDLOGR")) {
            places.entry(bytes).or_default().push((number, *at));
        }
    }
    let twice = places.into_values();
    twice.filter_map(|places| places.try_into().ok()).collect()
}

#[test]
fn the_image_of_second_copies_is_read_the_same_by_reader_and_engine() {
    let disks = disks::unpack(IMAGE);
    let found = labels::find(&disks);
    let features = &found.config["features"]["read"];
    let names = features.as_array().expect("a list");
    assert!(names.iter().any(|name| name == "two_copies"), "{features}");
    assert!(found.root.manifest.iter().all(|at| at.second.is_some()));
    let contents = reader::read(&disks);
    same(&contents.datasets, &expected_of(STORY));
    assert_eq!(contents.in_use, contents.reached);
    same(&World::open(disks.clone()).contents(), &contents.datasets);
}

/// One sector of each pair rots: the first of all pairs, then the second of all pairs.
#[test]
fn reader_and_engine_go_on_with_the_other_copy_of_everything_that_lies_twice() {
    let disks = disks::unpack(IMAGE);
    let pairs = pairs(&disks);
    assert!(pairs.len() > 20, "{}", pairs.len());
    for which in [0, 1] {
        let mut rotten = disks.clone();
        for pair in &pairs {
            let (disk, at) = pair[which];
            rotten[disk].sectors.insert(at, vec![0xee; SECTOR]);
        }
        same(&reader::read(&rotten).datasets, &expected_of(STORY));
        same(&World::open(rotten).contents(), &expected_of(STORY));
    }
}

#[test]
#[ignore = "makes the image anew"]
fn make_image_of_second_copies() {
    let mut world = two_disks();
    for (number, step) in STORY.iter().enumerate() {
        world.follow(number, step);
    }
    let packed = disks::pack(world.disks());
    assert_eq!(disks::unpack(&packed), world.disks());
    let place = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/format/two-copies.image.zst"
    );
    std::fs::write(place, packed).expect("the image is written");
}

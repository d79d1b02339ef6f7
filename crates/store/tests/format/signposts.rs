//! Tests of signposts. A record of the log rots, no other place has it, and the log goes on far
//! away. By the record's signpost, document and engine miss the groups behind it. The third image
//! has such records, which are of version 2.

use store::engine::OpenErrorKind;
use store::vdev::{Class, TopLevelKind};

use super::disks::{self, Disk, SECTOR};
use super::engine::{MEMORY, World};
use super::reader::{self, Refusal};
use super::same;
use super::story::{Step, What, expected_of};

const IMAGE: &[u8] = include_bytes!("version-2-records.image.zst");

/// Story of the third image. Steps behind the checkpoint are in the log, on one disk after the
/// other.
const STORY: &[Step] = &[
    Step::Volume {
        name: "v",
        size: 4 << 20,
        block_size: 131_072,
        properties: &[("compression", "off")],
    },
    Step::Checkpoint,
    text(0),
    text(1),
    text(2),
    text(3),
    text(4),
    text(5),
];

const fn text(block: u64) -> Step {
    Step::Write {
        name: "v",
        block,
        count: 1,
        what: What::Text,
    }
}

fn three_disks() -> World {
    World::of(&[(TopLevelKind::Leaf, Class::Normal, 1); 3], 0, MEMORY)
}

const VOLUME: Step = Step::Volume {
    name: "v",
    size: 4 << 20,
    block_size: 131_072,
    properties: &[],
};

fn write(block: u64) -> Step {
    Step::Write {
        name: "v",
        block,
        count: 1,
        what: What::Noise,
    }
}

/// Returns the disk and sector of an address on a single leaf.
fn sector(address: u64) -> (usize, u32) {
    (
        (address >> 48) as usize,
        (address & 0xffff_ffff) as u32 + 256,
    )
}

fn rot(disks: &mut [Disk], (disk, at): (usize, u32)) {
    disks[disk].sectors.insert(at, vec![0xee; SECTOR]);
}

/// Returns the place of the record's second copy. The copy is equal, byte for byte.
fn signpost(disks: &[Disk], (disk, at): (usize, u32)) -> Option<(usize, u32)> {
    let record = &disks[disk].sectors[&at];
    let distance = i16::from_le_bytes([record[14], record[15]]);
    let other = at.checked_add_signed(distance.into())?;
    (distance != 0).then(|| {
        assert_eq!(&disks[disk].sectors[&other], record);
        (disk, other)
    })
}

fn both_miss_it(disks: &[Disk]) {
    assert_eq!(reader::try_read(disks).err(), Some(Refusal::Damaged));
    let error = World::try_open(disks.to_vec())
        .err()
        .expect("it is refused");
    assert_eq!(error.kind, OpenErrorKind::LogDamaged, "{error}");
}

#[test]
fn a_rotten_record_is_missed_wherever_the_log_goes_on() {
    let mut world = three_disks();
    let mut steps = vec![VOLUME, Step::Checkpoint];
    steps
        .iter()
        .enumerate()
        .for_each(|(number, step)| world.follow(number, step));
    let (mut far, mut only_by_signpost) = (0, 0);
    for block in 0..8 {
        steps.push(write(block));
        world.follow(steps.len() - 1, &steps[steps.len() - 1]);
        let disks = world.disks();
        let places: Vec<_> = reader::read(disks).places.into_iter().map(sector).collect();
        assert_eq!(places.len(), block as usize + 1);
        // The last two are left out: whether something proves the first of them depends on how far
        // the writes were.
        for (number, place) in places
            .iter()
            .enumerate()
            .take(places.len().saturating_sub(2))
        {
            let mut rotten = disks.to_vec();
            rot(&mut rotten, *place);
            both_miss_it(&rotten);
            let behind = &places[number + 1..];
            far += u32::from(behind[0].0 != place.0);
            let is_alone = places
                .iter()
                .filter(|other| *other != place)
                .all(|other| other.0 != place.0);
            if !is_alone || number > 0 {
                continue;
            }
            // Only the second copy of the record leads on from here.
            let second = signpost(disks, *place).expect("it is written twice");
            rot(&mut rotten, second);
            let before = expected_of(&steps[..2]);
            same(&reader::read(&rotten).datasets, &before);
            same(&World::open(rotten).contents(), &before);
            only_by_signpost += 1;
        }
    }
    assert!(far > 0 && only_by_signpost > 0, "{far}, {only_by_signpost}");
}

#[test]
fn the_image_of_signposts_is_read_the_same_by_reader_and_engine() {
    let disks = disks::unpack(IMAGE);
    let found = reader::read(&disks);
    same(&found.datasets, &expected_of(STORY));
    same(&World::open(disks.clone()).contents(), &found.datasets);
    let records: Vec<_> = found.places.into_iter().map(sector).collect();
    assert_eq!(records.len(), STORY.len() - 2);
    let version = |(disk, at): (usize, u32)| disks[disk].sectors[&at][8];
    let signed: Vec<_> = records.iter().filter(|at| version(**at) == 2).collect();
    assert!(signed.len() >= 2, "{}", signed.len());
    for place in signed {
        assert!(signpost(&disks, *place).is_some());
        // Nothing proves the last record.
        if Some(place) != records.last() {
            let mut rotten = disks.clone();
            rot(&mut rotten, *place);
            both_miss_it(&rotten);
        }
    }
}

#[test]
#[ignore = "makes the image anew"]
fn make_image_of_signposts() {
    let mut world = three_disks();
    for (number, step) in STORY.iter().enumerate() {
        world.follow(number, step);
    }
    let packed = disks::pack(world.disks());
    assert_eq!(disks::unpack(&packed), world.disks());
    let place = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/format/version-2-records.image.zst"
    );
    std::fs::write(place, packed).expect("the image is written");
}

//! Tests of the format on disks: a committed image that must always open, read by the engine and by
//! a reader that was written from `docs/format.md` and shares no code with it.
//!
//! The image holds the story of `story.rs`. It is made by `cargo test -p store --test format --
//! --ignored make_the_image`, and only if a new version of the format needs an image of its own.
//! Images of older versions stay, and stay readable. Seeds of the fuzz targets are made of the
//! image in the same way.
//!
//! The other images are:
//!
//! - A second image has what the first one lacks. `devices.rs` tells its story, `log_vdevs.rs`
//!   reads it, and it is made by `… --ignored make_image_of_devices`.
//! - A third image has records of the log that name the place of their second copy (`signposts.rs`,
//!   `… --ignored make_image_of_signposts`).
//! - A fourth image has blocks that lie twice (`second_copies.rs`, `… --ignored
//!   make_image_of_second_copies`).
//! - Small images of each combination of format features are in one file (`features.rs`, `…
//!   --ignored make_images_of_features`).

mod devices;
mod disks;
mod engine;
mod features;
mod log_vdevs;
mod old_copies;
mod reader;
mod reguid;
mod second_copies;
mod seeds;
mod signposts;
mod story;

const IMAGE: &[u8] = include_bytes!("version-1.image.zst");

#[test]
fn the_image_opens_and_holds_what_was_written() {
    let found = engine::World::open(disks::unpack(IMAGE)).contents();
    same(&found, &story::expected());
}

fn same(
    found: &std::collections::BTreeMap<String, story::Expected>,
    expected: &std::collections::BTreeMap<String, story::Expected>,
) {
    let names = |of: &std::collections::BTreeMap<String, story::Expected>| {
        of.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(found), names(expected));
    for (name, expected) in expected {
        let found = &found[name];
        assert_eq!(
            (found.size, found.block_size),
            (expected.size, expected.block_size),
            "{name}"
        );
        assert!(
            found.blocks.keys().eq(expected.blocks.keys()),
            "{name}: other blocks"
        );
        for (block, bytes) in &expected.blocks {
            let (found, expected) = (&found.blocks[block], bytes);
            let start = |of: &[u8]| String::from_utf8_lossy(&of[..64]).into_owned();
            assert!(
                found == expected,
                "block {block} of {name}: {:?}, not {:?}",
                start(found),
                start(expected)
            );
        }
    }
}

#[test]
fn a_reader_written_from_the_document_reads_the_same() {
    let mut disks = disks::unpack(IMAGE);
    disks.rotate_left(4);
    let found = reader::read(&disks);
    same(&found.datasets, &story::expected());
    // The story leaves a log, and a group behind the last one that is proven durable.
    assert!(found.groups > 20, "{} groups", found.groups);
    assert!(found.unproven > 0);
    // Every sector in use is reached.
    assert_eq!(found.in_use, found.reached);
}

#[test]
fn a_group_that_is_not_whole_and_not_proven_is_as_if_it_had_never_been() {
    let mut disks = disks::unpack(IMAGE);
    // The last step wrote text into the raidz3, the last five leaves. Its number finds the text
    // again. Sectors of the raidz3 count over these leaves; three of parity come first.
    let mark = format!("of step {:030}\n", story::STORY.len() - 1);
    let has_mark = |bytes: &[u8]| bytes.windows(mark.len()).any(|at| at == mark.as_bytes());
    let mut own = Vec::new();
    for (slot, disk) in disks[5..].iter().enumerate() {
        let marked = disk.sectors.iter().filter(|(_, bytes)| has_mark(bytes));
        own.extend(marked.map(|(at, _)| (at - 256) * 5 + slot as u32));
    }
    own.sort_unstable();
    assert_eq!(own.len(), 2);
    for sector in own[0] - 3..=own[1] {
        let leaf = &mut disks[5 + sector as usize % 5];
        leaf.sectors
            .insert(256 + sector / 5, vec![0xee; disks::SECTOR]);
    }
    let expected = story::expected_after(story::STORY.len() - 1);
    same(&reader::read(&disks).datasets, &expected);
    same(&engine::World::open(disks).contents(), &expected);
}

/// Each opening marks the end of the log that it found (section 8.1).
#[test]
fn a_log_that_was_marked_reads_the_same() {
    let mut disks = disks::unpack(IMAGE);
    let groups = reader::read(&disks).groups;
    for marks in 1..=2 {
        disks = engine::World::open(disks).into_disks();
        let found = reader::read(&disks);
        same(&found.datasets, &story::expected());
        assert_eq!(found.groups, groups + marks);
    }
}

#[test]
#[ignore = "makes the image anew"]
fn make_the_image() {
    let disks = engine::make_image();
    let packed = disks::pack(&disks);
    assert_eq!(disks::unpack(&packed), disks);
    same(&engine::World::open(disks).contents(), &story::expected());
    let place = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/format/version-1.image.zst"
    );
    std::fs::write(place, packed).expect("the image is written");
}

#[test]
#[ignore = "makes seeds of the fuzz targets"]
fn make_the_seeds() {
    seeds::write(&disks::unpack(IMAGE));
}

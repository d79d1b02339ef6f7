//! The format on disks: a committed image that must always open, read by the engine and by a reader
//! that was written from `docs/format.md` and shares no code with it.
//!
//! The image holds what `story.rs` tells. It is made by
//! `cargo test -p store --test format -- --ignored`, and only where a new version of the format needs
//! an image of its own: the images of older versions stay, and stay readable.

mod disks;
mod engine;
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

//! The pool of the second image and its story. The pool has a log vdev, a cache vdev and spares.
//!
//! At the end of the story, the disks of blocks do nothing any more, one after the other. Writes
//! that were acknowledged since then are on the log vdev only.

use store::vdev::{Class, TopLevelKind};

use super::disks::Disk;
use super::engine::World;
use super::story::{Step, What};

/// Disks by their places: a single one, the halves of a mirror, those of the log vdev, spares, and
/// the cache vdev.
pub(crate) const SINGLE: usize = 0;
pub(crate) const HALVES: [usize; 2] = [1, 2];
pub(crate) const LOG: [usize; 2] = [3, 4];
pub(crate) const SPARES: [usize; 2] = [5, 6];
pub(crate) const CACHE: usize = 7;

/// Bytes of memory for blocks. With less than this, no cache vdev is used.
const MEMORY: usize = 24 << 20;

/// Size of a volume that is larger than the blocks that memory keeps.
const BULK: u64 = 24 << 20;

/// Receive that goes on until the power goes: into a new volume, before the last checkpoint and
/// behind it.
pub(crate) const BEGUN: Step = Step::BeginReceive {
    name: "arriving",
    from: None,
    size: 1 << 20,
    block_size: 8192,
};

/// Returns the disks after the whole story, at whose end the power was cut.
pub(crate) fn make_image() -> Vec<Disk> {
    let mut world = World::of(
        &[
            (TopLevelKind::Leaf, Class::Normal, 1),
            (TopLevelKind::Mirror, Class::Normal, 2),
            (TopLevelKind::Mirror, Class::Log, 2),
        ],
        SPARES.len() as u64,
        MEMORY,
    );
    world.add_cache();
    for (number, step) in STORY.iter().enumerate() {
        world.follow(number, step);
    }
    world.into_disks()
}

const fn write(name: &'static str, block: u64, count: u64, what: What) -> Step {
    Step::Write {
        name,
        block,
        count,
        what,
    }
}

const fn volume(
    name: &'static str,
    size: u64,
    block_size: u32,
    properties: &'static [(&'static str, &'static str)],
) -> Step {
    Step::Volume {
        name,
        size,
        block_size,
        properties,
    }
}

pub(crate) const STORY: &[Step] = &[
    volume("plain", 4 << 20, 4096, &[]),
    volume("db", 4 << 20, 16384, &[("compression", "lz4")]),
    volume("bulk", BULK, 131_072, &[("compression", "zstd")]),
    volume(
        "raw",
        1 << 20,
        8192,
        &[("compression", "off"), ("checksum", "off")],
    ),
    write("plain", 0, 24, What::Text),
    write("plain", 500, 20, What::Noise),
    write("db", 0, 12, What::Text),
    write("bulk", 0, 64, What::Flat),
    write("bulk", 64, 64, What::Flat),
    write("bulk", 128, 64, What::Flat),
    write("raw", 0, 4, What::Text),
    Step::Checkpoint,
    // The volume has more than memory holds, so the cache vdev gets some of it.
    Step::Read {
        name: "bulk",
        size: BULK,
    },
    Step::Snapshot {
        names: &["plain@one"],
    },
    BEGUN,
    Step::Receive {
        name: "arriving",
        block: 0,
        count: 5,
    },
    Step::Checkpoint,
    Step::Pull { disk: HALVES[1] },
    write("plain", 4, 12, What::Text),
    write("db", 3, 2, What::Noise),
    Step::Clear {
        name: "plain",
        block: 502,
        count: 9,
    },
    Step::Checkpoint,
    write("raw", 2, 4, What::Text),
    Step::Checkpoint,
    // From here on, writes are only in the log.
    write("plain", 6, 3, What::Text),
    Step::Snapshot {
        names: &["db@kept"],
    },
    Step::Receive {
        name: "arriving",
        block: 5,
        count: 2,
    },
    Step::BeginReceive {
        name: "db",
        from: Some("db@kept"),
        size: 2 << 20,
        block_size: 16384,
    },
    Step::Receive {
        name: "db",
        block: 7,
        count: 2,
    },
    Step::Hang { disks: &[SINGLE] },
    write("plain", 600, 4, What::Noise),
    write("plain", 30, 2, What::Text),
    write("raw", 7, 1, What::Noise),
    Step::Hang {
        disks: &[SINGLE, HALVES[0], HALVES[1], SPARES[0], SPARES[1]],
    },
    write("plain", 31, 2, What::Noise),
    write("raw", 8, 2, What::Text),
    write("bulk", 3, 1, What::Noise),
    Step::Clear {
        name: "plain",
        block: 0,
        count: 2,
    },
    Step::LongNote { name: "plain" },
    Step::Snapshot {
        names: &["plain@late"],
    },
    volume("late", 1 << 20, 32768, &[]),
    write("late", 3, 2, What::Text),
    Step::Receive {
        name: "arriving",
        block: 7,
        count: 3,
    },
    write("plain", 32, 2, What::Text),
];

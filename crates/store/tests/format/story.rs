//! The story of the pool in the image, and its resulting content.

use std::collections::BTreeMap;

use store::stream::Begin;

/// A step of the story. Blocks are counted in units of volblocksize.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Volume {
        name: &'static str,
        size: u64,
        block_size: u32,
        properties: &'static [(&'static str, &'static str)],
    },
    Write {
        name: &'static str,
        block: u64,
        count: u64,
        what: What,
    },
    Clear {
        name: &'static str,
        block: u64,
        count: u64,
    },
    /// Snapshots of all volumes with these names, at one moment.
    Snapshot {
        names: &'static [&'static str],
    },
    Clone {
        snapshot: &'static str,
        name: &'static str,
    },
    Destroy {
        name: &'static str,
    },
    Rollback {
        snapshot: &'static str,
    },
    Rename {
        from: &'static str,
        to: &'static str,
    },
    Promote {
        clone: &'static str,
    },
    Resize {
        name: &'static str,
        size: u64,
    },
    /// A property whose value is too long for a record of the log is set.
    LongNote {
        name: &'static str,
    },
    Checkpoint,
    /// The receive of a stream begins: into a new volume, or changes since a snapshot. Changes
    /// since another volume's snapshot go into a new clone of that volume.
    BeginReceive {
        name: &'static str,
        from: Option<&'static str>,
        size: u64,
        block_size: u32,
    },
    /// Blocks of the stream come, all of them text, and their arrival is noted.
    Receive {
        name: &'static str,
        block: u64,
        count: u64,
    },
    /// The whole stream has arrived.
    EndReceive {
        name: &'static str,
        begun: &'static Step,
    },
    /// A stream of changes is given up: the volume goes back to its newest snapshot.
    AbortReceive {
        name: &'static str,
        newest: &'static str,
    },
    /// Bytes of the volume are read, twice.
    Read {
        name: &'static str,
        size: u64,
    },
    /// A disk is gone.
    Pull {
        disk: usize,
    },
    /// Disks do nothing any more, without an error.
    Hang {
        disks: &'static [usize],
    },
}

/// Returns the beginning of a stream that starts with this step. `guid` gives the guids of
/// snapshots.
pub(crate) fn begin(step: &Step, guid: impl Fn(&str) -> u64) -> Begin {
    let Step::BeginReceive {
        name,
        from,
        size,
        block_size,
    } = *step
    else {
        panic!("{step:?} begins no stream")
    };
    Begin {
        pool: 0xabcd,
        volume: 0x1234,
        snapshot: SENT,
        from: from.map(guid),
        origin: from
            .filter(|from| from.split('@').next() != Some(name))
            .map(|from| format!("elsewhere/{from}")),
        source: format!("elsewhere/{name}@sent"),
        path: String::new(),
        name: "sent".to_owned(),
        created_s: 1_700_000_000,
        size,
        block_size,
        start: 0,
        properties: None,
    }
}

/// Guid of the snapshots that streams bring: more than a double holds.
pub(crate) const SENT: u64 = 0xfeed_0000_0000_0001;

/// Kind of data that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// Data that packs well.
    Text,
    /// Data that does not pack.
    Noise,
    /// Data that is next to nothing when it is packed.
    Flat,
    /// Data that becomes no block at all.
    Zeros,
}

/// Returns the bytes that step `step` writes to the byte range of a volume that begins at `offset`.
pub(crate) fn bytes(what: What, step: usize, offset: u64, len: usize) -> Vec<u8> {
    match what {
        What::Zeros => vec![0; len],
        What::Flat => {
            let words = (offset / 8..).take(len / 8);
            let seed = (step as u64) << 40;
            words
                .flat_map(|word| mix(seed + (word >> 14)).to_le_bytes())
                .collect()
        }
        What::Text => {
            let lines = (offset / 64..).map(|line| format!("{line:024} of step {step:030}\n"));
            let text: String = lines.take(len / 64).collect();
            text.into_bytes()
        }
        What::Noise => {
            let words = (offset / 8..).take(len / 8);
            let seed = (step as u64) << 40;
            words
                .flat_map(|word| mix(seed + word).to_le_bytes())
                .collect()
        }
    }
}

/// Mixes the bits of a number (SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

const GIB: u64 = 1 << 30;
const KIB: u64 = 1 << 10;

pub(crate) const STORY: &[Step] = &[
    Step::Volume {
        name: "plain",
        size: 4 << 20,
        block_size: 4096,
        properties: &[],
    },
    Step::Volume {
        name: "db/data",
        size: 4 << 20,
        block_size: 16384,
        properties: &[("compression", "lz4")],
    },
    Step::Volume {
        name: "db/log",
        size: 4 << 20,
        block_size: 16384,
        properties: &[("compression", "zstd-7"), ("checksum", "blake3")],
    },
    Step::Volume {
        name: "raw",
        size: 1 << 20,
        block_size: 8192,
        properties: &[("compression", "off"), ("checksum", "off")],
    },
    // The tree has three levels of nodes: the volume's last block is number 262,399.
    Step::Volume {
        name: "wide",
        size: GIB + 1024 * KIB,
        block_size: 4096,
        properties: &[],
    },
    Step::Volume {
        name: "large",
        size: 2 << 20,
        block_size: 131_072,
        properties: &[("compression", "zstd")],
    },
    Step::Write {
        name: "plain",
        block: 0,
        count: 24,
        what: What::Text,
    },
    Step::Write {
        name: "plain",
        block: 500,
        count: 20,
        what: What::Text,
    },
    Step::Write {
        name: "plain",
        block: 1023,
        count: 1,
        what: What::Noise,
    },
    Step::Write {
        name: "db/data",
        block: 0,
        count: 12,
        what: What::Text,
    },
    Step::Write {
        name: "db/log",
        block: 3,
        count: 6,
        what: What::Text,
    },
    Step::Write {
        name: "db/log",
        block: 9,
        count: 1,
        what: What::Noise,
    },
    Step::Write {
        name: "raw",
        block: 5,
        count: 3,
        what: What::Text,
    },
    Step::Write {
        name: "wide",
        block: 0,
        count: 2,
        what: What::Text,
    },
    Step::Write {
        name: "wide",
        block: 262_399,
        count: 1,
        what: What::Text,
    },
    Step::Write {
        name: "large",
        block: 2,
        count: 3,
        what: What::Text,
    },
    Step::Checkpoint,
    Step::Snapshot {
        names: &["plain@one"],
    },
    Step::Snapshot {
        names: &["db/data@same", "db/log@same"],
    },
    Step::Write {
        name: "plain",
        block: 4,
        count: 6,
        what: What::Text,
    },
    Step::Clear {
        name: "plain",
        block: 502,
        count: 9,
    },
    Step::Write {
        name: "db/data",
        block: 1,
        count: 2,
        what: What::Noise,
    },
    Step::Write {
        name: "db/log",
        block: 4,
        count: 2,
        what: What::Zeros,
    },
    Step::Snapshot {
        names: &["plain@two"],
    },
    Step::Write {
        name: "plain",
        block: 6,
        count: 6,
        what: What::Text,
    },
    Step::Clone {
        snapshot: "plain@one",
        name: "copies/first",
    },
    Step::Checkpoint,
    Step::Write {
        name: "copies/first",
        block: 0,
        count: 1,
        what: What::Noise,
    },
    Step::Clear {
        name: "copies/first",
        block: 20,
        count: 1,
    },
    Step::Snapshot {
        names: &["plain@three"],
    },
    Step::Write {
        name: "plain",
        block: 8,
        count: 2,
        what: What::Text,
    },
    Step::Destroy { name: "plain@two" },
    Step::Checkpoint,
    Step::Snapshot {
        names: &["raw@before"],
    },
    Step::Write {
        name: "raw",
        block: 6,
        count: 3,
        what: What::Text,
    },
    Step::Snapshot {
        names: &["raw@after"],
    },
    Step::Checkpoint,
    // From here on, writes are only in the log.
    Step::Write {
        name: "plain",
        block: 9,
        count: 2,
        what: What::Text,
    },
    Step::Write {
        name: "raw",
        block: 0,
        count: 1,
        what: What::Noise,
    },
    Step::Clear {
        name: "wide",
        block: 1,
        count: 262_000,
    },
    Step::Volume {
        name: "late",
        size: 1 << 20,
        block_size: 32768,
        properties: &[],
    },
    Step::Write {
        name: "late",
        block: 7,
        count: 3,
        what: What::Text,
    },
    Step::Snapshot {
        names: &["late@kept", "db/data@kept"],
    },
    Step::Snapshot {
        names: &["late@gone"],
    },
    Step::Destroy { name: "late@gone" },
    Step::Write {
        name: "late",
        block: 8,
        count: 1,
        what: What::Noise,
    },
    Step::Clone {
        snapshot: "late@kept",
        name: "copies/second",
    },
    Step::Clear {
        name: "copies/second",
        block: 9,
        count: 1,
    },
    Step::LongNote { name: "db" },
    Step::Rename {
        from: "db/log",
        to: "journal",
    },
    Step::Promote {
        clone: "copies/first",
    },
    Step::Resize {
        name: "large",
        size: 4 << 20,
    },
    Step::Resize {
        name: "db/data",
        size: 96 * KIB,
    },
    Step::Resize {
        name: "db/data",
        size: 256 * KIB,
    },
    Step::Write {
        name: "large",
        block: 31,
        count: 1,
        what: What::Text,
    },
    Step::Destroy { name: "raw@after" },
    Step::Rollback {
        snapshot: "raw@before",
    },
    // Nothing proves this write durable, so readers have to check whether it is whole.
    Step::Write {
        name: "raw",
        block: 1,
        count: 1,
        what: What::Text,
    },
];

/// A volume or snapshot as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) size: u64,
    pub(crate) block_size: u32,
    /// Blocks that are not zeros.
    pub(crate) blocks: BTreeMap<u64, Vec<u8>>,
}

/// Returns the right content of the image: every volume and snapshot by its name.
pub(crate) fn expected() -> BTreeMap<String, Expected> {
    expected_of(STORY)
}

/// Returns the right content after the first `steps` steps.
pub(crate) fn expected_after(steps: usize) -> BTreeMap<String, Expected> {
    expected_of(&STORY[..steps])
}

/// Returns the right content after these steps.
pub(crate) fn expected_of(steps: &[Step]) -> BTreeMap<String, Expected> {
    let mut all = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        follow(&mut all, number, step);
    }
    all
}

fn copy(all: &BTreeMap<String, Expected>, name: &str) -> Expected {
    all.get(name).expect("a dataset").clone()
}

pub(crate) fn follow(all: &mut BTreeMap<String, Expected>, number: usize, step: &Step) {
    match *step {
        Step::Volume {
            name,
            size,
            block_size,
            ..
        } => {
            let blocks = BTreeMap::new();
            all.insert(
                name.to_owned(),
                Expected {
                    size,
                    block_size,
                    blocks,
                },
            );
        }
        Step::Write {
            name,
            block,
            count,
            what,
        } => {
            let mut of = copy(all, name);
            let size = u64::from(of.block_size);
            for block in block..block + count {
                match what {
                    What::Zeros => of.blocks.remove(&block),
                    _ => of
                        .blocks
                        .insert(block, bytes(what, number, block * size, size as usize)),
                };
            }
            all.insert(name.to_owned(), of);
        }
        Step::Clear { name, block, count } => {
            let mut of = copy(all, name);
            of.blocks
                .retain(|at, _| !(block..block + count).contains(at));
            all.insert(name.to_owned(), of);
        }
        Step::Snapshot { names } => {
            for name in names {
                let of = copy(all, name.split('@').next().expect("a name"));
                all.insert((*name).to_owned(), of);
            }
        }
        Step::Clone { snapshot, name } => {
            let of = copy(all, snapshot);
            all.insert(name.to_owned(), of);
        }
        Step::Rollback { snapshot } => {
            let of = copy(all, snapshot);
            let name = snapshot.split('@').next().expect("a name");
            all.insert(name.to_owned(), of);
        }
        Step::Destroy { name } => drop(all.remove(name).expect("a dataset")),
        Step::Rename { from, to } => {
            let all_before = std::mem::take(all);
            all.extend(
                all_before
                    .into_iter()
                    .map(|(name, of)| match name.strip_prefix(from) {
                        Some(rest) if rest.is_empty() || rest.starts_with('@') => {
                            (format!("{to}{rest}"), of)
                        }
                        _ => (name, of),
                    }),
            );
        }
        Step::Promote { clone } => {
            // Its origin is the oldest snapshot of the only volume that was cloned in this way.
            let origin = all.remove("plain@one").expect("a dataset");
            all.insert(format!("{clone}@one"), origin);
        }
        Step::Resize { name, size } => {
            let mut of = copy(all, name);
            of.size = size;
            let end = size.div_ceil(of.block_size.into());
            of.blocks.retain(|at, _| *at < end);
            all.insert(name.to_owned(), of);
        }
        Step::BeginReceive {
            name,
            from,
            size,
            block_size,
        } => {
            let blocks = from.map(|from| copy(all, from).blocks);
            let mut of = Expected {
                size,
                block_size,
                blocks: blocks.unwrap_or_default(),
            };
            let end = size.div_ceil(block_size.into());
            of.blocks.retain(|at, _| *at < end);
            all.insert(name.to_owned(), of);
        }
        Step::Receive { name, block, count } => {
            let what = What::Text;
            let write = Step::Write {
                name,
                block,
                count,
                what,
            };
            follow(all, number, &write);
        }
        Step::EndReceive { name, .. } => {
            let of = copy(all, name);
            all.insert(format!("{name}@sent"), of);
        }
        Step::AbortReceive { name, newest } => {
            let of = copy(all, newest);
            all.insert(name.to_owned(), of);
        }
        Step::LongNote { .. }
        | Step::Checkpoint
        | Step::Read { .. }
        | Step::Pull { .. }
        | Step::Hang { .. } => {}
    }
}

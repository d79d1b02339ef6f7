//! The content that the volume's blocks may have, and the snapshots that may exist, whichever host
//! made them.

use std::collections::{BTreeMap, BTreeSet};

use crate::random::Random;

/// Number of blocks of the volume.
pub(super) const BLOCKS: u64 = 24;

/// A request to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// The host writes this value, durably.
    Write {
        block: u64,
        value: u64,
    },
    Read {
        block: u64,
    },
    /// The host reads a block for the first time after an opening. The read settles the block's
    /// content.
    Verify {
        block: u64,
    },
    /// The host takes this snapshot.
    Snapshot {
        number: u64,
    },
    /// The host destroys this snapshot.
    Destroy {
        number: u64,
    },
}

impl Op {
    /// Returns the object of the request: a block, or a snapshot. A host has one request of each
    /// object under way.
    pub(super) fn object(self) -> u64 {
        match self {
            Self::Write { block, .. } | Self::Read { block } | Self::Verify { block } => block,
            Self::Snapshot { number } | Self::Destroy { number } => BLOCKS + number,
        }
    }
}

#[derive(Debug, Default)]
struct Block {
    /// Value that was acknowledged last; 0: none.
    value: u64,
    /// Values of writes that were not acknowledged, and may be there.
    maybe: Vec<u64>,
}

/// Presence of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Acknowledged,
    /// A request to create or destroy it was not acknowledged.
    Open,
}

/// Content of all blocks, and all snapshots that exist or may exist.
#[derive(Debug, Default)]
pub(super) struct Content {
    blocks: BTreeMap<u64, Block>,
    snapshots: BTreeMap<u64, Presence>,
    next: u64,
}

impl Content {
    pub(super) fn blocks(&self) -> impl Iterator<Item = u64> + use<> {
        0..BLOCKS
    }

    /// Makes requests to a host.
    pub(super) fn ops(&mut self, _host: usize, _life: u64, random: &mut Random) -> Vec<Op> {
        let count = random.within(1..6);
        let mut ops: Vec<Op> = Vec::new();
        for _ in 0..count {
            let block = random.within(0..BLOCKS);
            if ops.iter().any(|op| op.object() == block) {
                continue;
            }
            if random.per_mille(60) {
                ops.extend(self.verb(random));
            }
            if random.per_mille(300) {
                ops.push(Op::Read { block });
            } else {
                self.next += 1;
                let value = self.next;
                self.blocks.entry(block).or_default().maybe.push(value);
                ops.push(Op::Write { block, value });
            }
        }
        ops
    }

    /// Takes a snapshot, or destroys an existing one.
    fn verb(&mut self, random: &mut Random) -> Option<Op> {
        let there = self.snapshots.iter();
        let there = there.filter(|(_, presence)| **presence == Presence::Acknowledged);
        let there: Vec<u64> = there.map(|(number, _)| *number).collect();
        let (number, op) = if there.len() < 3 || random.per_mille(400) {
            self.next += 1;
            (self.next, Op::Snapshot { number: self.next })
        } else {
            let number = random.one_of(&there);
            (number, Op::Destroy { number })
        };
        self.snapshots.insert(number, Presence::Open);
        Some(op)
    }

    /// Takes the snapshots that a host finds when it opens the pool. Acknowledged changes must
    /// hold, and all else is settled.
    pub(super) fn found(&mut self, numbers: &BTreeSet<u64>) -> Result<(), String> {
        for (number, presence) in &self.snapshots {
            if *presence == Presence::Acknowledged && !numbers.contains(number) {
                return Err(format!("snapshot {number} was acknowledged, and is gone"));
            }
        }
        if let Some(number) = numbers.iter().find(|of| !self.snapshots.contains_key(of)) {
            return Err(format!("snapshot {number} was destroyed, and is back"));
        }
        let settled = numbers.iter().map(|of| (*of, Presence::Acknowledged));
        self.snapshots = settled.collect();
        Ok(())
    }

    /// Takes a host's acknowledgement, with the data of a read.
    pub(super) fn acknowledged(&mut self, op: Op, data: Option<&[u8]>) -> Result<(), String> {
        match op {
            Op::Snapshot { number } => {
                self.snapshots.insert(number, Presence::Acknowledged);
                return Ok(());
            }
            Op::Destroy { number } => {
                self.snapshots.remove(&number);
                return Ok(());
            }
            Op::Write { .. } | Op::Read { .. } | Op::Verify { .. } => {}
        }
        let block = self.blocks.entry(op.object()).or_default();
        let found = data.and_then(|data| data.first_chunk::<8>());
        let found = found.map(|bytes| u64::from_le_bytes(*bytes));
        match op {
            Op::Write { value, .. } => {
                block.value = value;
                block.maybe.retain(|other| *other > value);
            }
            Op::Read { .. } | Op::Verify { .. } => {
                let found = found.ok_or_else(|| format!("{op:?} brought nothing"))?;
                if found != block.value && !block.maybe.contains(&found) {
                    return Err(format!("{op:?} brought {found}: expected {block:?}"));
                }
                if let Op::Verify { .. } = op {
                    block.value = found;
                    block.maybe.clear();
                }
            }
            Op::Snapshot { .. } | Op::Destroy { .. } => {}
        }
        Ok(())
    }
}

//! Allowed contents of the volume's blocks and allowed snapshots, whichever host made them.

use std::collections::{BTreeMap, BTreeSet};

use crate::random::Random;

/// Number of blocks of the volume.
pub(super) const BLOCKS: u64 = 24;

/// Operation that a host is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Writes this value, durably.
    Write {
        block: u64,
        value: u64,
    },
    Read {
        block: u64,
    },
    /// Reads a block for the first time in an opening: the read settles its content.
    Verify {
        block: u64,
    },
    /// Takes this snapshot.
    Snapshot {
        number: u64,
    },
    /// Destroys this snapshot.
    Destroy {
        number: u64,
    },
}

impl Op {
    /// Returns the object of the operation, a block or a snapshot. A host has one operation of each
    /// under way.
    pub(super) fn object(self) -> u64 {
        match self {
            Self::Write { block, .. } | Self::Read { block } | Self::Verify { block } => block,
            Self::Snapshot { number } | Self::Destroy { number } => BLOCKS + number,
        }
    }
}

#[derive(Debug, Default)]
struct Block {
    /// Value that was acknowledged last; 0: nothing.
    value: u64,
    /// Values of writes that were not acknowledged and may be there.
    maybe: Vec<u64>,
}

/// Presence of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Acknowledged,
    /// The creation or destruction was asked for, and nothing was acknowledged.
    Open,
}

/// All blocks, and all snapshots that are there or may be.
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

    /// Returns operations to ask of a host.
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

    /// Creates a snapshot, or destroys an existing one.
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

    /// Takes the snapshots that a host found when it opened the pool.
    ///
    /// Acknowledged changes hold, and everything else is settled.
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

    /// Takes the acknowledgement of a host, with the bytes that it read.
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

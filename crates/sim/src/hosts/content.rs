//! What the blocks of the volume may hold, whichever host wrote them.

use std::collections::BTreeMap;

use crate::random::Random;

/// Blocks of the volume.
pub(super) const BLOCKS: u64 = 24;

/// Something that a host is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Write this, durably.
    Write {
        block: u64,
        value: u64,
    },
    Read {
        block: u64,
    },
    /// The first read of an opening: it settles what is there.
    Verify {
        block: u64,
    },
}

impl Op {
    pub(super) fn block(self) -> u64 {
        match self {
            Self::Write { block, .. } | Self::Read { block } | Self::Verify { block } => block,
        }
    }
}

#[derive(Debug, Default)]
struct Block {
    /// What was acknowledged last; 0: nothing.
    value: u64,
    /// Writes that were not, and may be there.
    maybe: Vec<u64>,
}

/// All blocks.
#[derive(Debug, Default)]
pub(super) struct Content {
    blocks: BTreeMap<u64, Block>,
    next: u64,
}

impl Content {
    pub(super) fn blocks(&self) -> impl Iterator<Item = u64> + use<> {
        0..BLOCKS
    }

    /// Something to ask of a host.
    pub(super) fn ops(&mut self, _host: usize, _life: u64, random: &mut Random) -> Vec<Op> {
        let count = random.within(1..6);
        let mut ops: Vec<Op> = Vec::new();
        for _ in 0..count {
            let block = random.within(0..BLOCKS);
            if ops.iter().any(|op| op.block() == block) {
                continue;
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

    /// A host says that it is done; what it read.
    pub(super) fn acknowledged(&mut self, op: Op, data: Option<&[u8]>) -> Result<(), String> {
        let block = self.blocks.entry(op.block()).or_default();
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
        }
        Ok(())
    }
}

//! Blocks that were made ready by whoever writes them, on a thread of their own.
//!
//! Packing a block and making its checksum is more than half of what a long write costs the engine,
//! and needs nothing of the pool but the volume's settings. Who asks does it where several threads
//! ask; the engine, which is one, takes the result. Settings may have changed by then: what was
//! made by others is made again.

use std::sync::Arc;

use pages::Pages;

use crate::catalog::Settings;
use crate::format::{Algorithm, Compression, SECTOR_SIZE};
use crate::{checksum, compress};

/// How the blocks of a volume are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    block_size: u32,
    compression: Compression,
    algorithm: Algorithm,
}

/// Whole blocks, in order, with what was made of them.
#[derive(Clone, Debug)]
pub struct Prepared {
    data: Pages,
    recipe: Recipe,
    blocks: Arc<[PreparedBlock]>,
}

/// What was made of a block.
#[derive(Debug)]
pub(super) struct PreparedBlock {
    /// It is never written.
    pub(super) is_zero: bool,
    /// Where that saves a sector.
    pub(super) packed: Option<Pages>,
    /// Of what was packed, else of the block.
    pub(super) checksum: u128,
}

impl Recipe {
    /// By a volume's settings; `None` where its blocks are left to the engine. Zstandard may take
    /// milliseconds for a block, and those who ask have others to serve: they are not kept from it
    /// so long.
    pub fn of(settings: &Settings, block_size: u32) -> Option<Self> {
        let compression = settings.compression.method();
        (compression != Compression::Zstd).then_some(Self {
            block_size,
            compression,
            algorithm: written_with(settings.checksum.algorithm()),
        })
    }

    /// Makes the bytes ready that are to be written from `offset` on, where they are whole blocks,
    /// and more than one sector: for that handing the result over would cost as much.
    pub fn prepare(self, offset: u64, data: &Pages) -> Option<Prepared> {
        let size = self.block_size as usize;
        let is_whole = offset.is_multiple_of(size as u64) && data.len().is_multiple_of(size);
        if !is_whole || data.len() <= SECTOR_SIZE {
            return None;
        }
        let starts = (0..data.len()).step_by(size);
        let blocks = starts.map(|start| self.prepare_block(&data.slice(start..start + size)));
        Some(Prepared {
            recipe: self,
            blocks: blocks.collect(),
            data: data.clone(),
        })
    }

    fn prepare_block(self, data: &Pages) -> PreparedBlock {
        if compress::is_zero(data) {
            return PreparedBlock {
                is_zero: true,
                packed: None,
                checksum: 0,
            };
        }
        // The only method left has no level.
        let packed = compress::pack(self.compression, 0, data);
        PreparedBlock {
            is_zero: false,
            checksum: checksum::of(self.algorithm, packed.as_ref().unwrap_or(data)),
            packed,
        }
    }
}

impl Prepared {
    /// The bytes.
    pub(super) fn data(&self) -> &Pages {
        &self.data
    }

    /// Bytes that blocks were packed into.
    pub(super) fn packed_bytes(&self) -> usize {
        let packed = self.blocks.iter().filter_map(|of| of.packed.as_ref());
        packed.map(Pages::len).sum()
    }

    /// What was made of the blocks, if that was done so and they begin at `offset`.
    pub(super) fn made_by(&self, recipe: Option<Recipe>, offset: u64) -> Option<&[PreparedBlock]> {
        let is_at_block = offset.is_multiple_of(self.recipe.block_size.into());
        (Some(self.recipe) == recipe && is_at_block).then_some(&self.blocks)
    }
}

/// Whose checksums pointers get. Also where nobody will verify them when the block is read: replay
/// asks whether it is there.
pub(super) fn written_with(algorithm: Algorithm) -> Algorithm {
    match algorithm {
        Algorithm::Off => Algorithm::Xxh3,
        other => other,
    }
}

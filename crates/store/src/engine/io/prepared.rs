//! Blocks that the caller compressed and checksummed in advance, on a thread of its own.
//!
//! Compressing a block and making its checksum is more than half of the engine's work for a long
//! write, and a tenth for a short one. It needs nothing of the pool but the volume's settings.
//! Callers have several threads for this, and the bytes are near their processors. The engine,
//! which has one thread, takes the result. If the settings have changed by then, the blocks are
//! made again.

use pages::Pages;
use smallvec::SmallVec;

use crate::catalog::Settings;
use crate::compress::{self, Payload};
use crate::format::{Algorithm, Compression};

/// Settings that decide how the blocks of a volume are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    block_size: u32,
    compression: Compression,
    algorithm: Algorithm,
}

/// Whole blocks, in order, with their compressed bytes and checksums.
#[derive(Clone, Debug)]
pub struct Prepared {
    data: Pages,
    recipe: Recipe,
    blocks: SmallVec<[PreparedBlock; 1]>,
    /// Whether the blocks need not stay in the cache.
    is_passed: bool,
}

/// Results of preparing a block.
#[derive(Clone, Debug)]
pub(in crate::engine) enum PreparedBlock {
    /// The block is all zeros, so it is never written.
    Zeros,
    Payload(Payload),
}

impl Recipe {
    /// Returns the recipe of a volume's settings; `None` if its blocks are left to the engine.
    /// Zstandard may take milliseconds for a block, and callers have other requests to serve, so
    /// they do not use it.
    pub fn of(settings: &Settings, block_size: u32) -> Option<Self> {
        let compression = settings.compression.method();
        (compression != Compression::Zstd).then_some(Self {
            block_size,
            compression,
            algorithm: written_with(settings.checksum.algorithm()),
        })
    }

    /// Returns the recipe as a number that threads can share.
    pub fn to_bits(self) -> u64 {
        let [compression, algorithm] = [self.compression as u64, self.algorithm as u64];
        u64::from(self.block_size) << 16 | compression << 8 | algorithm
    }

    /// Returns the recipe that [`Recipe::to_bits`] made a number.
    pub fn from_bits(bits: u64) -> Option<Self> {
        Some(Self {
            block_size: u32::try_from(bits >> 16).ok()?,
            compression: Compression::from_code((bits >> 8 & 0xff) as u8)?,
            algorithm: Algorithm::from_code((bits & 0xff) as u8)?,
        })
    }

    /// Prepares the bytes that are to be written from `offset` on. They must be whole blocks.
    pub fn prepare(self, offset: u64, data: &Pages) -> Option<Prepared> {
        let size = self.block_size as usize;
        let is_whole = offset.is_multiple_of(size as u64) && data.len().is_multiple_of(size);
        if !is_whole || data.is_empty() {
            return None;
        }
        let starts = (0..data.len()).step_by(size);
        let blocks = starts.map(|start| self.prepare_block(&data.slice(start..start + size)));
        Some(Prepared {
            recipe: self,
            blocks: blocks.collect(),
            data: data.clone(),
            is_passed: false,
        })
    }

    fn prepare_block(self, data: &Pages) -> PreparedBlock {
        if compress::is_zero(data) {
            return PreparedBlock::Zeros;
        }
        // The only method left has no level.
        PreparedBlock::Payload(compress::pack(self.compression, 0, self.algorithm, data))
    }
}

impl Prepared {
    /// Keeps the blocks out of the cache. It serves a writer in order that has written more than
    /// the cache holds: the blocks would leave it before anyone reads them.
    pub fn passed(self) -> Self {
        Self {
            is_passed: true,
            ..self
        }
    }

    /// Reports whether the blocks need not stay in the cache.
    pub(in crate::engine) fn is_passed(&self) -> bool {
        self.is_passed
    }

    /// Returns the bytes of the blocks.
    pub(in crate::engine) fn data(&self) -> &Pages {
        &self.data
    }

    /// Returns the bytes of the compressed blocks.
    pub(in crate::engine) fn packed_bytes(&self) -> usize {
        let packed = self.blocks.iter().filter_map(|block| match block {
            PreparedBlock::Zeros => None,
            PreparedBlock::Payload(payload) => payload.packed.as_ref(),
        });
        packed.map(Pages::len).sum()
    }

    /// Returns the prepared blocks, if they were made by `recipe` and begin at `offset`.
    pub(in crate::engine) fn made_by(
        &self,
        recipe: Option<Recipe>,
        offset: u64,
    ) -> Option<&[PreparedBlock]> {
        let is_at_block = offset.is_multiple_of(self.recipe.block_size.into());
        (Some(self.recipe) == recipe && is_at_block).then_some(&self.blocks)
    }
}

/// Returns the algorithm whose checksums pointers get. They get one even if no read verifies it,
/// since replay uses it to find out whether the block is there.
pub(in crate::engine) fn written_with(algorithm: Algorithm) -> Algorithm {
    match algorithm {
        Algorithm::Off => Algorithm::Xxh3,
        other => other,
    }
}

//! Who may take space, and when a change has to wait for it.
//!
//! Space that was overwritten is free only after two more checkpoints. So a change that finds none
//! asks for checkpoints and waits; only when three of them made no room for it there is none. A part
//! of the pool is never given to data: what clearings, deletions and checkpoints need, so that a full
//! pool can be emptied.

use super::state::{Contents, Pool};
use super::write::Write;
use crate::catalog;
use crate::format::{DatasetId, SECTOR_SIZE};

/// Checkpoints without a gain after which waiting is given up.
const VAIN_CHECKPOINTS: u32 = 3;
/// The least that is kept back, in sectors.
const MIN_SLOP: u64 = 1024;

impl Pool {
    /// Whether a change may take effect now.
    pub(super) fn may_take(&mut self, write: &Write) -> bool {
        let has_memory = self.commit.dirty_bytes() < self.limits.dirty_bytes;
        if !has_memory || self.updates > 2 * self.limits.updates {
            return false;
        }
        let needed = self.sectors_needed(write);
        if needed <= self.available_to(write.dataset) {
            self.vain_checkpoints = 0;
            return true;
        }
        self.is_checkpoint_wanted = true;
        false
    }

    /// Whether no checkpoint will make room for a change.
    pub(super) fn is_hopeless(&self, write: &Write) -> bool {
        self.vain_checkpoints >= VAIN_CHECKPOINTS
            && self.sectors_needed(write) > self.available_to(write.dataset)
    }

    fn sectors_needed(&self, write: &Write) -> u64 {
        let Some(contents) = self.contents.get(&write.dataset) else {
            return 0;
        };
        let sectors = contents.block_size as usize / SECTOR_SIZE;
        let widest = (0..self.space.vdevs())
            .map(|vdev| self.array.footprint(vdev, sectors as u16))
            .max();
        write.blocks(contents.block_size.into()) * u64::from(widest.unwrap_or(0))
    }

    /// Sectors that data of a dataset may still take.
    pub(super) fn available_to(&self, dataset: DatasetId) -> u64 {
        let own = self.contents.get(&dataset).map_or(0, unused_reservation);
        let others = self.reserved.saturating_sub(own);
        let available = self.space.counts().available;
        available.saturating_sub(self.slop() + others)
    }

    /// Adds up again what volumes have reserved, after that or their sizes changed.
    pub(super) fn count_reserved(&mut self) {
        self.reserved = self.contents.values().map(unused_reservation).sum();
    }

    /// Sectors that are never given to data.
    pub(super) fn slop(&self) -> u64 {
        let size = self.space.counts().size;
        (size / 32).max(MIN_SLOP.min(size / 4))
    }

    /// A checkpoint is durable: perhaps there is room now.
    pub(super) fn count_vain_checkpoint(&mut self) {
        if !self.stalled.is_empty() {
            self.vain_checkpoints += 1;
        }
    }

    /// What holds for a dataset now.
    pub(super) fn refresh_settings(&mut self, dataset: DatasetId) {
        let settings: catalog::Settings = self.catalog.settings(dataset);
        if let Some(contents) = self.contents.get_mut(&dataset) {
            contents.settings = settings;
        }
        self.count_reserved();
    }
}

/// Sectors that are kept for a volume and that it does not use, as far as the last checkpoint knows.
fn unused_reservation(of: &Contents) -> u64 {
    let wanted = of.settings.refreservation / SECTOR_SIZE as u64;
    wanted.saturating_sub(of.referenced)
}

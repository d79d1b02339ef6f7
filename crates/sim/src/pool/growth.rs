//! Disks that grow under a pool. The pool is told so, and uses what all leaves of a vdev have, and
//! no more.

use std::collections::BTreeMap;

use store::engine::Pool;
use store::vdev::layout::data_sectors;
use store::vdev::{Class, LeafId};

use super::PoolSubject;
use crate::disk::{Disk, SECTOR_SIZE};
use crate::subject::{Flaw, FlawKind};

/// State of a pool's growth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// Whether the labels do not say yet that a vdev is larger.
    pub(super) is_under_way: bool,
    /// Number of sectors for blocks that the labels confirm.
    pub(super) durable: u64,
}

impl Growth {
    pub(super) fn go_on(&mut self, pool: &Pool) {
        if self.is_under_way && pool.is_config_durable() {
            self.is_under_way = false;
            self.durable = sectors(pool);
        }
    }
}

/// Returns the number of sectors for blocks, as the vdevs are now.
pub(super) fn sectors(pool: &Pool) -> u64 {
    let tops = pool.status().top_levels.into_iter();
    let tops = tops.filter(|top| top.class == Class::Normal);
    tops.map(|top| top.sectors).sum()
}

impl PoolSubject {
    /// Tells the pool the sizes of these leaves' disks.
    pub(super) fn expand(&mut self, pool: &mut Pool, leaves: &[LeafId]) {
        let tops = pool.status().top_levels;
        for leaf in leaves {
            let is_in = |top: &&store::vdev::TopLevelStatus| {
                let mut slots = top.slots.iter().flat_map(|slot| &slot.leaves);
                slots.any(|of| of.leaf == *leaf)
            };
            let Some(top) = tops.iter().find(is_in) else {
                continue;
            };
            let Some(disk) = self.disks.get(&leaf.0) else {
                continue;
            };
            let before = sectors(pool);
            let told = pool.resize_leaf(*leaf, top.vdev, self.sizes[*disk]);
            assert!(told.is_ok(), "a disk that grew is refused: {told:?}");
            self.moves.reshapes += 1;
            let is_larger = sectors(pool) > before;
            self.moves.growths += u64::from(is_larger);
            self.growth.is_under_way |= is_larger;
        }
    }
}

/// Returns flaws of sizes. No leaf may be larger than its disk, and no vdev larger than its
/// smallest leaf allows.
pub(super) fn check(pool: &Pool, leaves: &BTreeMap<u32, usize>, disks: &[Disk]) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let status = pool.status();
    // The pool knows that these leaves are short.
    let is_short = |guid: u64| status.short.iter().any(|of| of.leaf == guid);
    for top in &status.top_levels {
        let slots = top.slots.len() as u64;
        for leaf in top.slots.iter().flat_map(|slot| &slot.leaves) {
            let Some(disk) = leaves.get(&leaf.leaf.0) else {
                continue;
            };
            let size = disks[*disk].sectors() * SECTOR_SIZE as u64;
            let most = data_sectors(leaf.size.min(size)).unwrap_or(0);
            if is_short(leaf.guid) {
                continue;
            }
            if leaf.size > size || top.sectors > most * slots {
                let text = format!(
                    "vdev {} has {} sectors, {:?} {} bytes, and its disk {size}",
                    top.vdev, top.sectors, leaf.leaf, leaf.size
                );
                let kind = FlawKind::Contradiction;
                flaws.push(Flaw { kind, text });
            }
        }
    }
    flaws
}

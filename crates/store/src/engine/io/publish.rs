//! Publishes leaves of maps, so that readers find blocks without the engine
//! ([`crate::published`]).

use std::sync::Arc;

use crate::engine::state::Pool;
use crate::format::DatasetId;
use crate::format::node::FAN_OUT;
use crate::map::Hit;
use crate::published::{Changed, Leaf, Published};

impl Pool {
    /// Returns the places of blocks that readers find by themselves.
    pub fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Publishes the leaf of a block that was just looked up, unless it is published already.
    ///
    /// Blocks that are not kept in memory, and those that a cache vdev may have, are the engine's.
    pub(in crate::engine) fn publish(&mut self, dataset: DatasetId, block: u64) {
        if !self.is_cached(dataset) || self.has_caches() {
            return;
        }
        let Some(of) = self.contents_of(dataset) else {
            return;
        };
        let number = block / FAN_OUT as u64;
        let Some((pointer, node)) = of.map.tree.peek(&self.node_cache).node(number) else {
            return;
        };
        if self.published.has(dataset, number, node) {
            return;
        }
        let node = Arc::clone(node);
        let first = number * FAN_OUT as u64;
        let mut changed = Changed::default();
        let mut hits = vec![Hit::Absent; FAN_OUT];
        of.map.layers.get_run(first, &mut hits);
        for (slot, hit) in hits.iter().enumerate() {
            let block = first + slot as u64;
            let is_held = || self.is_in_group(dataset, block);
            if *hit != Hit::Absent || is_held() {
                changed.note(slot);
            }
        }
        if let Some(used) = self.node_cache.used_flag(&pointer) {
            let leaf = Leaf::new(&node, used, changed);
            self.published.publish(dataset, number, leaf);
        }
    }
}

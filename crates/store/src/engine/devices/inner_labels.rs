//! Inner labels: two more labels on each leaf, inside the data area.
//!
//! Partitioning tools, and `dd` over the ends of a disk, destroy the labels at both ends and leave
//! the data between them. No opening reads the inner labels. They are written in the same rounds as
//! the other labels (`label_writes.rs`), so they say as much. If they are found, the others can be
//! rewritten from them (`engine/open/rebuild.rs`).
//!
//! Their sectors are in use from the moment at which their vdev gets sectors at all: no block ever
//! gets a place there.

use crate::engine::features::{Feature, FeatureState};
use crate::engine::state::Pool;
use crate::format::Extent;
use crate::vdev::TopLevelSpec;

impl Pool {
    /// Allocates the sectors of inner labels that are not in use yet: of a new vdev, or one that
    /// the checkpoint did not know.
    pub(in crate::engine) fn keep_inner_labels(&mut self) {
        let tree = self.vdev_tree();
        let tops = (0..).zip(&tree.top_levels);
        let extents: Vec<Extent> = tops
            .flat_map(|(vdev, top)| top.inner_extents(vdev))
            .collect();
        for extent in extents {
            // Sectors in use already hold these labels, or a check finds out what they hold.
            let _ = self.mark_in_use(extent);
        }
    }

    /// Returns a vdev to be added, with inner labels only if the pool may have them.
    pub(in crate::engine) fn with_known_labels(&mut self, top: &TopLevelSpec) -> TopLevelSpec {
        let mut top = top.clone();
        match self.config().features.state(Feature::InnerLabels) {
            FeatureState::Disabled => top.inner_labels = None,
            _ if top.inner_labels.is_some() => self.require_feature(Feature::InnerLabels),
            _ => {}
        }
        top
    }
}

//! Inner labels: two more labels on each leaf, inside of the data area.
//!
//! Partitioning tools, and `dd` over the ends of a disk, destroy the labels at both ends and leave
//! what lies between. No opening reads the inner labels. They are written in the same rounds as the
//! others (`labels.rs`), so they say as much, and whoever finds them can write the others anew
//! (`open/rebuild.rs`).
//!
//! Their sectors are in use from the moment at which their vdev gets sectors at all: no block ever
//! gets a place there.

use super::features::{Feature, FeatureState};
use super::state::Pool;
use crate::format::Extent;
use crate::space::Purpose;
use crate::vdev::TopLevelSpec;

impl Pool {
    /// Takes the sectors of inner labels that are not in use yet: those of a vdev that is new, or
    /// that the checkpoint did not know.
    pub(super) fn keep_inner_labels(&mut self) {
        let tree = self.array.tree();
        let tops = (0..).zip(&tree.top_levels);
        let extents: Vec<Extent> = tops
            .flat_map(|(vdev, top)| top.inner_extents(vdev))
            .collect();
        for extent in extents {
            // What is in use already is this, or a check finds out whose it is.
            let _ = self.space.mark_allocated(extent, Purpose::Young);
        }
    }

    /// A vdev to be added, with inner labels only where the pool may have such.
    pub(super) fn with_known_labels(&mut self, top: &TopLevelSpec) -> TopLevelSpec {
        let mut top = top.clone();
        let features = &mut self.config.features;
        match features.state(Feature::InnerLabels) {
            FeatureState::Disabled => top.inner_labels = None,
            _ if top.inner_labels.is_some() => features.require(Feature::InnerLabels),
            _ => {}
        }
        top
    }
}

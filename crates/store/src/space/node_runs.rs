//! Room for the nodes of maps, each of which is a few sectors in a row.
//!
//! In a full pool, the free space between blocks may be single sectors. Once runs for nodes are
//! few, an allocation that needs no more takes single sectors first. Data of which nobody reserved
//! space takes none of the last runs for nodes. Without these runs no checkpoint can be made,
//! however much is free.

use super::{Claim, Extent, Purpose, Space, Stream};

/// Runs of free sectors for nodes, over all top-level vdevs.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeRuns {
    /// Number of runs up to which they are few.
    few: u64,
    /// Number of runs that data may not take.
    kept: u64,
    /// Lower bound of the number of runs.
    known: u64,
    /// Whether `known` is the exact number, apart from allocations that cost no run.
    pub(super) is_exact: bool,
}

impl Space {
    /// Starts to count runs for nodes. `lengths` gives their sectors on each top-level vdev, and
    /// `few` the number up to which runs are few.
    pub fn count_node_runs(&mut self, lengths: &[u32], few: u64) {
        for (vdev, length) in self.vdevs.iter_mut().zip(lengths) {
            if vdev.node_run() != *length {
                vdev.count_node_runs_of(*length);
            }
        }
        self.node_runs.few = few;
        self.node_runs.known = 0;
        self.node_runs.is_exact = false;
    }

    /// Returns the number up to which runs for nodes are few.
    pub fn few_node_runs(&self) -> u64 {
        self.node_runs.few
    }

    /// Keeps `runs` runs for nodes from data that is allocated with [`Claim::Pieces`].
    pub fn keep_node_runs(&mut self, runs: u64) {
        self.node_runs.kept = runs;
    }

    /// Reports whether there are at least `runs` runs for nodes.
    pub fn has_node_runs(&mut self, runs: u64) -> bool {
        if self.node_runs.known < runs && !self.node_runs.is_exact {
            while self.free_one() {}
            self.lift_holds();
            let vdevs = self.vdevs.iter_mut();
            self.node_runs.known = vdevs.map(|vdev| vdev.sectors.node_runs()).sum();
            self.node_runs.is_exact = true;
        }
        self.node_runs.known >= runs
    }

    /// Returns the most runs for nodes that an allocation costs.
    fn node_cost(&self, vdev: u16, sectors: u32) -> u64 {
        let length = self.vdevs[usize::from(vdev)].node_run();
        1 + u64::from(sectors.div_ceil(length.max(1)))
    }

    pub(super) fn forget_node_runs(&mut self, vdev: u16, sectors: u32) {
        let cost = self.node_cost(vdev, sectors);
        self.node_runs.known = self.node_runs.known.saturating_sub(cost);
        self.node_runs.is_exact = false;
    }

    /// Reports whether an allocation may leave few runs for nodes.
    #[inline]
    pub(super) fn are_node_runs_few(&mut self, vdev: u16, sectors: u32) -> bool {
        if self.node_runs.few == 0 {
            return false;
        }
        let least = self.node_runs.few + self.node_cost(vdev, sectors);
        self.node_runs.known < least && !self.has_node_runs(least)
    }

    /// Reports whether an allocation that finds no crumb may take a run that nodes need more.
    pub(super) fn would_cost_nodes(
        &mut self,
        claim: Claim,
        stream: Stream,
        vdev: u16,
        sectors: u32,
    ) -> bool {
        let least = self.node_runs.kept + self.node_cost(vdev, sectors);
        stream == Stream::Data && claim == Claim::Pieces && !self.has_node_runs(least)
    }

    /// Takes free sectors in a run where no node would find room.
    pub(super) fn place_in_crumb(
        &mut self,
        stream: Stream,
        vdev: u16,
        sectors: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        let is_young = self.is_making && purpose == Purpose::Young;
        let place = &mut self.vdevs[usize::from(vdev)];
        let sector = place.allocate_crumb(stream, sectors, is_young)?;
        Some(Extent {
            vdev,
            sector,
            sectors,
        })
    }
}

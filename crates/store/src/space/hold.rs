//! Holds: free sectors that are held back from allocation while devices are told that they are
//! free.
//!
//! Held sectors are free in all figures. An allocation that finds no other place has the hold
//! lifted. A write into those sectors then waits at each device until the device is through with
//! the trim ([`vdev`](crate::vdev)'s queues ensure this). So a hold keeps writes from waiting, and
//! never costs anybody space.
//!
//! | | |
//! |---|---|
//! | may be held | free sectors that neither the last two checkpoints nor the log since reach |
//! | ends | when the devices have answered, or another allocation needs the sectors |

use super::bits::{self, REGION};
use super::{Extent, Space};

/// Free sectors of which devices are to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// All free sectors from this one on.
    From(u64),
    /// Sectors that became free since devices were told last, if this is noted: see
    /// [`Space::note_freed`].
    Freed,
}

impl Space {
    /// Starts, or stops, to note the sectors that become free, for [`Untold::Freed`].
    pub fn note_freed(&mut self, is_noted: bool) {
        for vdev in &mut self.vdevs {
            vdev.sectors.note_freed(is_noted);
        }
        self.notes_freed = is_noted;
    }

    /// Reports whether sectors became free on a top-level vdev that were not looked at yet.
    pub fn has_freed(&self, vdev: u16) -> bool {
        self.vdevs[usize::from(vdev)].sectors.freed.has_news()
    }

    /// Forgets the sectors that became free on a top-level vdev up to now: no device is told of
    /// them.
    pub fn forget_freed(&mut self, vdev: u16) {
        let sectors = &mut self.vdevs[usize::from(vdev)].sectors;
        sectors.note_freed(false);
        sectors.note_freed(self.notes_freed);
    }

    /// Holds free runs of one region of a top-level vdev: at most `count`, none shorter than
    /// `least` sectors. Also returns the sector at which [`Untold::From`] goes on. If no runs are
    /// returned, there are none any more. It must not be called while a checkpoint left work to
    /// [settle](Space::settle).
    pub fn hold(
        &mut self,
        vdev: u16,
        which: Untold,
        least: u32,
        count: usize,
    ) -> (Vec<Extent>, u64) {
        let (runs, next) = match which {
            Untold::From(sector) => self.free_runs(vdev, sector, least, count),
            Untold::Freed => (self.freed_runs(vdev, least, count), 0),
        };
        for extent in &runs {
            let sectors = &mut self.vdevs[usize::from(vdev)].sectors;
            sectors.hold(extent.sector, extent.sectors);
            self.forget_node_runs(vdev, extent.sectors);
        }
        self.known_runs = 0;
        self.held.extend(&runs);
        (runs, next)
    }

    fn free_runs(&self, vdev: u16, from: u64, least: u32, count: usize) -> (Vec<Extent>, u64) {
        let sectors = &self.vdevs[usize::from(vdev)].sectors;
        let size = u64::from(REGION);
        let first = (from / size) as u32;
        for region in first..sectors.regions() {
            let base = u64::from(region) * size;
            let start = from.saturating_sub(base) as u32;
            if sectors.free_of(region) < least {
                continue;
            }
            let runs = bits::runs(sectors.busy(region)).filter_map(|(at, length)| {
                let end = at + length;
                let at = at.max(start);
                (end >= at + least).then(|| (at, end - at))
            });
            let runs: Vec<Extent> = runs
                .take(count)
                .map(|(at, sectors)| Extent {
                    vdev,
                    sector: base + u64::from(at),
                    sectors,
                })
                .collect();
            if let Some(last) = runs.last() {
                let next = match runs.len() < count {
                    true => base + size,
                    false => last.end(),
                };
                return (runs, next.min(sectors.size()));
            }
        }
        (Vec::new(), sectors.size())
    }

    fn freed_runs(&mut self, vdev: u16, least: u32, count: usize) -> Vec<Extent> {
        let sectors = &mut self.vdevs[usize::from(vdev)].sectors;
        while let Some(region) = sectors.freed.first() {
            let base = u64::from(region) * u64::from(REGION);
            let runs = sectors.freed.runs(region, sectors.busy(region), least);
            let runs: Vec<(u32, u32)> = runs.take(count).collect();
            if runs.is_empty() {
                sectors.freed.looked_at(region);
                continue;
            }
            for (at, length) in &runs {
                sectors.freed.tell(region, *at, *length);
            }
            let extents = runs.into_iter().map(|(at, sectors)| Extent {
                vdev,
                sector: base + u64::from(at),
                sectors,
            });
            return extents.collect();
        }
        Vec::new()
    }

    /// Lets held sectors be taken again. Sectors whose hold was lifted already do not change.
    pub fn let_go(&mut self, extent: Extent) {
        if let Some(at) = self.held.iter().position(|held| *held == extent) {
            self.held.swap_remove(at);
            self.unhold(extent);
        }
    }

    /// Ends all holds early, for an allocation that finds no place otherwise. Reports whether there
    /// were any holds.
    pub(crate) fn lift_holds(&mut self) -> bool {
        let held = std::mem::take(&mut self.held);
        held.iter().for_each(|extent| self.unhold(*extent));
        !held.is_empty()
    }

    fn unhold(&mut self, extent: Extent) {
        let vdev = &mut self.vdevs[usize::from(extent.vdev)];
        vdev.look_for_pieces();
        vdev.sectors.unhold(extent.sector, extent.sectors);
        self.node_runs.is_exact = false;
    }

    /// Reports whether all work that checkpoints left to [`Space::settle`] is done, so that sectors
    /// may be held.
    pub fn may_hold(&self) -> bool {
        self.is_settled()
    }

    /// Returns the sectors of a top-level vdev that are held.
    pub(super) fn held_of(&self, vdev: u16) -> u64 {
        let own = self.held.iter().filter(|held| held.vdev == vdev);
        own.map(|held| u64::from(held.sectors)).sum()
    }

    pub(super) fn held_sectors(&self) -> u64 {
        self.held.iter().map(|held| u64::from(held.sectors)).sum()
    }
}

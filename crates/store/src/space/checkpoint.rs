//! Free space around a checkpoint: dropped sectors become free two checkpoints later, and an
//! opening goes on from the last durable checkpoint.

use super::{Extent, Fault, PAGE_BYTES, PAGE_SECTORS, Page, Space};

/// Checkpoints. The caller goes in this order:
///
/// 1. [`begin_checkpoint`](Space::begin_checkpoint).
/// 2. Allocate and drop for the trees.
/// 3. Until no page is dirty any more: for each [`next_dirty_page`](Space::next_dirty_page), drop
///    the old place and allocate a new one. Allocate what the [deferred](Space::deferred) extents
///    need.
/// 4. Write the deferred extents and, for each page, [`write_page`](Space::write_page).
/// 5. When the checkpoint is durable, [`commit_checkpoint`](Space::commit_checkpoint).
/// 6. [`settle`](Space::settle) now and then.
impl Space {
    /// Begins a checkpoint. From now on, it does not know allocations for [`Purpose::Young`].
    /// Finishes the work that is left to [`settle`](Space::settle).
    ///
    /// # Panics
    /// A checkpoint is being made already.
    pub fn begin_checkpoint(&mut self) {
        assert!(!self.is_making, "one checkpoint at a time");
        while !self.settle(usize::MAX) {}
        self.is_making = true;
    }

    /// Reports whether a checkpoint is being made.
    pub fn is_making_checkpoint(&self) -> bool {
        self.is_making
    }

    /// Returns the next page that changed and needs a new place on disk. Each page comes once in a
    /// checkpoint, in ascending order. Finding places may make more pages dirty, so the caller asks
    /// until there is none. A page that changes after it was [written](Space::write_page) comes
    /// again.
    pub fn next_dirty_page(&mut self) -> Option<Page> {
        (0..).zip(&mut self.vdevs).find_map(|(vdev, of)| {
            let number = of.sectors.place_dirty()?;
            Some(Page { vdev, number })
        })
    }

    /// Returns the number of pages that [`next_dirty_page`](Space::next_dirty_page) has still to
    /// return.
    pub fn dirty_pages(&self) -> usize {
        let counts = self.vdevs.iter().map(|vdev| vdev.sectors.unwritten().0);
        counts.sum()
    }

    /// Returns a page as it must be written now. A page of zeros need not lie anywhere.
    pub fn write_page(&mut self, page: Page) -> [u8; PAGE_BYTES] {
        let vdev = &mut self.vdevs[usize::from(page.vdev)];
        vdev.sectors.write_page(page.number)
    }

    /// Returns the extents that were dropped in making the checkpoint. An import must know them:
    /// see [`load_deferred`](Space::load_deferred). They are not sorted, and later drops append to
    /// them.
    pub fn deferred(&self) -> impl ExactSizeIterator<Item = Extent> + '_ {
        self.dropped.iter()
    }

    /// Notes that the checkpoint is durable. The extents that the last checkpoint dropped can be
    /// freed, and young sectors belong to the next checkpoint. Most of this work is left to
    /// [`settle`](Space::settle).
    ///
    /// # Panics
    /// No checkpoint is being made. In tests, also: a page was not written.
    pub fn commit_checkpoint(&mut self) {
        assert!(self.is_making, "no checkpoint is being made");
        debug_assert!(
            (self.vdevs.iter()).all(|vdev| vdev.sectors.unwritten() == (0, 0)),
            "a page was not written"
        );
        self.is_making = false;
        let young = std::mem::take(&mut self.dropped_young);
        let dropped = std::mem::replace(&mut self.dropped, young);
        self.freed = std::mem::replace(&mut self.deferred, dropped);
        self.forgotten = 0;
    }

    /// Does a part of the work that a durable checkpoint left: at most `budget` extents or regions,
    /// each well below a microsecond. Returns true when nothing is left.
    pub fn settle(&mut self, budget: usize) -> bool {
        for _ in 0..budget {
            // The order matters. `age` may find no busy sector that is neither young nor in `view`,
            // and the sectors that the last checkpoint dropped are still in `view`.
            let did = self.free_one() || self.age_one() || self.forget_one();
            if !did {
                return true;
            }
        }
        self.is_settled()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.freed.is_empty()
            && self.forgotten == self.deferred.len()
            && (self.is_making || self.vdevs.iter().all(|vdev| !vdev.sectors.has_young()))
    }

    pub(super) fn free_one(&mut self) -> bool {
        let Some(extent) = self.freed.pop() else {
            return false;
        };
        let vdev = &mut self.vdevs[usize::from(extent.vdev)];
        vdev.look_for_pieces();
        self.node_runs.is_exact = false;
        let freed = vdev.sectors.release(extent.sector, extent.sectors);
        debug_assert_eq!(freed, extent.sectors, "{extent:?} was freed already");
        true
    }

    fn age_one(&mut self) -> bool {
        // While a checkpoint is being made, it counts its young sectors as young.
        if self.is_making || !self.vdevs.iter().any(|vdev| vdev.sectors.has_young()) {
            return false;
        }
        // Held sectors are busy, and no checkpoint may say that they are in use.
        self.lift_holds();
        self.vdevs.iter_mut().any(|vdev| vdev.sectors.age())
    }

    fn forget_one(&mut self) -> bool {
        let Some(extent) = self.deferred.get(self.forgotten) else {
            return false;
        };
        self.forgotten += 1;
        let sectors = &mut self.vdevs[usize::from(extent.vdev)].sectors;
        let forgotten = sectors.forget(extent.sector, extent.sectors);
        if forgotten < extent.sectors {
            self.double_drops += u64::from(extent.sectors - forgotten);
            self.deferred.void(self.forgotten - 1);
        }
        true
    }
}

/// Import. The order is: pages, deferred extents, then [`mark_allocated`](Space::mark_allocated)
/// for the sectors that the log allocated since.
impl Space {
    /// Takes a page of the checkpoint's bitmap. A page that lies nowhere is zeros and need not be
    /// loaded.
    ///
    /// # Errors
    /// Sectors beyond the vdev's end are in use, or the page was loaded before.
    pub fn load_page(&mut self, page: Page, bytes: &[u8; PAGE_BYTES]) -> Result<(), Fault> {
        let extent = Extent {
            vdev: page.vdev,
            sector: u64::from(page.number) * PAGE_SECTORS,
            sectors: PAGE_SECTORS as u32,
        };
        let vdev = self.vdevs.get_mut(usize::from(page.vdev));
        let is_loaded = vdev.is_some_and(|vdev| vdev.sectors.load_page(page.number, bytes));
        is_loaded.then_some(()).ok_or(Fault::Beyond(extent))
    }

    /// Takes one of the extents that the checkpoint dropped. It becomes free with the next
    /// checkpoint.
    ///
    /// # Errors
    /// The sectors do not exist, or the checkpoint's bitmap does not have them, or has them no
    /// longer.
    pub fn load_deferred(&mut self, extent: Extent) -> Result<(), Fault> {
        self.check_exists(extent)?;
        let sectors = &mut self.vdevs[usize::from(extent.vdev)].sectors;
        if sectors.count_view(extent.sector, extent.sectors) < extent.sectors {
            return Err(Fault::NotAllocated(extent));
        }
        sectors.forget(extent.sector, extent.sectors);
        self.deferred.push(extent);
        self.forgotten = self.deferred.len();
        Ok(())
    }
}

//! What lies on a disk: sectors of 4 KiB, those never written being zeros, and which cannot be read.
//!
//! Copies are made by reference, so that an image of a disk costs nothing until one of the two changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use pages::{Page, PageMut, Pages};

/// Bytes of a sector, the unit of every request.
pub const SECTOR_SIZE: usize = store::format::SECTOR_SIZE;
/// Bytes of a slice, the finest grain at which a power cut tears.
pub const SLICE_SIZE: usize = 512;
/// Slices of a sector.
pub const SLICES: u32 = (SECTOR_SIZE / SLICE_SIZE) as u32;

/// All sectors of a disk.
#[derive(Clone, Debug, Default)]
pub struct Medium {
    sectors: Arc<BTreeMap<u64, Page>>,
    unreadable: Arc<BTreeSet<u64>>,
}

impl Medium {
    /// A sector's bytes, whether or not it can be read.
    pub fn sector(&self, sector: u64) -> Page {
        self.sectors
            .get(&sector)
            .cloned()
            .unwrap_or_else(Page::zero)
    }

    /// Sectors as one run of bytes; `None` where one of them cannot be read.
    pub fn read(&self, sectors: Range<u64>) -> Option<Pages> {
        if !self.unreadable.is_empty() && self.unreadable.range(sectors.clone()).next().is_some() {
            return None;
        }
        let len = (sectors.end - sectors.start) as usize;
        let pages: Vec<Page> = sectors.map(|sector| self.sector(sector)).collect();
        Some(Pages::from_pages(
            pages.into_iter(),
            0,
            (len * SECTOR_SIZE) as u32,
        ))
    }

    /// Replaces a sector. A sector that could not be read can be read again.
    pub fn put(&mut self, sector: u64, page: Page) {
        if !self.unreadable.is_empty() && self.unreadable.contains(&sector) {
            Arc::make_mut(&mut self.unreadable).remove(&sector);
        }
        let sectors = Arc::make_mut(&mut self.sectors);
        if page.is_zero() {
            sectors.remove(&sector);
        } else {
            sectors.insert(sector, page);
        }
    }

    /// Replaces the slices of a sector whose bits are set.
    pub fn put_slices(&mut self, sector: u64, page: &Page, slices: u8) {
        match slices {
            0 => {}
            u8::MAX => self.put(sector, page.clone()),
            _ => {
                let mut mixed = PageMut::copy_of(&self.sector(sector));
                for slice in (0..SLICES as usize).filter(|slice| slices >> slice & 1 == 1) {
                    let bytes = slice * SLICE_SIZE..(slice + 1) * SLICE_SIZE;
                    mixed[bytes.clone()].copy_from_slice(&page[bytes]);
                }
                self.put(sector, mixed.freeze());
            }
        }
    }

    /// Turns one bit of a sector over, without a trace.
    pub fn flip(&mut self, sector: u64, bit: u32) {
        let bit = bit as usize % (SECTOR_SIZE * 8);
        let mut page = PageMut::copy_of(&self.sector(sector));
        page[bit / 8] ^= 1 << (bit % 8);
        Arc::make_mut(&mut self.sectors).insert(sector, page.freeze());
    }

    /// Lets a sector no longer be read until it is written.
    pub fn ruin(&mut self, sector: u64) {
        Arc::make_mut(&mut self.unreadable).insert(sector);
    }

    /// The sectors that are not zeros by never having been written, ascending.
    pub fn written(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.sectors.keys().copied()
    }

    /// The written sector at or after `sector`, or else the first one.
    pub fn written_near(&self, sector: u64) -> Option<u64> {
        let after = self.sectors.range(sector..).next();
        let (found, _) = after.or_else(|| self.sectors.first_key_value())?;
        Some(*found)
    }
}

//! The content of a disk: sectors of 4 KiB, and which of them cannot be read. Sectors that were
//! never written are zeros.
//!
//! Copies are made by reference, so that an image of a disk costs nothing until one of the two
//! changes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use pages::{Page, PageMut, Pages};

/// Bytes of a sector, the unit of every request.
pub const SECTOR_SIZE: usize = store::format::SECTOR_SIZE;
/// Bytes of a slice, the finest grain at which a power cut tears.
pub const SLICE_SIZE: usize = 512;
/// Number of slices of a sector.
pub const SLICES: u32 = (SECTOR_SIZE / SLICE_SIZE) as u32;

/// Number of sectors that are copied together when an image changes.
const CHUNK: usize = 64;

type Chunk = [Option<Page>; CHUNK];

/// All sectors of a disk.
#[derive(Clone, Debug, Default)]
pub struct Medium {
    chunks: Arc<Vec<Option<Arc<Chunk>>>>,
    unreadable: Arc<BTreeSet<u64>>,
}

impl Medium {
    /// Returns a sector's bytes, whether or not it can be read.
    pub fn sector(&self, sector: u64) -> Page {
        self.written_sector(sector)
            .cloned()
            .unwrap_or_else(Page::zero)
    }

    fn written_sector(&self, sector: u64) -> Option<&Page> {
        let (chunk, slot) = place(sector);
        self.chunks.get(chunk)?.as_ref()?[slot].as_ref()
    }

    fn set(&mut self, sector: u64, page: Option<Page>) {
        let (chunk, slot) = place(sector);
        if page.is_none() && self.written_sector(sector).is_none() {
            return;
        }
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.len() <= chunk {
            chunks.resize(chunk + 1, None);
        }
        let chunk = chunks[chunk].get_or_insert_with(|| Arc::new([const { None }; CHUNK]));
        Arc::make_mut(chunk)[slot] = page;
    }

    /// Reports whether neither of the two was changed since one was made of the other.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks) && Arc::ptr_eq(&self.unreadable, &other.unreadable)
    }

    /// Reads sectors as one run of bytes. Returns `None` if one of them cannot be read.
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
        let page = (!page.is_zero()).then_some(page);
        self.set(sector, page);
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

    /// Flips one bit of a sector, without a trace.
    pub fn flip(&mut self, sector: u64, bit: u32) {
        let bit = bit as usize % (SECTOR_SIZE * 8);
        let mut page = PageMut::copy_of(&self.sector(sector));
        page[bit / 8] ^= 1 << (bit % 8);
        self.set(sector, Some(page.freeze()));
    }

    /// Makes a sector unreadable until it is written.
    pub fn ruin(&mut self, sector: u64) {
        Arc::make_mut(&mut self.unreadable).insert(sector);
    }

    /// Returns the sectors that were ever written, ascending.
    pub fn written(&self) -> impl Iterator<Item = u64> + '_ {
        self.written_from(0)
    }

    fn written_from(&self, sector: u64) -> impl Iterator<Item = u64> + '_ {
        let (first, _) = place(sector);
        let chunks = self.chunks.iter().enumerate().skip(first);
        let filled = chunks.filter_map(|(number, chunk)| Some((number, chunk.as_ref()?)));
        let sectors = filled.flat_map(|(number, chunk)| {
            let slots = (0..CHUNK).filter(|slot| chunk[*slot].is_some());
            slots.map(move |slot| (number * CHUNK + slot) as u64)
        });
        sectors.filter(move |at| *at >= sector)
    }

    /// Returns the first written sector from `sector` on, or else the first one of all.
    pub fn written_near(&self, sector: u64) -> Option<u64> {
        let after = self.written_from(sector).next();
        after.or_else(|| self.written().next())
    }
}

/// Returns the chunk of a sector, and the sector's place in it.
fn place(sector: u64) -> (usize, usize) {
    let sector = sector as usize;
    (sector / CHUNK, sector % CHUNK)
}

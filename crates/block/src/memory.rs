//! A device in main memory that stores whole pages by reference.
//!
//! A read returns references to the pages that hold the data; a write swaps references. So no byte
//! of a page-aligned request is copied, and a reader that holds an older page is not disturbed.
//! Pages that were never written, or were discarded, take no memory.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use smallvec::SmallVec;

use super::memory_pool::MemoryPool;
use super::{
    BlockDevice, BlockError, BlockErrorKind, Done, Foreseen, Geometry, Lane, PoolSpace, Request,
    Submitted, Ticket, Usage,
};
use pages::{PAGE_SIZE, Page, PageMut, Pages, prefetch};

/// Pages below one lock.
const GROUP: usize = 64;
/// Groups allocated together. One region is 256 MiB of device and takes 16 KiB.
const REGION: usize = 1024;
/// Most runs that one [`Request::Extents`] returns.
const MAX_EXTENTS: usize = 1024;
/// Most pages that one [`Request::Extents`] looks at, because it is answered at once: 128 MiB of
/// data, about a millisecond.
const MAX_LOOKS: usize = 32 << 10;

const PAGE: u64 = PAGE_SIZE as u64;
const REGION_BYTES: u64 = PAGE * (GROUP * REGION) as u64;

type Group = [Option<Page>; GROUP];

/// A memory-backed device. Its contents are lost when it is dropped.
pub struct MemoryDevice {
    geometry: Geometry,
    regions: Box<[OnceLock<Region>]>,
    /// Pages stored at present.
    stored: AtomicU64,
    /// Pool from which the pages are taken.
    pool: Arc<MemoryPool>,
}

/// Groups that hold no page have no memory.
type Region = Box<[Mutex<Option<Box<Group>>>]>;

/// The part of a request that lies in one page.
struct Piece {
    /// Offset of the piece in the request.
    at: usize,
    /// Number of the page.
    page: u64,
    /// Offset of the piece in the page.
    within: usize,
    len: usize,
}

impl Piece {
    fn is_whole(&self) -> bool {
        self.len == PAGE_SIZE
    }

    fn group(&self) -> u64 {
        self.page / GROUP as u64
    }
}

/// Change of a piece.
enum Change {
    /// Replace the old page by this page.
    Replace(Page),
    /// Write these bytes over the old ones.
    Merge(Pages),
    /// Write zeros over the old bytes, if there are any. A page of zeros is freed.
    Forget,
}

impl MemoryDevice {
    /// Creates an empty device of `len` bytes in blocks of `granularity`. It never stores more than
    /// `cap` bytes; a write beyond that fails with [`BlockErrorKind::NoSpace`].
    pub fn new(len: u64, granularity: u32, cap: u64) -> Result<Self, BlockError> {
        Self::in_pool(len, granularity, MemoryPool::new(cap))
    }

    /// Creates a device like [`MemoryDevice::new`], with a limit that other devices share.
    pub fn in_pool(len: u64, granularity: u32, pool: Arc<MemoryPool>) -> Result<Self, BlockError> {
        let allowed = [512, 4096].contains(&granularity);
        if !allowed || len == 0 || !len.is_multiple_of(u64::from(granularity)) {
            return Err(BlockError::new(
                BlockErrorKind::Invalid,
                format!("a memory device cannot have {len} bytes in blocks of {granularity}"),
            ));
        }
        let regions = len.div_ceil(REGION_BYTES);
        let geometry = Geometry {
            len,
            granularity,
            physical: PAGE_SIZE as u32,
            alignment: 0,
            minimum: PAGE_SIZE as u32,
            optimal: PAGE_SIZE as u32,
            discard: PAGE_SIZE as u32,
            discard_alignment: 0,
            atomic_write: 0,
            thin: true,
            volatile_cache: false,
            rotation_rate: 1,
        };
        pool.promise(len);
        Ok(Self {
            geometry,
            regions: (0..regions).map(|_| OnceLock::new()).collect(),
            stored: AtomicU64::new(0),
            pool,
        })
    }

    fn read(&self, offset: u64, len: u32) -> Pages {
        let (first, within) = (offset / PAGE, (offset % PAGE) as u32);
        let last = (offset + u64::from(len) - 1) / PAGE;
        let mut pages = PageRun {
            device: self,
            next: first,
            end: last + 1,
            group: None,
        };
        if first == last
            && let Some(page) = pages.next()
        {
            // The network reads the bytes after the rest of this turn's commands.
            page.prefetch(true);
            return Pages::from_page(page, within, len);
        }
        Pages::from_pages(pages, within, len)
    }

    /// Prefetches the main memory that accesses will need, one kind after the other: the places of
    /// the pages, then their reference counts and first bytes.
    fn prefetch(&self, accesses: &[Foreseen]) {
        for with_pages in [false, true] {
            for access in accesses {
                if access.offset >= self.geometry.len {
                    continue;
                }
                let number = access.offset / PAGE;
                // If another thread changes the group meanwhile, that thread brings it into the
                // cache as well.
                let group = self.group(number).and_then(|group| group.try_lock().ok());
                let pages = group.as_ref().and_then(|group| group.as_deref());
                let Some(slot) = pages.map(|pages| &pages[number as usize % GROUP]) else {
                    continue;
                };
                match slot {
                    _ if !with_pages => prefetch(slot),
                    Some(page) => page.prefetch(access.is_read),
                    None => {}
                }
            }
        }
    }

    /// Returns the group of a page, if its region holds anything.
    fn group(&self, page: u64) -> Option<&Mutex<Option<Box<Group>>>> {
        let group = page as usize / GROUP;
        Some(&self.regions[group / REGION].get()?[group % REGION])
    }

    fn write(&self, offset: u64, data: &Pages) -> Result<(), BlockError> {
        self.change(offset, data.len() as u64, |piece| {
            match data.whole_page(piece.at) {
                Some(page) if piece.is_whole() => Change::Replace(page.clone()),
                _ => Change::Merge(data.slice(piece.at..piece.at + piece.len)),
            }
        })
    }

    /// Writes zeros that stay allocated: whole pages become references to the one page of zeros.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.change(offset, len, |piece| match piece.is_whole() {
            true => Change::Replace(Page::zero()),
            false => Change::Merge(Pages::from_page(Page::zero(), 0, piece.len as u32)),
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        let mut at = offset;
        let end = offset + len;
        while at < end {
            let next = end.min((at / REGION_BYTES + 1) * REGION_BYTES);
            // A region that never held anything stays empty.
            if self.group(at / PAGE).is_some() {
                self.change(at, next - at, |_| Change::Forget)?;
            }
            at = next;
        }
        Ok(())
    }

    /// Changes a range piece by piece; the pages of one group under one lock.
    fn change(
        &self,
        offset: u64,
        len: u64,
        change: impl Fn(&Piece) -> Change,
    ) -> Result<(), BlockError> {
        let mut pieces = pieces(offset, len).peekable();
        while let Some(number) = pieces.peek().map(Piece::group) {
            let region = self.regions[number as usize / REGION]
                .get_or_init(|| (0..REGION).map(|_| Mutex::new(None)).collect());
            let group = &region[number as usize % REGION];
            let mut group = group.lock().unwrap_or_else(PoisonError::into_inner);
            // Pages that are no longer used are freed after the lock is released.
            let mut old: SmallVec<[Page; GROUP]> = SmallVec::new();
            while let Some(piece) = pieces.next_if(|piece| piece.group() == number) {
                old.extend(self.change_page(&mut group, &piece, change(&piece))?);
            }
            let holds_nothing =
                |pages: &Group| !old.is_empty() && pages.iter().all(Option::is_none);
            let spare = if group.as_deref().is_some_and(holds_nothing) {
                group.take()
            } else {
                None
            };
            drop(group);
            drop(spare);
        }
        Ok(())
    }

    /// Changes one page. Returns the old page if it is no longer used.
    fn change_page(
        &self,
        group: &mut Option<Box<Group>>,
        piece: &Piece,
        change: Change,
    ) -> Result<Option<Page>, BlockError> {
        let slot = piece.page as usize % GROUP;
        let stored = group.as_ref().is_some_and(|pages| pages[slot].is_some());
        if !stored {
            if matches!(change, Change::Forget) {
                return Ok(None);
            }
            self.reserve(piece.page)?;
        }
        let page = &mut group.get_or_insert_with(|| Box::new([const { None }; GROUP]))[slot];
        let range = piece.within..piece.within + piece.len;
        match change {
            Change::Replace(new) => return Ok(page.replace(new)),
            Change::Merge(bytes) => bytes.copy_to(&mut writable(page)[range]),
            Change::Forget if piece.is_whole() => {
                self.stored.fetch_sub(1, Ordering::Relaxed);
                self.pool.give_page();
                return Ok(page.take());
            }
            Change::Forget => writable(page)[range].fill(0),
        }
        Ok(None)
    }

    /// Counts one more stored page.
    fn reserve(&self, number: u64) -> Result<(), BlockError> {
        if self.pool.take_page() {
            self.stored.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let capacity = self.pool.capacity();
        Err(BlockError::new(
            BlockErrorKind::NoSpace,
            format!("memory devices may hold {capacity} bytes together"),
        )
        .at(number * PAGE))
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<(u64, bool)> {
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut at = offset;
        let end = offset + len;
        for _ in 0..MAX_LOOKS {
            if at == end {
                break;
            }
            let (data, next) = match self.group(at / PAGE) {
                None => (false, (at / REGION_BYTES + 1) * REGION_BYTES),
                Some(group) => {
                    let group = group.lock().unwrap_or_else(PoisonError::into_inner);
                    match group.as_ref() {
                        None => {
                            let size = PAGE * GROUP as u64;
                            (false, (at / size + 1) * size)
                        }
                        Some(pages) => (
                            pages[(at / PAGE) as usize % GROUP].is_some(),
                            (at / PAGE + 1) * PAGE,
                        ),
                    }
                }
            };
            let count = next.min(end) - at;
            let full = runs.len() == MAX_EXTENTS;
            match runs.last_mut() {
                Some(run) if run.1 == data => run.0 += count,
                _ if full => break,
                _ => runs.push((count, data)),
            }
            at += count;
        }
        runs
    }
}

/// Returns the bytes of a stored page for writing: in place if nobody else holds the page, else in
/// a copy.
fn writable(page: &mut Option<Page>) -> &mut [u8; PAGE_SIZE] {
    let page = page.get_or_insert_with(Page::zero);
    if page.get_mut().is_none() {
        *page = PageMut::copy_of(page).freeze();
    }
    page.get_mut()
        .expect("a page that was just made has one owner")
}

/// Cuts a range at the boundaries of the device's pages.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let (start, within) = (offset + at, (offset + at) % PAGE);
        let count = (PAGE - within).min(len - at);
        let piece = Piece {
            at: at as usize,
            page: start / PAGE,
            within: within as usize,
            len: count as usize,
        };
        at += count;
        Some(piece)
    })
}

/// Iterator over the pages of a range. It holds the lock of its present group.
struct PageRun<'a> {
    device: &'a MemoryDevice,
    next: u64,
    end: u64,
    group: Option<MutexGuard<'a, Option<Box<Group>>>>,
}

impl Iterator for PageRun<'_> {
    type Item = Page;

    #[inline]
    fn next(&mut self) -> Option<Page> {
        if self.next == self.end {
            return None;
        }
        let slot = self.next as usize % GROUP;
        if self.group.is_none() || slot == 0 {
            // Release one lock before taking the next: readers never hold two.
            self.group = None;
            let group = self.device.group(self.next);
            self.group = group.map(|group| group.lock().unwrap_or_else(PoisonError::into_inner));
        }
        self.next += 1;
        let stored = self
            .group
            .as_ref()
            .and_then(|group| group.as_ref()?[slot].clone());
        Some(stored.unwrap_or_else(Page::zero))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for PageRun<'_> {}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn reads_on_any_lane(&self) -> bool {
        true
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn foresees(&self) -> bool {
        true
    }

    fn foresee(&self, accesses: &[Foreseen]) {
        self.prefetch(accesses);
    }

    fn submit(&self, request: Request, _: Ticket, _: &mut Lane) -> Submitted {
        Submitted::Ready(self.geometry.check(&request).and_then(|()| match request {
            Request::Read { offset, len } => Ok(Done::Pages(self.read(offset, len))),
            Request::Write { offset, data, .. } => {
                self.write(offset, &data).map(|()| Done::Nothing)
            }
            Request::Flush => Ok(Done::Nothing),
            Request::Discard { offset, len }
            | Request::WriteZeroes {
                offset,
                len,
                unmap: true,
                ..
            } => self.discard(offset, len).map(|()| Done::Nothing),
            Request::WriteZeroes {
                offset,
                len,
                unmap: false,
                ..
            } => self.write_zeroes(offset, len).map(|()| Done::Nothing),
            Request::Extents { offset, len } => Ok(Done::Extents(self.extents(offset, len))),
        }))
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        let stored = self.stored.load(Ordering::Relaxed);
        Ok(Usage {
            allocated: stored * PAGE,
            pool: Some(PoolSpace {
                available: self.pool.available(),
                capacity: self.pool.capacity(),
            }),
        })
    }
}

impl Drop for MemoryDevice {
    fn drop(&mut self) {
        let stored = self.stored.load(Ordering::Relaxed);
        self.pool.release(self.geometry.len, stored);
    }
}

impl fmt::Debug for MemoryDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDevice")
            .field("geometry", &self.geometry)
            .field("stored", &self.stored)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

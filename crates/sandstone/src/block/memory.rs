//! A device in main memory that stores whole pages by reference.
//!
//! A read hands out references to the pages that hold the data; a write swaps references. So no
//! byte of a page-aligned request is copied, and a reader that holds an older page is not
//! disturbed. What was never written, or was discarded, takes no memory.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::page::{PAGE_SIZE, Page, PageMut, Pages};
use super::{
    BlockDevice, BlockError, BlockErrorKind, Done, Geometry, Lane, Request, Submitted, Ticket,
    Usage,
};

/// Pages below one lock.
const GROUP: usize = 64;
/// Groups allocated together: one region is 256 MiB of device and takes 16 KiB.
const REGION: usize = 1024;
/// Most runs that one [`Request::Extents`] tells.
const MAX_EXTENTS: usize = 1024;

const PAGE: u64 = PAGE_SIZE as u64;

type Group = [Option<Page>; GROUP];

/// A memory-backed device. Its contents vanish with it.
pub struct MemoryDevice {
    geometry: Geometry,
    regions: Box<[OnceLock<Region>]>,
    /// Pages stored at present.
    stored: AtomicU64,
    /// Most pages that may be stored.
    cap: u64,
}

/// Groups that hold no page have no memory.
type Region = Box<[Mutex<Option<Box<Group>>>]>;

/// What a write puts into one page.
enum Change<'a> {
    /// This page takes the place of the old one.
    Replace(&'a Page),
    /// These bytes are laid over the old ones.
    Merge { within: usize, bytes: Pages },
    /// Nothing is stored; reads give zeros.
    Discard,
    /// Zeros are laid over the old bytes.
    Zero { within: usize, len: usize },
}

impl MemoryDevice {
    /// A device of `len` bytes in blocks of `granularity` that holds nothing. At most `cap` bytes
    /// are ever stored; a write beyond that fails with [`BlockErrorKind::NoSpace`].
    pub fn new(len: u64, granularity: u32, cap: u64) -> Result<Self, BlockError> {
        let allowed = [512, 4096].contains(&granularity);
        if !allowed || len == 0 || !len.is_multiple_of(u64::from(granularity)) {
            return Err(BlockError::new(
                BlockErrorKind::Invalid,
                format!("a memory device of {len} bytes in blocks of {granularity}"),
            ));
        }
        let regions = len.div_ceil(PAGE * (GROUP * REGION) as u64);
        let geometry = Geometry {
            len,
            granularity,
            physical: PAGE_SIZE as u32,
            optimal: PAGE_SIZE as u32,
            discard: PAGE_SIZE as u32,
            atomic_write: 0,
            thin: true,
            volatile_cache: false,
        };
        Ok(Self {
            geometry,
            regions: (0..regions).map(|_| OnceLock::new()).collect(),
            stored: AtomicU64::new(0),
            cap: cap / PAGE,
        })
    }

    fn read(&self, offset: u64, len: u32) -> Pages {
        let (first, within) = (offset / PAGE, (offset % PAGE) as u32);
        if within + len <= PAGE_SIZE as u32 {
            return Pages::from_page(self.page(first), within, len);
        }
        let last = (offset + u64::from(len) - 1) / PAGE;
        let pages = PageRun {
            device: self,
            next: first,
            end: last + 1,
        };
        Pages::from_pages(pages, within, len)
    }

    fn page(&self, number: u64) -> Page {
        let Some(group) = self.group(number) else {
            return Page::zero();
        };
        let group = group.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = group
            .as_ref()
            .and_then(|pages| pages[number as usize % GROUP].clone());
        stored.unwrap_or_else(Page::zero)
    }

    /// The group of a page, where its region holds anything.
    fn group(&self, page: u64) -> Option<&Mutex<Option<Box<Group>>>> {
        let group = page as usize / GROUP;
        Some(&self.regions[group / REGION].get()?[group % REGION])
    }

    fn write(&self, offset: u64, data: &Pages) -> Result<(), BlockError> {
        for (at, page, within, len) in pieces(offset, data.len() as u64) {
            let change = match data.whole_page(at) {
                Some(whole) if len == PAGE_SIZE => Change::Replace(whole),
                _ => Change::Merge {
                    within,
                    bytes: data.slice(at..at + len),
                },
            };
            self.change(page, change)?;
        }
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        let mut at = offset;
        let end = offset + len;
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            if self.group(at / PAGE).is_none() {
                // Nothing is stored in the whole region.
                let region = PAGE * (GROUP * REGION) as u64;
                at = end.min((at / region + 1) * region);
                continue;
            }
            let (within, count) = ((at % PAGE) as usize, (next - at) as usize);
            if count == PAGE_SIZE {
                self.change(at / PAGE, Change::Discard)?;
            } else {
                self.change(at / PAGE, Change::Zero { within, len: count })?;
            }
            at = next;
        }
        Ok(())
    }

    /// Writes zeros that stay allocated: whole pages become references to the one page of zeros.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        let zero = Page::zero();
        for (_, page, within, count) in pieces(offset, len) {
            let change = if count == PAGE_SIZE {
                Change::Replace(&zero)
            } else {
                Change::Merge {
                    within,
                    bytes: Pages::from_page(zero.clone(), 0, count as u32),
                }
            };
            self.change(page, change)?;
        }
        Ok(())
    }

    fn change(&self, number: u64, change: Change<'_>) -> Result<(), BlockError> {
        let group = number as usize / GROUP;
        let region = self.regions[group / REGION]
            .get_or_init(|| (0..REGION).map(|_| Mutex::new(None)).collect());
        let mut group = region[group % REGION]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let slot = number as usize % GROUP;
        let stored = group.as_ref().is_some_and(|pages| pages[slot].is_some());
        match change {
            Change::Discard | Change::Zero { .. } if !stored => return Ok(()),
            Change::Replace(_) | Change::Merge { .. } if !stored => self.reserve(number)?,
            _ => {}
        }
        let pages = group.get_or_insert_with(|| Box::new([const { None }; GROUP]));
        let page = &mut pages[slot];
        // The old page is let go after the lock.
        let old = match change {
            Change::Replace(new) => page.replace(new.clone()),
            Change::Merge { within, bytes } => {
                let target = writable(page);
                let mut at = within;
                for chunk in bytes.chunks() {
                    target[at..at + chunk.len()].copy_from_slice(chunk);
                    at += chunk.len();
                }
                None
            }
            Change::Zero { within, len } => {
                writable(page)[within..within + len].fill(0);
                None
            }
            Change::Discard => {
                self.stored.fetch_sub(1, Ordering::Relaxed);
                page.take()
            }
        };
        let emptied = old.is_some() && pages.iter().all(Option::is_none);
        let spare = if emptied { group.take() } else { None };
        drop(group);
        drop((old, spare));
        Ok(())
    }

    /// Counts one more stored page.
    fn reserve(&self, number: u64) -> Result<(), BlockError> {
        let more = |stored| (stored < self.cap).then_some(stored + 1);
        match self
            .stored
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(BlockError::new(
                BlockErrorKind::NoSpace,
                format!("the memory device may hold {} bytes", self.cap * PAGE),
            )
            .at(number * PAGE)),
        }
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<(u64, bool)> {
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut at = offset;
        let end = offset + len;
        while at < end {
            let (data, next) = match self.group(at / PAGE) {
                None => {
                    let region = PAGE * (GROUP * REGION) as u64;
                    (false, (at / region + 1) * region)
                }
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

/// The bytes of a stored page for writing: in place where nobody else holds it, else in a copy.
fn writable(page: &mut Option<Page>) -> &mut [u8; PAGE_SIZE] {
    let page = page.get_or_insert_with(Page::zero);
    if page.get_mut().is_none() {
        *page = PageMut::copy_of(page).freeze();
    }
    page.get_mut()
        .expect("a page that was just made has one owner")
}

/// Cuts a range at the device's pages: (offset in the range, page number, offset in the page, length).
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (usize, u64, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let start = offset + at;
        let count = (PAGE - start % PAGE).min(len - at);
        let piece = (
            at as usize,
            start / PAGE,
            (start % PAGE) as usize,
            count as usize,
        );
        at += count;
        Some(piece)
    })
}

/// Iterator over the pages of a range.
struct PageRun<'a> {
    device: &'a MemoryDevice,
    next: u64,
    end: u64,
}

impl Iterator for PageRun<'_> {
    type Item = Page;

    fn next(&mut self) -> Option<Page> {
        if self.next == self.end {
            return None;
        }
        self.next += 1;
        Some(self.device.page(self.next - 1))
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
            available: (self.cap - stored) * PAGE,
        })
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

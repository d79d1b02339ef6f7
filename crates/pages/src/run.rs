//! Runs of bytes that lie in pages. [`Pages`] is shared and immutable. [`PagesMut`] is the buffer
//! that collects the data of one command.
//!
//! A run inside one page (every 4 KiB read) takes no memory of its own. A longer run shares one
//! slice of page handles. So cloning and cutting cost the same at any length.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::page::{PAGE_SIZE, Page, PageMut, footprint};

/// Number of pages from which a buffer is made of neighbours if possible. A device needs half as
/// long again to scatter 1 MiB over separate pages as to write one piece.
const RUN_PAGES: usize = 8;

/// Bytes in shared pages. They are cheap to clone and to cut.
#[derive(Clone, Default)]
pub struct Pages {
    run: Run,
    /// Offset of the first byte, counted from the start of the run's first page.
    start: u32,
    len: u32,
}

#[derive(Clone, Default)]
enum Run {
    #[default]
    None,
    One(Page),
    Many(Arc<[Page]>),
}

impl Run {
    fn pages(&self) -> &[Page] {
        match self {
            Run::None => &[],
            Run::One(page) => std::slice::from_ref(page),
            Run::Many(pages) => pages,
        }
    }
}

impl Pages {
    /// Makes an empty run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies `bytes` into pages, from the start of a page on.
    ///
    /// # Panics
    /// Panics if `bytes` is 4 GiB or longer.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut buffer = PagesMut::allocate(bytes.len());
        buffer.copy_from(0, bytes);
        buffer.freeze()
    }

    /// Makes `len` zeros, which take no memory beyond the run itself.
    pub fn zeroes(len: u32) -> Self {
        let pages = (len as usize).div_ceil(PAGE_SIZE);
        Self::from_pages((0..pages).map(|_| Page::zero()), 0, len)
    }

    /// Returns `len` bytes of one page, from `start` on.
    ///
    /// # Panics
    /// Panics if they do not lie in the page.
    #[inline]
    pub fn from_page(page: Page, start: u32, len: u32) -> Self {
        assert!(
            start as usize + len as usize <= PAGE_SIZE,
            "a run inside one page"
        );
        Self {
            run: Run::One(page),
            start,
            len,
        }
    }

    /// Returns `len` bytes in these pages, starting `start` bytes into the first one.
    ///
    /// # Panics
    /// Panics if the pages hold fewer bytes.
    pub fn from_pages(pages: impl ExactSizeIterator<Item = Page>, start: u32, len: u32) -> Self {
        if len == 0 {
            return Self::new();
        }
        let mut pages = pages;
        assert!(
            start as usize + len as usize <= pages.len() * PAGE_SIZE,
            "{} pages cannot hold {start}+{len} bytes",
            pages.len()
        );
        let run = match pages.len() {
            0 => Run::None,
            1 => pages.next().map_or(Run::None, Run::One),
            _ => Run::Many(pages.collect()),
        };
        Self { run, start, len }
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Reports whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of `range` without copying them.
    ///
    /// # Panics
    /// Panics if `range` is not inside `0..len()`.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "{range:?} is not within {} bytes",
            self.len
        );
        let start = self.start as usize + range.start;
        let len = (range.end - range.start) as u32;
        let pages = self.run.pages();
        let (first, within) = (start / PAGE_SIZE, start % PAGE_SIZE);
        if len == 0 {
            Self::new()
        } else if within + len as usize <= PAGE_SIZE {
            // The part holds on to no page that it does not show.
            Self {
                run: Run::One(pages[first].clone()),
                start: within as u32,
                len,
            }
        } else {
            Self {
                run: self.run.clone(),
                start: start as u32,
                len,
            }
        }
    }

    /// Returns the bytes of memory that this run keeps: all its pages, also those it does not show,
    /// and the list of them. Memory shared with other runs counts in each of them.
    pub fn memory(&self) -> usize {
        /// Size of the list's two reference counts.
        const COUNTS: usize = 2 * size_of::<usize>();
        match &self.run {
            Run::None => 0,
            Run::One(_) => PAGE_SIZE,
            Run::Many(pages) => COUNTS + pages.len() * (size_of::<Page>() + PAGE_SIZE),
        }
    }

    /// Returns these bytes without holding on to any page that the run does not show. It is for
    /// callers that keep a part of a long run for long.
    pub fn trimmed(self) -> Self {
        let end = footprint(self.len(), self.start as usize) / PAGE_SIZE;
        let first = self.start as usize / PAGE_SIZE;
        let pages = self.run.pages();
        if first == 0 && end == pages.len() {
            return self;
        }
        let shown = pages.get(first..end).unwrap_or_default();
        Self::from_pages(
            shown.iter().cloned(),
            self.start % PAGE_SIZE as u32,
            self.len,
        )
    }

    /// Returns these bytes in a form that may be kept for long: pages taken as a part of a long run
    /// are copied. A single page that stays would keep the memory of its run from ever being a run
    /// again.
    pub fn settled(self) -> Self {
        let pages = self.run.pages();
        if !pages.iter().any(Page::is_of_run) {
            return self;
        }
        let settle = |page: &Page| match page.is_of_run() {
            true => PageMut::copy_of(page).freeze(),
            false => page.clone(),
        };
        Self::from_pages(pages.iter().map(settle), self.start, self.len)
    }

    /// Returns the bytes in order, one slice per page.
    #[inline]
    pub fn chunks(&self) -> Chunks<'_> {
        self.chunks_in(0..self.len())
    }

    /// Returns the bytes of `range` in order, one slice per page.
    ///
    /// # Panics
    /// Panics if the range is not inside the run.
    #[inline]
    pub fn chunks_in(&self, range: Range<usize>) -> Chunks<'_> {
        assert!(range.end <= self.len(), "inside the bytes");
        let start = self.start as usize + range.start;
        Chunks {
            pages: &self.run.pages()[start / PAGE_SIZE..],
            within: start % PAGE_SIZE,
            left: range.len(),
        }
    }

    /// Returns the bytes as one slice if the pages that hold them are neighbours in memory. They
    /// mostly are if they were allocated as one long buffer.
    pub fn in_one_piece(&self) -> Option<&[u8]> {
        let (start, len) = (self.start as usize, self.len());
        let pages = &self.run.pages()[start / PAGE_SIZE..(start + len).div_ceil(PAGE_SIZE)];
        let within = start % PAGE_SIZE;
        Page::in_one_piece(pages).map(|bytes| &bytes[within..within + len])
    }

    /// Copies all bytes into `target`.
    ///
    /// # Panics
    /// Panics if `target` is not `len()` bytes long.
    pub fn copy_to(&self, target: &mut [u8]) {
        assert_eq!(
            target.len(),
            self.len(),
            "the target has the length of the source"
        );
        let mut at = 0;
        for chunk in self.chunks() {
            target[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
    }

    /// Copies the bytes into one vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        for chunk in self.chunks() {
            bytes.extend_from_slice(chunk);
        }
        bytes
    }

    /// Asks the processor to bring the page of byte `at` near while the program goes on. If the run
    /// has many pages, only the list of them is fetched.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        match &self.run {
            Run::None => {}
            Run::One(page) => page.prefetch(true),
            Run::Many(pages) => {
                if let Some(page) = pages.get((self.start as usize + at) / PAGE_SIZE) {
                    super::page::prefetch(page);
                }
            }
        }
    }

    /// Asks for the page itself, as the second step after [`Pages::prefetch`] of a run of many
    /// pages. The caller should have done other work between the two.
    #[inline]
    pub fn prefetch_page(&self, at: usize) {
        if let Run::Many(pages) = &self.run
            && let Some(page) = pages.get((self.start as usize + at) / PAGE_SIZE)
        {
            page.prefetch(true);
        }
    }

    /// Returns the page that holds exactly the bytes `at..at + 4096`, if there is one. A device can
    /// keep it instead of copying.
    #[inline]
    pub fn whole_page(&self, at: usize) -> Option<&Page> {
        let start = self.start as usize + at;
        if !start.is_multiple_of(PAGE_SIZE) || at + PAGE_SIZE > self.len() {
            return None;
        }
        self.run.pages().get(start / PAGE_SIZE)
    }

    /// Returns the pages if the bytes begin at the start of one and end at the end of one.
    #[inline]
    pub fn whole_pages(&self) -> Option<&[Page]> {
        let (start, end) = (self.start as usize, self.start as usize + self.len());
        let is_whole = start.is_multiple_of(PAGE_SIZE) && end.is_multiple_of(PAGE_SIZE);
        is_whole.then(|| &self.run.pages()[start / PAGE_SIZE..end / PAGE_SIZE])
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({} bytes)", self.len)
    }
}

impl<B: AsRef<[u8]> + ?Sized> PartialEq<B> for Pages {
    fn eq(&self, bytes: &B) -> bool {
        let mut rest = bytes.as_ref();
        self.len() == rest.len()
            && self.chunks().all(|chunk| {
                let (head, tail) = rest.split_at(chunk.len());
                rest = tail;
                head == chunk
            })
    }
}

/// Iterator over the bytes of [`Pages`], made by [`Pages::chunks`].
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    pages: &'a [Page],
    within: usize,
    left: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.left == 0 {
            return None;
        }
        let (page, rest) = self.pages.split_first()?;
        let len = self.left.min(PAGE_SIZE - self.within);
        let chunk = &page[self.within..self.within + len];
        self.pages = rest;
        self.within = 0;
        self.left -= len;
        Some(chunk)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let pages = (self.within + self.left).div_ceil(PAGE_SIZE);
        let count = if self.left == 0 { 0 } else { pages };
        (count, Some(count))
    }
}

impl ExactSizeIterator for Chunks<'_> {}

/// Writable buffer of fixed length in pages, for one command's data.
///
/// The buffer starts with the bytes of the previous user of the pages. It remembers which bytes
/// were written since. [`PagesMut::freeze`] zeroes all others, so that old bytes never get out.
pub struct PagesMut {
    pages: SmallVec<[PageMut; 1]>,
    skew: u32,
    len: u32,
    /// Written ranges: ascending, disjoint, not touching, not empty.
    filled: SmallVec<[(u32, u32); 1]>,
}

impl PagesMut {
    /// Makes a buffer of `len` bytes that starts at the start of a page.
    ///
    /// # Panics
    /// Panics if `len` is 4 GiB or more.
    pub fn allocate(len: usize) -> Self {
        Self::allocate_at(len, 0)
    }

    /// Makes a buffer of `len` bytes that starts `skew` bytes into a page. If `skew` is that of the
    /// byte offset on the device, the buffer's pages are the device's pages. Pages that are written
    /// whole are then handed over, not copied.
    ///
    /// # Panics
    /// Panics if `skew` is not below [`PAGE_SIZE`], or if `len` is 4 GiB or more.
    pub fn allocate_at(len: usize, skew: usize) -> Self {
        Self::allocate_with(len, skew, PageMut::dirty)
    }

    /// Makes a buffer as [`PagesMut::allocate_at`] does, for bytes that a device brings, and not
    /// this processor.
    ///
    /// # Panics
    /// Panics as [`PagesMut::allocate_at`] does.
    pub fn allocate_for_device(len: usize, skew: usize) -> Self {
        Self::allocate_with(len, skew, PageMut::dirty_for_device)
    }

    fn allocate_with(len: usize, skew: usize, single: fn() -> PageMut) -> Self {
        assert!(skew < PAGE_SIZE, "a skew lies inside a page");
        let pages = footprint(len, skew) / PAGE_SIZE;
        let end = u32::try_from(skew + len).expect("a buffer is shorter than 4 GiB");
        Self {
            pages: if pages < RUN_PAGES {
                (0..pages).map(|_| single()).collect()
            } else {
                PageMut::dirty_run(pages).collect()
            },
            skew: skew as u32,
            len: end - skew as u32,
            filled: SmallVec::new(),
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Reports whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes from the start on that were written without a gap.
    pub fn filled_prefix(&self) -> usize {
        match self.filled.first() {
            Some(&(0, end)) => end as usize,
            _ => 0,
        }
    }

    /// Reports whether every byte was written.
    pub fn is_filled(&self) -> bool {
        self.filled_prefix() == self.len()
    }

    /// Returns the places of the bytes `offset..offset + len`, one slice per page, for a readv
    /// straight from the socket or the disk. After the write, the caller reports it with
    /// [`PagesMut::mark_filled`].
    ///
    /// # Panics
    /// Panics if the range is not inside the buffer.
    pub fn chunks_mut(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]> {
        let (pages, within) = self.pages_at(offset, len);
        let mut within = within;
        let mut left = len;
        pages.iter_mut().map(move |page| {
            let count = left.min(PAGE_SIZE - within);
            let chunk = &mut page[within..within + count];
            within = 0;
            left -= count;
            chunk
        })
    }

    /// Returns the pages that hold a range, and the offset of its first byte in the first page.
    fn pages_at(&mut self, offset: usize, len: usize) -> (&mut [PageMut], usize) {
        assert!(
            offset <= self.len() && len <= self.len() - offset,
            "{offset}+{len} is not within {} bytes",
            self.len
        );
        if len == 0 {
            return (&mut [], 0);
        }
        let start = self.skew as usize + offset;
        let pages = &mut self.pages[start / PAGE_SIZE..(start + len).div_ceil(PAGE_SIZE)];
        (pages, start % PAGE_SIZE)
    }

    /// Notes that the bytes `offset..offset + len` were written through [`PagesMut::chunks_mut`].
    ///
    /// # Panics
    /// Panics if the range is not inside the buffer.
    pub fn mark_filled(&mut self, offset: usize, len: usize) {
        assert!(
            offset <= self.len() && len <= self.len() - offset,
            "inside the buffer"
        );
        if len == 0 {
            return;
        }
        let (start, end) = (offset as u32, (offset + len) as u32);
        match self.filled.last_mut() {
            None => self.filled.push((start, end)),
            // Data nearly always arrives in order.
            Some(last) if last.1 == start => last.1 = end,
            _ => self.merge_filled(start, end),
        }
    }

    fn merge_filled(&mut self, mut start: u32, mut end: u32) {
        let first = self.filled.partition_point(|range| range.1 < start);
        let after = self.filled.partition_point(|range| range.0 <= end);
        if first < after {
            start = start.min(self.filled[first].0);
            end = end.max(self.filled[after - 1].1);
            self.filled.drain(first..after);
        }
        self.filled.insert(first, (start, end));
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// Panics if they do not fit.
    pub fn copy_from(&mut self, offset: usize, bytes: &[u8]) {
        let mut rest = bytes;
        for chunk in self.chunks_mut(offset, bytes.len()) {
            let (head, tail) = rest.split_at(chunk.len());
            chunk.copy_from_slice(head);
            rest = tail;
        }
        self.mark_filled(offset, bytes.len());
    }

    /// Zeroes `offset..offset + len`.
    ///
    /// # Panics
    /// Panics if the range is not inside the buffer.
    pub fn zero(&mut self, offset: usize, len: usize) {
        self.chunks_mut(offset, len).for_each(|chunk| chunk.fill(0));
        self.mark_filled(offset, len);
    }

    /// Drops the bytes from `len` on, for data-out that was shorter than the command said. If `len`
    /// is more than the buffer has, nothing happens.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        let end = len as u32;
        self.len = end;
        let pages = if len == 0 {
            0
        } else {
            (self.skew as usize + len).div_ceil(PAGE_SIZE)
        };
        self.pages.truncate(pages);
        self.filled.retain(|range| range.0 < end);
        if let Some(last) = self.filled.last_mut() {
            last.1 = last.1.min(end);
        }
    }

    /// Makes the bytes immutable and shareable. Bytes that were never written become zeros.
    pub fn freeze(mut self) -> Pages {
        if !self.is_filled() {
            self.zero_gaps();
        }
        Pages::from_pages(
            self.pages.into_iter().map(PageMut::freeze),
            self.skew,
            self.len,
        )
    }

    fn zero_gaps(&mut self) {
        let mut at = 0;
        for (start, end) in std::mem::take(&mut self.filled) {
            self.chunks_mut(at, start as usize - at)
                .for_each(|chunk| chunk.fill(0));
            at = end as usize;
        }
        let len = self.len();
        self.chunks_mut(at, len - at)
            .for_each(|chunk| chunk.fill(0));
        self.mark_filled(0, len);
    }
}

impl fmt::Debug for PagesMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PagesMut({} of {} bytes filled)",
            self.filled_prefix(),
            self.len
        )
    }
}

//! Where pages come from: 2 MiB slabs of 4 KiB pages, a small stack of free pages per thread, one
//! shared pool behind them.
//!
//! A page is found by its address alone: its slab is the address rounded down to 2 MiB, and the
//! slab's first page is a header that holds every page's reference count. So a page handle is one
//! pointer, taking or returning a page touches no lock as long as the thread's own stack serves,
//! and the bytes of a page are never mixed with bookkeeping (they go to the disk and the network
//! as they are).
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::page::PAGE_SIZE;

/// Size and alignment of a slab: one huge page on the usual machines.
pub(super) const SLAB_SIZE: usize = 2 << 20;
/// Pages that a slab gives out; the first one is the header.
const SLAB_PAGES: usize = SLAB_SIZE / PAGE_SIZE - 1;
/// Wholly free slabs that are kept for the next burst until [`trim`] is called.
const KEPT_SLABS: usize = 32;
/// Free pages that a thread keeps to itself.
const THREAD_PAGES: usize = 128;
/// Pages that move between a thread's stack and the pool at once.
const BATCH: usize = THREAD_PAGES / 2;

/// Slabs among which one with many free pages is looked for.
const LOOKED_AT: usize = 8;

/// Bytes of all slabs there are.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
static POOL: Mutex<Pool> = Mutex::new(Pool {
    partial: Vec::new(),
    free: Vec::new(),
});

thread_local! {
    static STACK: RefCell<Stack> = const {
        RefCell::new(Stack { next: None, len: 0, pages: [None; THREAD_PAGES] })
    };
}

/// The head of a slab. Everything but `references` belongs to the holder of the [`POOL`] lock.
#[repr(C)]
struct Header {
    references: [AtomicU32; SLAB_PAGES],
    /// Numbers of the pages in the pool, a stack.
    free: [u16; SLAB_PAGES],
    free_len: usize,
    /// Where the slab stands in [`Pool::partial`], while it does.
    position: usize,
}

const _: () = assert!(size_of::<Header>() <= PAGE_SIZE);

/// The address of one page inside a slab, with provenance over the whole slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageAddress(NonNull<u8>);

// SAFETY: an address is only a value; whoever dereferences it states why that is sound.
unsafe impl Send for PageAddress {}

#[derive(Clone, Copy)]
struct Slab(NonNull<Header>);

// SAFETY: a slab is not bound to the thread that mapped it; its header is reached under `POOL`.
unsafe impl Send for Slab {}

impl PageAddress {
    /// Takes a free page. Its reference count is 1 and its bytes are whatever was there before.
    pub(super) fn take() -> Self {
        let page = STACK
            .try_with(|stack| stack.borrow_mut().pop())
            .unwrap_or_else(|_| {
                // The thread is ending and its stack is gone already.
                let mut one = [None; 1];
                lock_pool().take(&mut one);
                one[0]
            });
        let Some(page) = page else { out_of_memory() };
        // Nobody else knows the page: no ordering is needed.
        page.references().store(1, Ordering::Relaxed);
        page
    }

    /// Takes many free pages for bytes that a device or a socket brings: neighbours in ascending order as
    /// far as there are any, so that the kernel and the device have few pieces of memory to deal with.
    /// Their counts are 1. None is brought near the processor: it is not the one who writes them first.
    pub(super) fn take_many(count: usize) -> impl Iterator<Item = Self> {
        let mut pages = vec![None; count];
        if lock_pool().take_neighbours(&mut pages) < count {
            out_of_memory();
        }
        pages.into_iter().flatten().inspect(|page: &Self| {
            page.references().store(1, Ordering::Relaxed);
        })
    }

    /// Gives a page back.
    ///
    /// # Safety
    /// No reference to the page is left, and what other threads did to it happens before this.
    pub(super) unsafe fn give(self) {
        let given = STACK.try_with(|stack| {
            // SAFETY: passed on to the caller.
            unsafe { stack.borrow_mut().push(self) }
        });
        if given.is_err() {
            // The thread is ending and its stack is gone already.
            // SAFETY: passed on to the caller.
            unsafe { give_to_pool(&[Some(self)]) };
        }
    }

    /// The page's first byte.
    pub(super) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Asks for the page to be brought near the processor, to be written to.
    #[inline]
    fn prefetch_to_write(self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for line in (0..PAGE_SIZE).step_by(64) {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            // SAFETY: the address lies inside the page, and a prefetch changes nothing.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.as_ptr().add(line).cast_const().cast()) };
        }
    }

    /// # Safety
    /// `pointer` was obtained from [`PageAddress::as_ptr`].
    pub(super) unsafe fn from_ptr(pointer: NonNull<u8>) -> Self {
        Self(pointer)
    }

    /// The page's reference count.
    pub(super) fn references(&self) -> &AtomicU32 {
        // SAFETY: the slab stays mapped while one of its pages is out of the pool, and the counts
        // are only reached as atomics.
        unsafe {
            let references: &[AtomicU32; SLAB_PAGES] = &(*self.slab().0.as_ptr()).references;
            &references[self.number()]
        }
    }

    fn number(self) -> usize {
        (self.0.as_ptr().addr() % SLAB_SIZE) / PAGE_SIZE - 1
    }

    fn slab(self) -> Slab {
        let start = self
            .0
            .as_ptr()
            .map_addr(|address| address & !(SLAB_SIZE - 1));
        // SAFETY: a slab does not start at address 0.
        Slab(unsafe { NonNull::new_unchecked(start.cast()) })
    }
}

/// A thread's own free pages.
struct Stack {
    /// Taken next, and on its way to the processor's cache: a page that held a block of a large device has
    /// long left it, and a write into a cold page waits for every line.
    next: Option<PageAddress>,
    len: usize,
    pages: [Option<PageAddress>; THREAD_PAGES],
}

impl Stack {
    #[inline]
    fn pop(&mut self) -> Option<PageAddress> {
        let page = self.next.take().or_else(|| self.pop_stored());
        // No lock is taken for what may never be asked for.
        if self.len > 0 {
            self.next = self.pop_stored();
            if let Some(next) = self.next {
                next.prefetch_to_write();
            }
        }
        page
    }

    fn pop_stored(&mut self) -> Option<PageAddress> {
        if self.len == 0 {
            self.len = lock_pool().take(&mut self.pages[..BATCH]);
        }
        self.len = self.len.checked_sub(1)?;
        self.pages[self.len]
    }

    /// # Safety
    /// As [`PageAddress::give`].
    #[inline]
    unsafe fn push(&mut self, page: PageAddress) {
        if self.len == THREAD_PAGES {
            // The oldest go, the warmest stay.
            // SAFETY: each page on the stack was given by its last owner.
            unsafe { give_to_pool(&self.pages[..BATCH]) };
            self.pages.copy_within(BATCH.., 0);
            self.len = THREAD_PAGES - BATCH;
        }
        self.pages[self.len] = Some(page);
        self.len += 1;
    }
}

impl Stack {
    /// Gives all pages to the pool.
    fn clear(&mut self) {
        let (next, len) = (self.next.take(), std::mem::take(&mut self.len));
        // SAFETY: each page here was given by its last owner.
        unsafe {
            give_to_pool(&[next]);
            give_to_pool(&self.pages[..len]);
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.clear();
    }
}

/// All slabs that have a free page.
struct Pool {
    /// Some pages are out, some are here.
    partial: Vec<Slab>,
    /// All pages are here.
    free: Vec<Slab>,
}

impl Pool {
    /// Fills `pages` as far as memory goes; returns how many.
    fn take(&mut self, pages: &mut [Option<PageAddress>]) -> usize {
        let mut taken = 0;
        while taken < pages.len() {
            let Some(slab) = self.partial_slab() else {
                break;
            };
            // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
            let (free, free_len) = unsafe {
                (
                    &mut (*slab.0.as_ptr()).free,
                    &mut (*slab.0.as_ptr()).free_len,
                )
            };
            while taken < pages.len() && *free_len > 0 {
                *free_len -= 1;
                pages[taken] = Some(slab.page(free[*free_len]));
                taken += 1;
            }
            if *free_len == 0 {
                self.remove_partial(slab);
            }
        }
        taken
    }

    /// The same, from slabs that have many pages free, and in ascending order within each.
    fn take_neighbours(&mut self, pages: &mut [Option<PageAddress>]) -> usize {
        let mut taken = 0;
        while taken < pages.len() {
            let Some(slab) = self.roomy_slab() else {
                break;
            };
            // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
            let (free, free_len) = unsafe {
                (
                    &mut (*slab.0.as_ptr()).free,
                    &mut (*slab.0.as_ptr()).free_len,
                )
            };
            // The last are taken first.
            let here = &mut free[..*free_len];
            if !here.is_sorted_by(|a, b| a > b) {
                here.sort_unstable_by(|a, b| b.cmp(a));
            }
            let count = (*free_len).min(pages.len() - taken);
            for page in &mut pages[taken..taken + count] {
                *free_len -= 1;
                *page = Some(slab.page(free[*free_len]));
            }
            taken += count;
            if *free_len == 0 {
                self.remove_partial(slab);
            }
        }
        taken
    }

    /// A slab with many free pages, which is in `partial`: one that is wholly free, else the roomiest of
    /// some. Memory is mapped only where no page is free anywhere.
    fn roomy_slab(&mut self) -> Option<Slab> {
        if let Some(slab) = self.free.pop() {
            self.add_partial(slab);
            return Some(slab);
        }
        let some = self.partial.iter().rev().take(LOOKED_AT);
        // SAFETY: the headers belong to the holder of the lock, which `&mut self` proves.
        let roomiest = some.max_by_key(|slab| unsafe { (*slab.0.as_ptr()).free_len });
        match roomiest {
            Some(slab) => Some(*slab),
            None => self.partial_slab(),
        }
    }

    /// A slab with a free page, which is in `partial`.
    fn partial_slab(&mut self) -> Option<Slab> {
        if let Some(slab) = self.partial.last() {
            return Some(*slab);
        }
        let slab = match self.free.pop() {
            Some(slab) => slab,
            None => Slab::map()?,
        };
        self.add_partial(slab);
        Some(slab)
    }

    /// Takes a page back. Returns true where that made the slab wholly free.
    fn give(&mut self, page: PageAddress) {
        let slab = page.slab();
        // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
        let free_len = unsafe {
            let header = slab.0.as_ptr();
            let free_len = (*header).free_len;
            (*header).free[free_len] = page.number() as u16;
            (*header).free_len = free_len + 1;
            free_len + 1
        };
        if free_len == 1 {
            self.add_partial(slab);
        }
        if free_len == SLAB_PAGES {
            self.remove_partial(slab);
            self.free.push(slab);
        }
    }

    fn add_partial(&mut self, slab: Slab) {
        // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
        unsafe { (*slab.0.as_ptr()).position = self.partial.len() };
        self.partial.push(slab);
    }

    fn remove_partial(&mut self, slab: Slab) {
        // SAFETY: as above.
        let position = unsafe { (*slab.0.as_ptr()).position };
        self.partial.swap_remove(position);
        if let Some(moved) = self.partial.get(position) {
            // SAFETY: as above.
            unsafe { (*moved.0.as_ptr()).position = position };
        }
    }

    /// Takes out the wholly free slabs beyond `keep`, to be unmapped without the lock.
    fn surplus(&mut self, keep: usize) -> Vec<Slab> {
        if self.free.len() > keep {
            self.free.split_off(keep)
        } else {
            Vec::new()
        }
    }
}

/// # Safety
/// As [`PageAddress::give`] for each page.
unsafe fn give_to_pool(pages: &[Option<PageAddress>]) {
    let mut pool = lock_pool();
    for page in pages.iter().flatten() {
        pool.give(*page);
    }
    let surplus = pool.surplus(KEPT_SLABS);
    drop(pool);
    unmap_all(surplus);
}

fn lock_pool() -> std::sync::MutexGuard<'static, Pool> {
    // Nothing that holds the lock panics halfway through a change.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives wholly free slabs back to the system, and this thread's free pages to the pool first.
/// For quiet moments: the next burst has to fault its memory in again.
pub fn trim() {
    // While the thread ends, its stack went back already: nothing to do then.
    let _ = STACK.try_with(|stack| {
        stack.borrow_mut().clear();
    });
    let surplus = lock_pool().surplus(0);
    unmap_all(surplus);
}

/// Bytes of memory that pages hold at present, used and free together.
pub fn mapped_bytes() -> usize {
    MAPPED.load(Ordering::Relaxed)
}

impl Slab {
    /// Maps a slab with all pages free; `None` where the system has no memory.
    fn map() -> Option<Self> {
        let slab = Self(map_aligned()?.cast::<Header>());
        // SAFETY: fresh zeroed memory of SLAB_SIZE bytes, aligned, not shared yet; zero bytes are
        // a valid `Header`.
        let header = unsafe { &mut *slab.0.as_ptr() };
        for (place, number) in header.free.iter_mut().zip((0..SLAB_PAGES as u16).rev()) {
            *place = number;
        }
        header.free_len = SLAB_PAGES;
        MAPPED.fetch_add(SLAB_SIZE, Ordering::Relaxed);
        Some(slab)
    }

    fn page(self, number: u16) -> PageAddress {
        // SAFETY: page `number` lies inside the slab, after the header page.
        PageAddress(unsafe {
            self.0
                .cast::<u8>()
                .add((usize::from(number) + 1) * PAGE_SIZE)
        })
    }
}

fn unmap_all(slabs: Vec<Slab>) {
    for slab in slabs {
        MAPPED.fetch_sub(SLAB_SIZE, Ordering::Relaxed);
        // SAFETY: wholly free and out of the pool: nobody can reach it any more.
        unsafe { unmap(slab.0.cast()) };
    }
}

#[cold]
fn out_of_memory() -> ! {
    std::alloc::handle_alloc_error(slab_layout())
}

fn slab_layout() -> std::alloc::Layout {
    const { assert!(SLAB_SIZE.is_power_of_two()) };
    // SAFETY: the size is a power of two far below isize::MAX.
    unsafe { std::alloc::Layout::from_size_align_unchecked(SLAB_SIZE, SLAB_SIZE) }
}

/// Zeroed memory of a slab's size and alignment straight from the kernel, so that giving it back
/// really shrinks the process.
#[cfg(not(miri))]
fn map_aligned() -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    // SAFETY: a new private mapping touches no existing memory; only its own surplus before and
    // after the aligned part is unmapped.
    unsafe {
        let whole = mmap_anonymous(
            std::ptr::null_mut(),
            2 * SLAB_SIZE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
        .ok()?
        .cast::<u8>();
        let before = whole.align_offset(SLAB_SIZE);
        let slab = whole.add(before);
        // A failure to unmap wastes address space only.
        if before > 0 {
            let _ = munmap(whole.cast(), before);
        }
        let _ = munmap(slab.add(SLAB_SIZE).cast(), SLAB_SIZE - before);
        // Huge pages are a wish.
        let _ = madvise(slab.cast(), SLAB_SIZE, Advice::LinuxHugepage);
        NonNull::new(slab)
    }
}

/// # Safety
/// `slab` came from [`map_aligned`] and is not used any more.
#[cfg(not(miri))]
unsafe fn unmap(slab: NonNull<u8>) {
    // SAFETY: passed on to the caller. A failure leaks the slab, no more.
    let _ = unsafe { rustix::mm::munmap(slab.as_ptr().cast(), SLAB_SIZE) };
}

#[cfg(miri)]
fn map_aligned() -> Option<NonNull<u8>> {
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(slab_layout()) })
}

#[cfg(miri)]
unsafe fn unmap(slab: NonNull<u8>) {
    // SAFETY: allocated with the same layout.
    unsafe { std::alloc::dealloc(slab.as_ptr(), slab_layout()) }
}

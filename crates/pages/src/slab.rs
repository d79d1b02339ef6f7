//! Source of all pages: 2 MiB slabs of 4 KiB pages, a small stack of free pages per thread, and one
//! shared pool behind them.
//!
//! A page is found by its address alone. Its slab is the address rounded down to 2 MiB. The slab's
//! first page is a header that holds the reference count of every page.
//!
//! So a page handle is one pointer. Taking or returning a page touches no lock as long as the
//! thread's own stack serves. The bytes of a page are never mixed with bookkeeping: they go to the
//! disk and the network as they are.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::page::PAGE_SIZE;

/// Size and alignment of a slab: one huge page on the usual machines.
pub(super) const SLAB_SIZE: usize = 2 << 20;
/// Number of pages that a slab gives out. The first page is the header.
const SLAB_PAGES: usize = SLAB_SIZE / PAGE_SIZE - 1;
/// Number of completely free slabs that are kept for the next burst until [`trim`] is called.
const KEPT_SLABS: usize = 32;
/// Number of free pages that a thread keeps to itself.
const THREAD_PAGES: usize = 128;
/// Number of pages that move between a thread's stack and the pool at once.
const BATCH: usize = THREAD_PAGES / 2;

/// Number of lists of slabs that have both free pages and used ones.
const CLASSES: usize = 16;
/// Number of free pages from which a slab gives runs. Few pages between them are in use.
const RUN: usize = SLAB_PAGES * 7 / 8;
/// Divisor for the share of all pages that may lie idle so that runs are long: one part in ten.
pub const IDLE_SHARE: usize = 10;
/// Bit in the count of a page that was taken as a part of a run.
pub(super) const OF_RUN: u32 = 1 << 31;

/// Bytes of all slabs that are mapped.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
static POOL: Mutex<Pool> = Mutex::new(Pool {
    wholly_free: Vec::new(),
    lists: [const { [const { Vec::new() }; CLASSES] }; 2],
    free_pages: 0,
});

thread_local! {
    static STACK: RefCell<Stack> = const {
        RefCell::new(Stack {
            next: None,
            len: 0,
            pages: [None; THREAD_PAGES],
            run_len: 0,
            of_runs: [None; BATCH],
        })
    };
}

/// Head of a slab. Everything but `references` belongs to the holder of the [`POOL`] lock.
#[repr(C)]
struct Header {
    references: [AtomicU32; SLAB_PAGES],
    /// Numbers of the pages in the pool, as a stack.
    free: [u16; SLAB_PAGES],
    free_len: usize,
    /// Kind as which the slab's pages are taken. It counts from the first page that is taken to the
    /// last that comes back.
    kind: SlabKind,
    /// Position of the slab in its list of the pool, while it is in a list.
    position: usize,
}

const _: () = assert!(size_of::<Header>() <= PAGE_SIZE);

/// Kinds as which pages are taken.
///
/// The pages of a run mostly come back together. One page that stays for long would keep 2 MiB from
/// ever being a run again. So both kinds have slabs of their own, as far as there is memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum SlabKind {
    Single = 0,
    Run = 1,
}

/// Address of one page inside a slab, with provenance over the whole slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageAddress(NonNull<u8>);

// SAFETY: an address is only a value. The code that dereferences it states why that is sound.
unsafe impl Send for PageAddress {}

#[derive(Clone, Copy)]
struct Slab(NonNull<Header>);

// SAFETY: a slab is not bound to the thread that mapped it. Its header is reached under `POOL`.
unsafe impl Send for Slab {}

impl PageAddress {
    /// Takes a free page. Its reference count is 1, and its bytes are left from an earlier use.
    pub(super) fn take() -> Self {
        Self::take_by(Stack::pop)
    }

    /// Takes a free page for bytes that a device brings. Nothing of the page is brought near the
    /// processor, because the device writes it first.
    pub(super) fn take_for_device() -> Self {
        Self::take_by(|stack| stack.pop_stored().or_else(|| stack.next.take()))
    }

    #[inline]
    fn take_by(pop: impl FnOnce(&mut Stack) -> Option<Self>) -> Self {
        let page = STACK
            .try_with(|stack| pop(&mut stack.borrow_mut()))
            .unwrap_or_else(|_| {
                // The thread is ending, and its stack is gone already.
                let mut one = [None; 1];
                lock_pool().take(&mut one);
                one[0]
            });
        let Some(page) = page else { out_of_memory() };
        // No other code knows the page: no ordering is needed.
        page.references().store(1, Ordering::Relaxed);
        page
    }

    /// Takes many free pages for bytes that a device or a socket brings, each with a count of 1.
    ///
    /// As far as possible they are neighbours in ascending order. So the kernel and the device have
    /// few pieces of memory to deal with. None is brought near the processor, because the processor
    /// does not write them first.
    pub(super) fn take_many(count: usize) -> impl Iterator<Item = Self> {
        let mut pages = vec![None; count];
        if lock_pool().take_neighbours(&mut pages) < count {
            out_of_memory();
        }
        pages.into_iter().flatten().inspect(|page: &Self| {
            page.references().store(1 | OF_RUN, Ordering::Relaxed);
        })
    }

    /// Gives a page back.
    ///
    /// # Safety
    /// No reference to the page is left, and all that other threads did to the page happens before
    /// this.
    pub(super) unsafe fn give(self) {
        let given = STACK.try_with(|stack| {
            // SAFETY: passed on to the caller.
            unsafe { stack.borrow_mut().push(self) }
        });
        if given.is_err() {
            // The thread is ending, and its stack is gone already. SAFETY: passed on to the caller.
            unsafe { give_to_pool(&[Some(self)]) };
        }
    }

    /// Returns a pointer to the page's first byte.
    pub(super) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Asks the processor to bring the page near, to be written to.
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

    /// Reports whether this is the next page after `before` in the same slab.
    pub(super) fn follows(self, before: Self) -> bool {
        // The first page of a slab is its header. So no page follows the last page of another slab.
        self.0.as_ptr().addr() == before.0.as_ptr().addr() + PAGE_SIZE
    }

    /// Reports whether the page was taken as a part of a run.
    pub(super) fn is_of_run(&self) -> bool {
        self.references().load(Ordering::Relaxed) & OF_RUN != 0
    }

    /// Returns the page's reference count, marked with [`OF_RUN`] or not.
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

/// Free pages of one thread.
struct Stack {
    /// Page that is taken next, on its way to the processor's cache. A page that held a block of a
    /// large device has long left the cache, and a write into a cold page waits for every line.
    next: Option<PageAddress>,
    len: usize,
    pages: [Option<PageAddress>; THREAD_PAGES],
    /// Number of pages of runs. They are only collected: taken as single pages, they would not come
    /// back together.
    run_len: usize,
    of_runs: [Option<PageAddress>; BATCH],
}

impl Stack {
    #[inline]
    fn pop(&mut self) -> Option<PageAddress> {
        let page = self.next.take().or_else(|| self.pop_stored());
        // No lock is taken for pages that may never be asked for.
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
        if page.is_of_run() {
            self.of_runs[self.run_len] = Some(page);
            self.run_len += 1;
            if self.run_len == BATCH {
                self.run_len = 0;
                // SAFETY: each of these pages was given by its last owner.
                unsafe { give_to_pool(&self.of_runs) };
            }
            return;
        }
        if self.len == THREAD_PAGES {
            // The oldest pages go, the warmest stay. SAFETY: each page on the stack was given by
            // its last owner.
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
        let run_len = std::mem::take(&mut self.run_len);
        // SAFETY: each page here was given by its last owner.
        unsafe {
            give_to_pool(&[next]);
            give_to_pool(&self.pages[..len]);
            give_to_pool(&self.of_runs[..run_len]);
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.clear();
    }
}

/// All slabs that have a free page, listed by the number of free pages.
///
/// Single pages come from the fullest slabs, and runs from the emptiest. So slabs become full or
/// empty, in whatever order pages come back. Runs stay long, and memory can be given back.
struct Pool {
    /// Slabs of which all pages are in the pool.
    wholly_free: Vec<Slab>,
    /// Slabs of which some pages are in use, by kind and by the number of free pages.
    lists: [[Vec<Slab>; CLASSES]; 2],
    /// Number of free pages in all slabs.
    free_pages: usize,
}

/// Returns the number of the list for slabs with `free` free pages. Full slabs are in no list.
fn class_of(free: usize) -> Option<usize> {
    match free {
        0 => None,
        SLAB_PAGES => Some(CLASSES),
        some => Some(some * CLASSES / SLAB_PAGES),
    }
}

impl Pool {
    /// Fills `pages` as far as memory goes, and returns the number of pages taken.
    fn take(&mut self, pages: &mut [Option<PageAddress>]) -> usize {
        let mut taken = 0;
        while taken < pages.len() {
            let fullest = |kind| self.partial(kind).find_map(|list| list.last().copied());
            let slab = fullest(SlabKind::Single)
                .or_else(|| self.wholly_free.last().copied())
                .or_else(|| fullest(SlabKind::Run))
                .or_else(|| self.map());
            let Some(slab) = slab else { break };
            taken += self.take_of(slab, &mut pages[taken..], SlabKind::Single);
        }
        taken
    }

    /// Fills `pages` from slabs that have many pages free, in ascending order within each slab.
    fn take_neighbours(&mut self, pages: &mut [Option<PageAddress>]) -> usize {
        let mut taken = 0;
        while taken < pages.len() {
            let Some(slab) = self.roomy_slab() else { break };
            // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
            let (free, free_len) = unsafe {
                let header = slab.0.as_ptr();
                (&mut (*header).free, (*header).free_len)
            };
            // The last entries are taken first.
            let here = &mut free[..free_len];
            if !here.is_sorted_by(|a, b| a > b) {
                here.sort_unstable_by(|a, b| b.cmp(a));
            }
            taken += self.take_of(slab, &mut pages[taken..], SlabKind::Run);
        }
        taken
    }

    /// Returns a slab for a run. Memory is mapped if no run is free, as long as little memory lies
    /// idle. Otherwise runs are put together from the pages there are.
    fn roomy_slab(&mut self) -> Option<Slab> {
        let emptiest = |kind| {
            self.partial(kind)
                .rev()
                .find_map(|list| list.last().copied())
        };
        let (of_runs, of_singles) = (emptiest(SlabKind::Run), emptiest(SlabKind::Single));
        // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
        let is_run = |slab: &Slab| unsafe { (*slab.0.as_ptr()).free_len >= RUN };
        let pages = MAPPED.load(Ordering::Relaxed) / PAGE_SIZE;
        let is_little_idle = self.free_pages < pages / IDLE_SHARE;
        let found = self.wholly_free.last().copied().or(of_runs.filter(is_run));
        found
            .or_else(|| is_little_idle.then(|| self.map()).flatten())
            .or(of_singles.filter(is_run))
            .or(of_runs)
            .or(of_singles)
            .or_else(|| self.map())
    }

    /// Returns the slabs of which some pages are free, the fullest first.
    fn partial(&self, kind: SlabKind) -> impl DoubleEndedIterator<Item = &Vec<Slab>> {
        self.lists[kind as usize].iter()
    }

    /// Takes pages of a slab, as many as are wanted or as it has, and returns their number.
    fn take_of(&mut self, slab: Slab, pages: &mut [Option<PageAddress>], kind: SlabKind) -> usize {
        // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
        let (free, free_len) = unsafe {
            let header = slab.0.as_ptr();
            (&(*header).free, (*header).free_len)
        };
        let count = free_len.min(pages.len());
        let numbers = free[free_len - count..free_len].iter().rev();
        for (page, number) in pages.iter_mut().zip(numbers) {
            *page = Some(slab.page(*number));
        }
        self.has_free(slab, free_len - count, Some(kind));
        count
    }

    /// Takes a page back.
    fn give(&mut self, page: PageAddress) {
        let slab = page.slab();
        // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
        let free_len = unsafe {
            let header = slab.0.as_ptr();
            let free_len = (*header).free_len;
            (*header).free[free_len] = page.number() as u16;
            free_len
        };
        self.has_free(slab, free_len + 1, None);
    }

    /// Notes that a slab has `free` free pages from now on. The taker of the first page decides the
    /// kind of the slab.
    fn has_free(&mut self, slab: Slab, free: usize, taker: Option<SlabKind>) {
        // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
        let (before, old_kind, kind) = unsafe {
            let header = slab.0.as_ptr();
            let before = std::mem::replace(&mut (*header).free_len, free);
            let old_kind = (*header).kind;
            let kind = taker.filter(|_| before == SLAB_PAGES).unwrap_or(old_kind);
            (*header).kind = kind;
            (before, old_kind, kind)
        };
        self.free_pages = self.free_pages + free - before;
        if class_of(before) != class_of(free) {
            self.remove(slab, before, old_kind);
            self.add(slab, free, kind);
        }
    }

    /// Maps another slab, or returns `None` if the system has no memory.
    fn map(&mut self) -> Option<Slab> {
        let slab = Slab::map()?;
        self.free_pages += SLAB_PAGES;
        self.add(slab, SLAB_PAGES, SlabKind::Single);
        Some(slab)
    }

    /// Returns the list for slabs with `free` free pages.
    fn list(&mut self, free: usize, kind: SlabKind) -> Option<&mut Vec<Slab>> {
        match class_of(free)? {
            CLASSES => Some(&mut self.wholly_free),
            class => Some(&mut self.lists[kind as usize][class]),
        }
    }

    fn add(&mut self, slab: Slab, free: usize, kind: SlabKind) {
        let Some(list) = self.list(free, kind) else {
            return;
        };
        // SAFETY: the header belongs to the holder of the lock, which `&mut self` proves.
        unsafe { (*slab.0.as_ptr()).position = list.len() };
        list.push(slab);
    }

    fn remove(&mut self, slab: Slab, free: usize, kind: SlabKind) {
        let Some(list) = self.list(free, kind) else {
            return;
        };
        // SAFETY: as above.
        let position = unsafe { (*slab.0.as_ptr()).position };
        list.swap_remove(position);
        if let Some(moved) = list.get(position) {
            // SAFETY: as above.
            unsafe { (*moved.0.as_ptr()).position = position };
        }
    }

    /// Takes out the completely free slabs beyond `keep`, to be unmapped without the lock.
    fn surplus(&mut self, keep: usize) -> Vec<Slab> {
        if self.wholly_free.len() <= keep {
            return Vec::new();
        }
        let surplus = self.wholly_free.split_off(keep);
        self.free_pages -= surplus.len() * SLAB_PAGES;
        surplus
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
    // No code that holds the lock panics halfway through a change.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives completely free slabs back to the system, after giving this thread's free pages to the
/// pool. For quiet moments: the next burst has to fault its memory in again.
pub fn trim() {
    // If the thread is ending, its stack went back already, and there is nothing to do.
    let _ = STACK.try_with(|stack| {
        stack.borrow_mut().clear();
    });
    let surplus = lock_pool().surplus(0);
    unmap_all(surplus);
}

/// Returns the bytes of memory that pages hold at present, used and free together.
pub fn mapped_bytes() -> usize {
    MAPPED.load(Ordering::Relaxed)
}

/// Returns the bytes of memory that lie idle between used pages.
pub fn idle_bytes() -> usize {
    let pool = lock_pool();
    (pool.free_pages - pool.wholly_free.len() * SLAB_PAGES) * PAGE_SIZE
}

impl Slab {
    /// Maps a slab with all pages free, or returns `None` if the system has no memory.
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
        // SAFETY: the slab is completely free and out of the pool, so no code can reach it any
        // more.
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

/// Maps zeroed memory of a slab's size and alignment straight from the kernel, so that giving it
/// back really shrinks the process.
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
        // Huge pages are a wish: a failure is ignored.
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

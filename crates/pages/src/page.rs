//! One 4 KiB page: reference-counted and immutable once shared, writable while it has one owner.
//!
//! A page is the unit in which all data lies in memory and travels. A page handle is one pointer,
//! and so is `Option<Page>`. Cloning a handle is one relaxed atomic increment. [`super::slab`]
//! provides the pages. [`super::run::Pages`] is a run of bytes over several pages.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use super::slab::{OF_RUN, PageAddress};

/// Size of a page in bytes, and its alignment.
pub const PAGE_SIZE: usize = 4096;

/// Returns the size in bytes of all pages that hold `len` bytes starting `skew` bytes into the
/// first.
#[inline]
pub const fn footprint(len: usize, skew: usize) -> usize {
    if len == 0 {
        0
    } else {
        (skew + len).next_multiple_of(PAGE_SIZE)
    }
}

/// Asks the processor to bring the cache line of a value near while the program goes on.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

/// Number of references above which there must be a leak. The process ends before the count can
/// reach [`OF_RUN`].
const MAX_REFERENCES: u32 = OF_RUN / 2;

/// Returns the number of references that a count stands for.
#[inline]
const fn references_in(count: u32) -> u32 {
    count & !OF_RUN
}

#[repr(align(4096))]
struct Zeroes([u8; PAGE_SIZE]);

/// Bytes that every page reads as before its first write. This page is not counted, so that all
/// cores can read a sparse device without sharing a cache line.
static ZEROES: Zeroes = Zeroes([0; PAGE_SIZE]);

/// Shared page. Its bytes do not change while a handle exists.
pub struct Page(NonNull<u8>);

// SAFETY: the bytes are immutable while shared and the count is atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Returns the page of zeros. It takes no memory, and cloning it touches nothing.
    pub fn zero() -> Self {
        Self(NonNull::from_ref(&ZEROES).cast())
    }

    /// Reports whether this is the page made by [`Page::zero`], not whether all bytes are zero.
    pub fn is_zero(&self) -> bool {
        std::ptr::eq(self.0.as_ptr().cast_const(), ZEROES.0.as_ptr())
    }

    /// Asks the processor to bring the reference count near while the program goes on.
    ///
    /// With `bytes`, it also fetches the first 1024 bytes. The rest follows by itself once the
    /// bytes are read in order. Waiting for memory is most of the cost of a cold page.
    #[inline]
    pub fn prefetch(&self, bytes: bool) {
        if self.is_zero() {
            return;
        }
        prefetch(self.address().references());
        if bytes {
            self[..1024].chunks(64).for_each(|line| prefetch(&line[0]));
        }
    }

    /// Returns the bytes for writing if this handle is the only one.
    pub fn get_mut(&mut self) -> Option<&mut [u8; PAGE_SIZE]> {
        // Acquire pairs with the Release of the handle that was dropped last.
        if self.is_zero() || references_in(self.address().references().load(Ordering::Acquire)) != 1
        {
            return None;
        }
        // SAFETY: the only handle is borrowed mutably, so no other code can read or clone.
        Some(unsafe { self.0.cast().as_mut() })
    }

    /// Reports whether the page was taken as a part of a long run, with which it should go back
    /// soon.
    pub(super) fn is_of_run(&self) -> bool {
        !self.is_zero() && self.address().is_of_run()
    }

    /// Returns the bytes of these pages as one slice if the pages are neighbours in memory, in this
    /// order.
    pub(super) fn in_one_piece(pages: &[Self]) -> Option<&[u8]> {
        let [first, others @ ..] = pages else {
            return Some(&[]);
        };
        let follows = |(page, before): (&Self, &Self)| {
            !page.is_zero() && page.address().follows(before.address())
        };
        let are_neighbours =
            others.is_empty() || !first.is_zero() && others.iter().zip(pages).all(follows);
        // SAFETY: the pages lie in one slab, one behind the other, and each address has the
        // provenance of the slab. No code writes to a page while its handle is borrowed.
        are_neighbours.then(|| unsafe {
            std::slice::from_raw_parts(first.0.as_ptr(), pages.len() * PAGE_SIZE)
        })
    }

    /// Returns the address in the slab. Never called on the zero page.
    fn address(&self) -> PageAddress {
        debug_assert!(!self.is_zero());
        // SAFETY: every page but the zero page came from `PageAddress::as_ptr`.
        unsafe { PageAddress::from_ptr(self.0) }
    }
}

impl Clone for Page {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the existing handle keeps the page alive (as in `Arc`).
        if !self.is_zero()
            && references_in(self.address().references().fetch_add(1, Ordering::Relaxed))
                > MAX_REFERENCES
        {
            std::process::abort();
        }
        Self(self.0)
    }
}

impl Drop for Page {
    #[inline]
    fn drop(&mut self) {
        if self.is_zero() {
            return;
        }
        let address = self.address();
        let references = address.references();
        // The only handle needs no read-modify-write: no other code can raise the count.
        if references_in(references.load(Ordering::Acquire)) != 1 {
            if references_in(references.fetch_sub(1, Ordering::Release)) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        // SAFETY: the last handle is gone; the acquire above orders the others' reads before.
        unsafe { address.give() };
    }
}

impl Deref for Page {
    type Target = [u8; PAGE_SIZE];

    #[inline]
    fn deref(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: PAGE_SIZE initialised bytes that no code writes while a handle exists.
        unsafe { self.0.cast().as_ref() }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({:p})", self.0)
    }
}

/// Page with one owner, and so writable.
pub struct PageMut(NonNull<u8>);

// SAFETY: the page is owned alone.
unsafe impl Send for PageMut {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for PageMut {}

impl PageMut {
    /// Makes a page of zeros.
    pub fn zeroed() -> Self {
        let mut page = Self::dirty();
        page.fill(0);
        page
    }

    /// Takes a page that still holds old bytes of other data. Every byte must be written before the
    /// page is shared. So this function stays inside the module.
    pub(super) fn dirty() -> Self {
        let address = PageAddress::take();
        // SAFETY: a page is never at address 0.
        Self(unsafe { NonNull::new_unchecked(address.as_ptr()) })
    }

    /// Takes a page with old bytes, as [`PageMut::dirty`] does, to be filled by a device.
    pub(super) fn dirty_for_device() -> Self {
        let address = PageAddress::take_for_device();
        // SAFETY: a page is never at address 0.
        Self(unsafe { NonNull::new_unchecked(address.as_ptr()) })
    }

    /// Takes many pages with old bytes. They are neighbours in memory as far as there are any.
    pub(super) fn dirty_run(count: usize) -> impl Iterator<Item = Self> {
        // SAFETY: a page is never at address 0.
        let own = |page: PageAddress| Self(unsafe { NonNull::new_unchecked(page.as_ptr()) });
        PageAddress::take_many(count).map(own)
    }

    /// Copies another page.
    pub fn copy_of(page: &[u8; PAGE_SIZE]) -> Self {
        let mut copy = Self::dirty();
        copy.copy_from_slice(page);
        copy
    }

    /// Makes the page immutable and shareable.
    pub fn freeze(self) -> Page {
        // The count has been 1 since the page was taken.
        Page(ManuallyDrop::new(self).0)
    }
}

impl Drop for PageMut {
    fn drop(&mut self) {
        // SAFETY: the page came from `PageAddress::take` and this was its only owner.
        unsafe { PageAddress::from_ptr(self.0).give() };
    }
}

impl Deref for PageMut {
    type Target = [u8; PAGE_SIZE];

    fn deref(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: PAGE_SIZE initialised bytes, owned by `self`.
        unsafe { self.0.cast().as_ref() }
    }
}

impl DerefMut for PageMut {
    fn deref_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { self.0.cast().as_mut() }
    }
}

impl fmt::Debug for PageMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageMut({:p})", self.0)
    }
}

#[cfg(test)]
mod tests;

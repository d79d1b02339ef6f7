//! Counts of what loads cost beside their time, in a build with the feature `counted`.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

use serde::Serialize;
use store::counted::{Counter, HASHES};

static ALLOCATIONS: Counter = Counter::new();

#[global_allocator]
static COUNTING: Counting = Counting;

/// System's allocator, whose allocations are counted. Pages for data do not come from it.
struct Counting;

// SAFETY: every call goes to the system's allocator as it is, and counting takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.add();
        // SAFETY: the caller keeps the promises of this function, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.add();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.add();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Counts until a moment, or between two, of all threads.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Counts {
    /// Allocations, and changes of their size.
    allocations: u64,
    /// Keys hashed for the store's tables.
    hashes: u64,
}

impl Counts {
    /// Returns the counts until now.
    pub(crate) fn now() -> Self {
        Self {
            allocations: ALLOCATIONS.sum(),
            hashes: HASHES.sum(),
        }
    }

    /// Returns the counts since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            allocations: self.allocations - earlier.allocations,
            hashes: self.hashes - earlier.hashes,
        }
    }
}

//! The places of a chunk, with a block number and a pointer in each.
//!
//! A chunk grows in ordinary memory. A full-grown chunk lies in pages ([`Pointers`] says why).

use pages::{PAGE_SIZE, PageMut, prefetch};

use super::{FREE, PLACES};
use crate::format::pointers::{Encoded, Pointers};

/// Number of block numbers in a page.
const PER_PAGE: usize = PAGE_SIZE / size_of::<u64>();

/// Places, a power of two. [`FREE`] is the number in places without a block.
#[derive(Debug)]
pub(super) struct Places {
    indices: Indices,
    /// Pointers at the places of the numbers.
    pointers: Pointers,
}

#[derive(Debug)]
enum Indices {
    Few(Box<[u64]>),
    /// Pages of [`PLACES`] numbers.
    Pages([PageMut; PLACES / PER_PAGE]),
}

impl Places {
    /// Makes `count` places without blocks.
    pub(super) fn new(count: usize) -> Self {
        let indices = match count {
            PLACES => Indices::Pages(std::array::from_fn(|_| {
                let mut page = PageMut::zeroed();
                page.as_chunks_mut().0.fill(FREE.to_ne_bytes());
                page
            })),
            count => Indices::Few(vec![FREE; count].into()),
        };
        Self {
            indices,
            pointers: Pointers::holes(count),
        }
    }

    /// Returns the number of places.
    pub(super) fn len(&self) -> usize {
        match &self.indices {
            Indices::Few(few) => few.len(),
            Indices::Pages(_) => PLACES,
        }
    }

    /// Returns the block number in a place.
    #[inline]
    pub(super) fn index(&self, place: usize) -> u64 {
        match &self.indices {
            Indices::Few(few) => few[place],
            Indices::Pages(pages) => {
                let page = pages[place / PER_PAGE].as_chunks().0;
                u64::from_ne_bytes(page[place % PER_PAGE])
            }
        }
    }

    /// Prefetches a place. The processor goes on meanwhile.
    #[inline]
    pub(super) fn prefetch(&self, place: usize) {
        match &self.indices {
            Indices::Few(few) => prefetch(&few[place]),
            Indices::Pages(pages) => {
                let page = pages[place / PER_PAGE]
                    .as_chunks::<{ size_of::<u64>() }>()
                    .0;
                prefetch(&page[place % PER_PAGE]);
            }
        }
        prefetch(self.pointers.get(place));
    }

    /// Returns the block numbers of all places, in their order.
    pub(super) fn indices(&self) -> impl Iterator<Item = u64> + '_ {
        let (few, pages): (&[u64], &[PageMut]) = match &self.indices {
            Indices::Few(few) => (few, &[]),
            Indices::Pages(pages) => (&[], pages),
        };
        let pages = pages.iter().flat_map(|page| page.as_chunks().0);
        let pages = pages.map(|bytes| u64::from_ne_bytes(*bytes));
        few.iter().copied().chain(pages)
    }

    /// Returns the pointer in a place.
    #[inline]
    pub(super) fn pointer(&self, place: usize) -> &Encoded {
        self.pointers.get(place)
    }

    /// Returns the pointer in a place, for an exchange.
    #[inline]
    pub(super) fn pointer_mut(&mut self, place: usize) -> &mut Encoded {
        self.pointers.get_mut(place)
    }

    /// Fills a place.
    #[inline]
    pub(super) fn set(&mut self, place: usize, index: u64, pointer: Encoded) {
        *self.pointers.get_mut(place) = pointer;
        match &mut self.indices {
            Indices::Few(few) => few[place] = index,
            Indices::Pages(pages) => {
                let page = &mut pages[place / PER_PAGE];
                page.as_chunks_mut().0[place % PER_PAGE] = index.to_ne_bytes();
            }
        }
    }
}

//! The places of a chunk: a block number and a pointer in each.
//!
//! A chunk grows in ordinary memory. One that is full-grown lies in pages ([`Pointers`] says why).

use pages::{PAGE_SIZE, PageMut, prefetch};

use super::{FREE, PLACES};
use crate::format::pointers::{Encoded, Pointers};

/// Block numbers in a page.
const PER_PAGE: usize = PAGE_SIZE / size_of::<u64>();

/// Places, a power of two; [`FREE`] is the number in those without a block.
#[derive(Debug)]
pub(super) struct Places {
    indices: Indices,
    /// At the same places.
    pointers: Pointers,
}

#[derive(Debug)]
enum Indices {
    Few(Box<[u64]>),
    /// [`PLACES`] of them.
    Pages([PageMut; PLACES / PER_PAGE]),
}

impl Places {
    /// So many without blocks.
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

    /// How many.
    pub(super) fn len(&self) -> usize {
        match &self.indices {
            Indices::Few(few) => few.len(),
            Indices::Pages(_) => PLACES,
        }
    }

    /// The block number in a place.
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

    /// Asks for a place to be brought near the processor while it goes on.
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

    /// The block numbers of all places, in their order.
    pub(super) fn indices(&self) -> impl Iterator<Item = u64> + '_ {
        let (few, pages): (&[u64], &[PageMut]) = match &self.indices {
            Indices::Few(few) => (few, &[]),
            Indices::Pages(pages) => (&[], pages),
        };
        let pages = pages.iter().flat_map(|page| page.as_chunks().0);
        let pages = pages.map(|bytes| u64::from_ne_bytes(*bytes));
        few.iter().copied().chain(pages)
    }

    /// The pointer in a place.
    #[inline]
    pub(super) fn pointer(&self, place: usize) -> &Encoded {
        self.pointers.get(place)
    }

    /// The same, to be exchanged.
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

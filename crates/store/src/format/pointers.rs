//! Many pointers in memory, as [`Pointer::encode`] makes them. They take a third less than decoded
//! pointers.
//!
//! Pointers that fill pages lie in pages, as the blocks of the cache do. So the cache takes the
//! memory that maps give back, and the other way round. Ordinary memory would stay with the program
//! for the next maps, tens of megabytes that nobody counted.

use std::fmt;

use pages::{PAGE_SIZE, PageMut};
use smallvec::SmallVec;

use super::Pointer;

/// A pointer as it lies on a disk.
pub type Encoded = [u8; Pointer::SIZE];

const PER_PAGE: usize = PAGE_SIZE / Pointer::SIZE;

/// A fixed number of pointers.
#[derive(Clone)]
pub struct Pointers(Memory);

enum Memory {
    /// Fewer pointers than fill a page.
    Few(Box<[Encoded]>),
    Pages(SmallVec<[PageMut; 8]>),
}

impl Pointers {
    /// Makes `count` holes.
    pub fn holes(count: usize) -> Self {
        if count.is_multiple_of(PER_PAGE) {
            let pages = (0..count / PER_PAGE).map(|_| PageMut::zeroed());
            return Self(Memory::Pages(pages.collect()));
        }
        Self(Memory::Few(vec![[0; Pointer::SIZE]; count].into()))
    }

    /// Returns the pointer in a place.
    ///
    /// # Panics
    /// There is no such place.
    #[inline]
    pub fn get(&self, place: usize) -> &Encoded {
        match &self.0 {
            Memory::Few(few) => &few[place],
            Memory::Pages(pages) => &pages[place / PER_PAGE].as_chunks().0[place % PER_PAGE],
        }
    }

    /// Returns the pointer in a place, for a change.
    ///
    /// # Panics
    /// There is no such place.
    #[inline]
    pub fn get_mut(&mut self, place: usize) -> &mut Encoded {
        match &mut self.0 {
            Memory::Few(few) => &mut few[place],
            Memory::Pages(pages) => {
                let page = &mut pages[place / PER_PAGE];
                &mut page.as_chunks_mut().0[place % PER_PAGE]
            }
        }
    }

    /// Returns all pointers.
    pub fn iter(&self) -> impl Iterator<Item = &Encoded> {
        self.runs().flatten()
    }

    /// Returns all pointers in order, as those that lie side by side in memory.
    pub fn runs(&self) -> impl Iterator<Item = &[Encoded]> {
        let (few, pages): (&[Encoded], &[PageMut]) = match &self.0 {
            Memory::Few(few) => (few, &[]),
            Memory::Pages(pages) => (&[], pages),
        };
        let few = (!few.is_empty()).then_some(few);
        few.into_iter()
            .chain(pages.iter().map(|page| page.as_chunks().0))
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        match self {
            Self::Few(few) => Self::Few(few.clone()),
            Self::Pages(pages) => {
                Self::Pages(pages.iter().map(|page| PageMut::copy_of(page)).collect())
            }
        }
    }
}

impl PartialEq for Pointers {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Pointers {}

impl fmt::Debug for Pointers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = self.iter().filter(|of| **of != [0; Pointer::SIZE]);
        write!(f, "{} pointers", filled.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_holds_what_was_put_there() {
        for count in [1, 4, 16, PER_PAGE - 1, PER_PAGE, 4 * PER_PAGE, 8 * PER_PAGE] {
            let mut pointers = Pointers::holes(count);
            assert!(pointers.iter().all(|of| *of == [0; Pointer::SIZE]));
            for place in 0..count {
                pointers.get_mut(place)[..8].copy_from_slice(&(place as u64 + 1).to_le_bytes());
            }
            let copy = pointers.clone();
            assert_eq!(copy, pointers);
            pointers.get_mut(count - 1)[31] = 7;
            assert_ne!(copy, pointers);
            let numbers = copy
                .iter()
                .map(|of| u64::from(of[0]) + 256 * u64::from(of[1]));
            assert!(numbers.eq(1..=count as u64));
            assert_eq!(copy.get(count / 2)[0], (count / 2 + 1) as u8);
        }
    }
}

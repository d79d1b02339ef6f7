//! Bytes and blocks. This module finds the blocks that a range of bytes touches, makes the block
//! that results from a write to a part of it, and joins the bytes of several blocks into one run.

use std::ops::Range;

use pages::{PAGE_SIZE, Page, PageMut, Pages};

/// The part of one block that a range of bytes touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the block.
    pub block: u64,
    /// Range of the part inside the block, in bytes.
    pub within: Range<usize>,
    /// Range of the part from the start of the byte range, in bytes.
    pub of_range: Range<usize>,
}

/// Returns the numbers of the blocks of `block_size` bytes that `len` bytes from `offset` on touch.
pub fn touched(offset: u64, len: usize, block_size: usize) -> Range<u64> {
    let size = block_size as u64;
    let first = offset / size;
    let end = if len == 0 {
        first
    } else {
        (offset + len as u64).div_ceil(size)
    };
    first..end
}

/// Returns the part of each block that `len` bytes from `offset` on touch, in order.
pub fn parts(offset: u64, len: usize, block_size: usize) -> impl ExactSizeIterator<Item = Part> {
    let size = block_size as u64;
    let Range { start: first, end } = touched(offset, len, block_size);
    (0..(end - first) as usize).map(move |number| {
        let block = first + number as u64;
        let from = offset.max(block * size);
        let to = (offset + len as u64).min((block + 1) * size);
        Part {
            block,
            within: (from - block * size) as usize..(to - block * size) as usize,
            of_range: (from - offset) as usize..(to - offset) as usize,
        }
    })
}

/// Returns a block in which `new` is written from byte `at` on. Untouched pages, and pages that are
/// written whole, are shared. `old` begins at a page.
pub fn overwritten(old: &Pages, at: usize, new: &Pages) -> Pages {
    let len = old.len();
    debug_assert!(at + new.len() <= len && !new.is_empty());
    let (first, last) = (at / PAGE_SIZE, (at + new.len() - 1) / PAGE_SIZE);
    let pages: Vec<Page> = (0..len.div_ceil(PAGE_SIZE))
        .map(|number| {
            if (first..=last).contains(&number) {
                written_page(old, number, at, new)
            } else {
                whole_page(old, number * PAGE_SIZE)
            }
        })
        .collect();
    Pages::from_pages(pages.into_iter(), 0, len as u32)
}

/// Returns one page of a block that is partly or wholly written.
fn written_page(old: &Pages, number: usize, at: usize, new: &Pages) -> Page {
    let start = number * PAGE_SIZE;
    let from = at.max(start);
    let to = (at + new.len()).min(start + PAGE_SIZE);
    if to - from == PAGE_SIZE {
        return whole_page(new, from - at);
    }
    let mut page = PageMut::zeroed();
    let kept = PAGE_SIZE.min(old.len() - start);
    old.slice(start..start + kept).copy_to(&mut page[..kept]);
    new.slice(from - at..to - at)
        .copy_to(&mut page[from - start..to - start]);
    page.freeze()
}

/// Returns the page of bytes that begins at `start`. A page that is one in memory is shared; others
/// are copied. Bytes behind the end are zeros.
fn whole_page(data: &Pages, start: usize) -> Page {
    if let Some(page) = data.whole_page(start) {
        return page.clone();
    }
    let len = PAGE_SIZE.min(data.len() - start);
    let mut page = PageMut::zeroed();
    data.slice(start..start + len).copy_to(&mut page[..len]);
    page.freeze()
}

/// Returns the bytes of a block as pages that begin with the block. Unaligned bytes are copied.
pub fn aligned(data: Pages) -> Pages {
    let is_aligned = |at| data.whole_page(at).is_some();
    if data.len().is_multiple_of(PAGE_SIZE) && (0..data.len()).step_by(PAGE_SIZE).all(is_aligned) {
        return data;
    }
    let pages: Vec<Page> = (0..data.len())
        .step_by(PAGE_SIZE)
        .map(|start| whole_page(&data, start))
        .collect();
    Pages::from_pages(pages.into_iter(), 0, data.len() as u32)
}

/// Returns the bytes of several blocks as one run. `pieces` are in order. All but the first begin
/// at a page, and all but the last end at one, as parts of neighbouring blocks do.
pub fn joined(pieces: &[Pages]) -> Pages {
    if let [piece] = pieces {
        return piece.clone();
    }
    let len: usize = pieces.iter().map(Pages::len).sum();
    let skew = pieces
        .first()
        .map_or(0, |first| (PAGE_SIZE - first.len() % PAGE_SIZE) % PAGE_SIZE);
    let mut pages = Vec::with_capacity((skew + len).div_ceil(PAGE_SIZE));
    for (number, piece) in pieces.iter().enumerate() {
        match piece.whole_pages() {
            Some(whole) => pages.extend_from_slice(whole),
            None => add_pages_of(piece, if number == 0 { skew } else { 0 }, &mut pages),
        }
    }
    Pages::from_pages(pages.into_iter(), skew as u32, len as u32)
}

/// Appends the pages of a run whose first byte shall lie `skew` bytes into a page.
fn add_pages_of(piece: &Pages, skew: usize, pages: &mut Vec<Page>) {
    let mut start = 0;
    let mut lead = skew;
    while start < piece.len() {
        let len = (PAGE_SIZE - lead).min(piece.len() - start);
        if len == PAGE_SIZE {
            pages.push(whole_page(piece, start));
        } else {
            let mut page = PageMut::zeroed();
            piece
                .slice(start..start + len)
                .copy_to(&mut page[lead..lead + len]);
            pages.push(page.freeze());
        }
        (start, lead) = (start + len, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(len: usize, seed: u64) -> Vec<u8> {
        (0..len as u64)
            .map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(0x9e37)) as u8)
            .collect()
    }

    proptest! {
        #[test]
        fn parts_cover_the_range_once(offset in 0..200_000_u64, len in 0..300_000_usize, shift in 12..17_u32) {
            let size = 1_usize << shift;
            let mut at = 0;
            for part in parts(offset, len, size) {
                prop_assert_eq!(part.of_range.start, at);
                prop_assert_eq!(part.block * size as u64 + part.within.start as u64, offset + at as u64);
                prop_assert!(part.within.end <= size && part.within.len() == part.of_range.len());
                prop_assert!(!part.within.is_empty());
                at = part.of_range.end;
            }
            prop_assert_eq!(at, len);
        }

        #[test]
        fn a_part_changes_and_the_rest_stays(pages in 1..5_usize, at: u32, len: u32, skew in 0..PAGE_SIZE) {
            let size = pages * PAGE_SIZE;
            let at = at as usize % size;
            let len = 1 + len as usize % (size - at);
            let (old, new) = (bytes(size, 1), bytes(len, 2));
            // The new bytes lie anywhere in memory.
            let mut padded = vec![0; skew];
            padded.extend_from_slice(&new);
            let run = Pages::from_bytes(&padded).slice(skew..skew + len);
            let block = overwritten(&Pages::from_bytes(&old), at, &run);
            let mut model = old;
            model[at..at + len].copy_from_slice(&new);
            prop_assert_eq!(block.to_vec(), model);
            prop_assert_eq!(aligned(run).to_vec(), new);
        }

        #[test]
        fn pieces_of_blocks_join(offset in 0..40_000_u64, len in 1..70_000_usize, shift in 12..15_u32) {
            let size = 1_usize << shift;
            let pieces: Vec<Pages> = parts(offset, len, size)
                .map(|part| Pages::from_bytes(&bytes(size, part.block)).slice(part.within))
                .collect();
            let model: Vec<u8> = parts(offset, len, size)
                .flat_map(|part| bytes(size, part.block)[part.within].to_vec())
                .collect();
            prop_assert_eq!(joined(&pieces).to_vec(), model);
        }
    }

    #[test]
    fn whole_pages_are_shared_not_copied() {
        let (old, new) = (
            Pages::from_bytes(&bytes(16384, 1)),
            Pages::from_bytes(&bytes(4096, 2)),
        );
        let block = overwritten(&old, 4096, &new);
        let address = |pages: &Pages, at| pages.whole_page(at).map(|page| page.as_ptr());
        assert_eq!(address(&block, 0), address(&old, 0));
        assert_eq!(address(&block, 4096), address(&new, 0));
        assert_eq!(
            address(&joined(&[new.clone(), old.clone()]), 4096),
            address(&old, 0)
        );
    }
}

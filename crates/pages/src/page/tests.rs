//! Tests of pages, runs of pages and the slabs beneath them. Also run under Miri.

use std::sync::mpsc;

use super::*;
use crate::slab::SLAB_SIZE;
use crate::{Pages, PagesMut};

const MANY: usize = if cfg!(miri) { 600 } else { 20_000 };
/// Distance between the bytes that are checked. Miri is slow, so it looks at some bytes of a page
/// only.
const STEP: usize = if cfg!(miri) { 511 } else { 1 };

#[test]
fn a_handle_is_one_pointer() {
    assert_eq!(size_of::<Option<Page>>(), size_of::<usize>());
    assert_eq!(size_of::<Option<PageMut>>(), size_of::<usize>());
}

#[test]
fn pages_are_aligned_and_distinct() {
    let take = |number| match number % 3 {
        0 => PageMut::dirty_for_device(),
        _ => PageMut::dirty(),
    };
    let mut pages: Vec<PageMut> = (0..MANY).map(take).collect();
    for (number, page) in pages.iter_mut().enumerate() {
        page[..8].copy_from_slice(&number.to_le_bytes());
        page[PAGE_SIZE - 8..].copy_from_slice(&number.to_le_bytes());
    }
    for (number, page) in pages.iter().enumerate() {
        assert!(page.as_ptr().addr().is_multiple_of(PAGE_SIZE));
        assert_eq!(page[..8], number.to_le_bytes());
        assert_eq!(page[PAGE_SIZE - 8..], number.to_le_bytes());
    }
}

#[test]
fn long_buffers_are_of_few_pieces_of_memory_whatever_order_pages_came_back_in() {
    let pieces = |buffer: &mut PagesMut| {
        let mut ends = std::ptr::null();
        let len = buffer.len();
        let starts = buffer.chunks_mut(0, len).filter(|chunk| {
            let range = chunk.as_ptr_range();
            range.start != std::mem::replace(&mut ends, range.end)
        });
        starts.count()
    };
    let mut buffers: Vec<PagesMut> = (0..8).map(|_| PagesMut::allocate(64 * PAGE_SIZE)).collect();
    assert!(buffers.iter_mut().map(pieces).sum::<usize>() < 8 * 16);
    // Every second page comes back, then the rest, by way of the threads' own stacks.
    let pages: Vec<Page> = buffers
        .into_iter()
        .flat_map(|buffer| {
            let run = buffer.freeze();
            (0..64).filter_map(move |at| run.whole_page(at * PAGE_SIZE).cloned())
        })
        .collect();
    let (even, odd): (Vec<_>, Vec<_>) = pages
        .into_iter()
        .enumerate()
        .partition(|(at, _)| at % 2 == 0);
    drop(even);
    drop(odd);
    let mut again = PagesMut::allocate(64 * PAGE_SIZE);
    assert!(pieces(&mut again) < 32);
    let bytes: Vec<u8> = (0..64 * PAGE_SIZE).map(|at| (at / 7) as u8).collect();
    again.copy_from(0, &bytes);
    assert_eq!(again.freeze(), bytes);
}

#[test]
fn what_lies_in_neighbours_in_their_order_is_one_piece() {
    let bytes: Vec<u8> = (0..16 * PAGE_SIZE).map(|at| (at / 7) as u8).collect();
    let run = Pages::from_bytes(&bytes);
    let page = |at: usize| run.whole_page(at * PAGE_SIZE).expect("whole").clone();
    let addresses: Vec<usize> = (0..16).map(|at| page(at).as_ptr().addr()).collect();
    let at = addresses
        .windows(2)
        .position(|pair| pair[0] + PAGE_SIZE == pair[1])
        .expect("a long buffer has neighbours");

    let range = at * PAGE_SIZE + 100..(at + 2) * PAGE_SIZE - 1;
    let both = run.slice(range.clone());
    assert_eq!(both.in_one_piece().expect("neighbours"), &bytes[range]);
    let of_pages = |pages: [Page; 2]| Pages::from_pages(pages.into_iter(), 0, 2 * PAGE_SIZE as u32);
    let in_order = of_pages([page(at), page(at + 1)]);
    assert_eq!(
        in_order.in_one_piece().map(<[u8]>::as_ptr),
        Some(page(at).as_ptr())
    );
    for others in [
        [page(at + 1), page(at)],
        [page(at), page(at)],
        [page(at), Page::zero()],
        [Page::zero(), page(at)],
        [Page::zero(), Page::zero()],
    ] {
        assert!(of_pages(others).in_one_piece().is_none());
    }
    assert_eq!(run.slice(5..9).in_one_piece(), Some(&bytes[5..9]));
    assert_eq!(Pages::zeroes(10).in_one_piece(), Some(&[0; 10][..]));
    assert_eq!(Pages::new().in_one_piece(), Some(&[][..]));
}

#[test]
fn the_last_page_of_a_slab_and_the_first_of_another_are_two_pieces() {
    // More pages than a slab has, so that some run crosses from one slab to another.
    let pages: Vec<Page> = PageMut::dirty_run(MANY)
        .map(|mut page| {
            page.fill(1);
            page.freeze()
        })
        .collect();
    for pair in pages.windows(2) {
        let addresses = [pair[0].as_ptr().addr(), pair[1].as_ptr().addr()];
        let is_one_slab = addresses[0] / SLAB_SIZE == addresses[1] / SLAB_SIZE;
        let are_neighbours = addresses[0] + PAGE_SIZE == addresses[1];
        assert_eq!(
            Page::in_one_piece(pair).is_some(),
            is_one_slab && are_neighbours
        );
    }
}

#[test]
fn writable_only_while_alone() {
    let mut page = PageMut::zeroed().freeze();
    page.get_mut().expect("alone")[0] = 1;
    let other = page.clone();
    assert!(page.get_mut().is_none());
    assert_eq!(other[0], 1);
    drop(other);
    assert!(page.get_mut().is_some());
}

#[test]
fn the_zero_page_is_never_writable() {
    let mut zero = Page::zero();
    assert!(zero.get_mut().is_none());
    assert!(zero.is_zero() && zero.clone().is_zero());
    assert!(zero.iter().all(|byte| *byte == 0));
    assert!(!PageMut::zeroed().freeze().is_zero());
}

#[test]
fn pages_travel_between_threads() {
    let (sender, receiver) = mpsc::channel::<Page>();
    let reader = std::thread::spawn(move || {
        let mut kept = Vec::new();
        for page in receiver {
            let first = page[0];
            assert!(
                page.iter().step_by(STEP).all(|byte| *byte == first),
                "a torn page"
            );
            if first % 3 == 0 {
                kept.push(page);
            }
        }
        kept.len()
    });
    let mut local = Vec::new();
    for round in 0..MANY / 4 {
        let mut page = PageMut::dirty();
        page.fill(round as u8);
        let page = page.freeze();
        if round % 5 == 0 {
            local.push(page.clone());
        }
        sender.send(page).expect("the reader lives");
    }
    drop(sender);
    assert!(reader.join().expect("no torn page") > 0);
    for (number, page) in local.iter().enumerate() {
        assert!(
            page.iter()
                .step_by(STEP)
                .all(|byte| *byte == (number * 5) as u8)
        );
    }
}

#[test]
fn bytes_come_back_as_they_went_in() {
    let bytes: Vec<u8> = (0..3 * PAGE_SIZE + 77)
        .map(|at| (at * 7 / 3) as u8)
        .collect();
    for len in [0, 1, 511, PAGE_SIZE, PAGE_SIZE + 1, bytes.len()] {
        let pages = Pages::from_bytes(&bytes[..len]);
        assert_eq!(pages.to_vec(), bytes[..len]);
        assert_eq!(pages.chunks().len(), pages.chunks().count());
        let mut copy = vec![0; len];
        pages.copy_to(&mut copy);
        assert_eq!(copy, bytes[..len]);
    }
    let pages = Pages::from_bytes(&bytes);
    for (start, end) in [
        (0, 0),
        (0, 1),
        (5, 4096),
        (4095, 4097),
        (4096, 8192),
        (100, bytes.len()),
    ] {
        let slice = pages.slice(start..end);
        assert_eq!(slice.to_vec(), bytes[start..end]);
        assert_eq!(slice.slice(0..slice.len()).to_vec(), bytes[start..end]);
        let middle = slice.len() / 2;
        assert_eq!(
            slice.slice(middle..slice.len()).to_vec(),
            bytes[start + middle..end]
        );
    }
    assert!(Pages::zeroes(10_000) == *vec![0; 10_000]);
}

#[test]
fn whole_pages_are_found_where_they_lie() {
    let mut buffer = PagesMut::allocate_at(3 * PAGE_SIZE, 512);
    buffer.zero(0, 3 * PAGE_SIZE);
    let pages = buffer.freeze();
    assert!(pages.whole_page(0).is_none());
    assert!(pages.whole_page(PAGE_SIZE).is_none());
    assert!(pages.whole_page(PAGE_SIZE - 512).is_some());
    assert!(pages.whole_page(2 * PAGE_SIZE - 512).is_some());
    assert!(
        pages.whole_page(3 * PAGE_SIZE - 512).is_none(),
        "only 512 bytes of it are ours"
    );
    assert!(
        pages
            .slice(0..2 * PAGE_SIZE)
            .whole_page(2 * PAGE_SIZE - 512)
            .is_none()
    );
}

/// Leaves pages full of other data's bytes at the place from which the next buffer will be taken.
fn soil(pages: usize) {
    let secrets: Vec<PageMut> = (0..pages)
        .map(|_| {
            let mut page = PageMut::dirty();
            page.fill(0xAA);
            page
        })
        .collect();
    drop(secrets);
}

#[test]
fn bytes_never_written_are_zeros() {
    soil(8);
    let mut buffer = PagesMut::allocate_at(2 * PAGE_SIZE, 100);
    buffer.copy_from(10, &[1; 20]);
    buffer.copy_from(5000, &[2; 50]);
    buffer.copy_from(30, &[3; 5]);
    assert_eq!((buffer.filled_prefix(), buffer.is_filled()), (0, false));
    let bytes = buffer.freeze().to_vec();
    let mut expected = vec![0; 2 * PAGE_SIZE];
    expected[10..30].fill(1);
    expected[5000..5050].fill(2);
    expected[30..35].fill(3);
    assert_eq!(bytes, expected);

    soil(8);
    assert!(PagesMut::allocate(5000).freeze() == *vec![0; 5000]);
}

#[test]
fn a_short_buffer_can_be_cut() {
    let mut buffer = PagesMut::allocate_at(2 * PAGE_SIZE, 512);
    buffer.copy_from(0, &[7; 1000]);
    buffer.truncate(700);
    assert_eq!((buffer.len(), buffer.is_filled()), (700, true));
    assert_eq!(buffer.freeze().to_vec(), [7; 700]);
    let mut empty = PagesMut::allocate(10);
    empty.truncate(0);
    assert!(empty.freeze().is_empty());
}

#[test]
fn an_empty_buffer_may_start_anywhere_in_a_page() {
    for skew in [0, 512, PAGE_SIZE - 1] {
        assert!(PagesMut::allocate_at(0, skew).freeze().is_empty());
    }
}

#[cfg(not(miri))]
mod model {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Writes in any order, overlapping or not, and compares the result with a vector.
        #[test]
        fn a_buffer_holds_what_was_written(
            len in 1usize..20_000,
            skew in 0usize..PAGE_SIZE,
            writes in prop::collection::vec((0usize..20_000, 0usize..9_000, 1u8..), 0..12),
            cut in prop::option::of(0usize..20_000),
        ) {
            soil(8);
            let mut buffer = PagesMut::allocate_at(len, skew);
            let mut model = vec![0; len];
            for (offset, count, byte) in writes {
                let offset = offset.min(len);
                let count = count.min(len - offset);
                model[offset..offset + count].fill(byte);
                for chunk in buffer.chunks_mut(offset, count) {
                    chunk.fill(byte);
                }
                buffer.mark_filled(offset, count);
                let prefix = model.iter().position(|byte| *byte == 0).unwrap_or(len);
                prop_assert_eq!(buffer.filled_prefix(), prefix);
            }
            if let Some(cut) = cut {
                buffer.truncate(cut);
                model.truncate(cut);
            }
            prop_assert_eq!(buffer.freeze().to_vec(), model);
        }
    }
}

#[test]
fn a_trimmed_run_keeps_only_what_it_shows() {
    let bytes: Vec<u8> = (0..5 * PAGE_SIZE).map(|at| (at / 7) as u8).collect();
    let whole = Pages::from_bytes(&bytes);
    let list = |pages: usize| 2 * size_of::<usize>() + pages * (size_of::<Page>() + PAGE_SIZE);
    assert_eq!(whole.memory(), list(5));
    for (range, memory) in [
        (0..5 * PAGE_SIZE, list(5)),
        (4096..12_288, list(2)),
        (4000..12_289, list(4)),
        (5000..9000, list(2)),
        (5000..6000, PAGE_SIZE),
        (7..7, 0),
    ] {
        let cut = whole.slice(range.clone()).trimmed();
        assert_eq!(cut.memory(), memory, "{range:?}");
        assert!(cut == bytes[range]);
    }
}

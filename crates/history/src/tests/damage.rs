//! Files that hold anything: opening finds damage, never panics, and what is whole goes on.

use proptest::prelude::*;

use super::*;
use crate::book::repaired;
use crate::format::{GROUP_BYTES, HEADER_BYTES};

const LAST: u32 = 5799;

/// Returns the bytes of a book with two groups and a day of records.
fn written() -> Vec<u8> {
    let (mut book, memory) = book();
    for minute in 5000..=LAST {
        let samples: Vec<Sample> = (0..9)
            .map(|of| sample(of, f64::from(minute % 900)))
            .collect();
        book.record(minute, &samples).expect("recorded");
    }
    memory.image()
}

/// Repairs bytes, and returns the book that comes of it.
fn after_repair(damaged: Vec<u8>) -> Book<Memory> {
    let new = Memory::default();
    repaired(&Memory::of(damaged), &new, KIND).expect("memory is written");
    opened(&new)
}

#[test]
fn a_flipped_byte_costs_its_own_row_and_nothing_else() {
    let image = written();
    let whole = chart(&opened(&Memory::of(image.clone())), 8, Span::SixHours, LAST);
    assert_eq!(whole.len(), 360);
    let rows = HEADER_BYTES + GROUP_BYTES + 8192;
    let mut found = 0;
    for row in 0..360 {
        let mut image = image.clone();
        image[rows + row * 208 + row % 208] ^= 0x10;
        let memory = Memory::of(image.clone());
        if opened_if_whole(&memory).is_none() {
            found += 1;
            let told = chart(&after_repair(image), 8, Span::SixHours, LAST);
            assert_eq!(told.len(), 359);
            assert!(told.iter().all(|(at, reads)| whole[at] == *reads));
        }
    }
    // The newest row and the one after it may be torn.
    assert_eq!(found, 358);
}

#[test]
fn a_file_that_is_cut_short_keeps_what_is_there() {
    let image = written();
    for length in [
        0,
        100,
        HEADER_BYTES - 1,
        HEADER_BYTES + 20_000,
        image.len() - 1,
    ] {
        let cut = image[..length].to_vec();
        assert!(
            opened_if_whole(&Memory::of(cut.clone())).is_none(),
            "{length}"
        );
        let mut book = after_repair(cut);
        let told = chart(&book, 0, Span::SixHours, LAST);
        assert_eq!(told.is_empty(), length < HEADER_BYTES + 10_000, "{length}");
        book.record(LAST + 1, &[sample(0, 7.0)]).expect("recorded");
        let told = chart(&book, 0, Span::SixHours, LAST + 1);
        assert_eq!(told[&(LAST + 1)], 7.0, "{length}");
    }
    let mut long = image.clone();
    long.push(0);
    assert!(opened_if_whole(&Memory::of(long)).is_none());
}

#[test]
fn an_object_whose_name_is_lost_loses_its_records_to_nobody() {
    let mut image = written();
    for copy in 0..2 {
        image[HEADER_BYTES + (3 * 2 + copy) * 512 + 9] ^= 1;
    }
    assert!(opened_if_whole(&Memory::of(image.clone())).is_none());
    let mut book = after_repair(image);
    assert!(book.find("vm3").is_none());
    assert_eq!(chart(&book, 2, Span::SixHours, LAST).len(), 360);
    // Its column goes to another object, which begins without a past.
    book.record(LAST + 1, &[sample(77, 7.0)]).expect("recorded");
    let told = chart(&book, 77, Span::TwoYears, LAST + 1);
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn one_copy_of_a_name_is_enough() {
    let image = written();
    for copy in 0..2 {
        let mut image = image.clone();
        image[HEADER_BYTES + copy * 512 + 30] ^= 1;
        let book = opened(&Memory::of(image));
        assert_eq!(chart(&book, 0, Span::SixHours, LAST).len(), 360);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_opened_or_refused_and_repaired(
        mut bytes in prop::collection::vec(any::<u8>(), 0..3000),
        length in 0usize..3 * GROUP_BYTES,
        with_header: bool,
    ) {
        bytes.resize(length, 0xa5);
        if with_header && length >= HEADER_BYTES {
            bytes[..HEADER_BYTES].copy_from_slice(&crate::format::header(KIND));
        }
        let _ = opened_if_whole(&Memory::of(bytes.clone()));
        let mut book = after_repair(bytes);
        book.record(6000, &[sample(0, 7.0)]).expect("recorded");
        prop_assert_eq!(chart(&book, 0, Span::SixHours, 6000)[&6000], 7.0);
    }

    #[test]
    fn a_whole_file_with_damage_anywhere_goes_on(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 1usize..2000), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        thread_local! {
            static WRITTEN: Vec<u8> = written();
        }
        let mut image = WRITTEN.with(Clone::clone);
        for (at, value, length) in &damage {
            let at = at.index(image.len());
            let end = (at + length).min(image.len());
            image[at..end].fill(*value);
        }
        if let Some(cut) = cut {
            image.truncate(cut.index(image.len()));
        }
        let memory = Memory::of(image.clone());
        let mut book = opened_if_whole(&memory).unwrap_or_else(|| after_repair(image));
        book.record(LAST + 1, &[sample(0, 7.0)]).expect("recorded");
        let told = chart(&book, 0, Span::SixHours, LAST + 1);
        prop_assert_eq!(told[&(LAST + 1)], 7.0);
        // Nothing is shown that was not recorded.
        prop_assert!(told.iter().all(|(at, reads)| *at > LAST || *reads == f64::from(at % 900)));
    }
}

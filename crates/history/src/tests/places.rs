//! Columns of objects that come, go and come back.

use super::*;
use crate::format::{COLUMNS, GROUP_BYTES, HEADER_BYTES};

const DAY: u32 = 1440;

fn record(book: &mut Book<Memory>, minute: u32, objects: impl IntoIterator<Item = usize>) {
    let samples: Vec<Sample> = objects.into_iter().map(|of| sample(of, 5.0)).collect();
    book.record(minute, &samples).expect("recorded");
}

fn groups(memory: &Memory) -> usize {
    (memory.image().len() - HEADER_BYTES) / GROUP_BYTES
}

#[test]
fn an_object_that_comes_back_finds_its_past() {
    let (mut book, memory) = book();
    record(&mut book, 1000, 0..8);
    record(&mut book, 1001, 1..8);
    record(&mut book, 1002, 1..9);
    record(&mut book, 1003, 0..9);
    let book = opened(&memory);
    let told = chart(&book, 0, Span::SixHours, 1003);
    assert_eq!(told.keys().copied().collect::<Vec<_>>(), [1000, 1003]);
    // The ninth object got a group of its own: the first was away for a moment only.
    assert_eq!(groups(&memory), 2);
}

#[test]
fn the_column_of_the_object_that_is_gone_longest_is_used_again() {
    let (mut book, memory) = book();
    record(&mut book, 1000, 0..8);
    record(&mut book, 1001, 1..8);
    record(&mut book, 1002, 2..8);
    let later = 1002 + 15 * DAY;
    record(&mut book, later, 2..9);
    assert_eq!(groups(&memory), 1);
    for book in [&book, &opened(&memory)] {
        assert!(book.find("vm0").is_none(), "it was gone longest");
        assert_eq!(chart(book, 1, Span::TwoYears, later).len(), 1);
        // The newcomer has no past, in no span.
        for span in Span::ALL {
            assert_eq!(chart(book, 8, span, later).len(), 1, "{span:?}");
        }
    }
    let objects = book.objects();
    let told: Vec<(&str, bool)> = objects
        .iter()
        .map(|of| (of.name.as_str(), of.is_present))
        .collect();
    assert_eq!(told[0], ("vm1", false));
    assert!(told[1..].iter().all(|(_, is_present)| *is_present));
    assert_eq!(objects[0].last_seen_unix_s, Some(1001 * 60));
}

#[test]
fn the_bound_holds_and_the_newest_have_no_room() {
    let most = crate::format::most_groups(HistoryKind::Pool) * COLUMNS;
    let memory = Memory::default();
    Book::create(&memory, HistoryKind::Pool).expect("made");
    let mut book = Book::open(memory.clone(), HistoryKind::Pool).expect("whole");
    let samples = |objects: std::ops::Range<usize>| -> Vec<Sample> {
        objects.map(|of| sample(of, 5.0)).collect()
    };
    assert_eq!(
        book.record(1000, &samples(0..most + 3)).expect("recorded"),
        3
    );
    assert_eq!(groups(&memory), 16);
    // Beyond the bound even a short absence costs the column.
    assert_eq!(
        book.record(1001, &samples(1..most + 3)).expect("recorded"),
        2
    );
    assert!(book.find(&name(0)).is_none());
    assert!(book.find(&name(most)).is_some());
    assert_eq!(groups(&memory), 16);
}

#[test]
fn a_name_that_changes_keeps_the_past_and_of_two_the_present_one_is_meant() {
    let (mut book, memory) = book();
    let disk = |key: &str, name: &str| Sample {
        key: key.into(),
        name: name.into(),
        ..sample(0, 5.0)
    };
    book.record(1000, &[disk("1", "/dev/sda"), disk("2", "/dev/sdb")])
        .expect("recorded");
    book.record(1001, &[disk("2", "/dev/sda")])
        .expect("recorded");
    let book = opened(&memory);
    let (place, name, key) = book.find("/dev/sda").expect("known");
    assert_eq!((name, key), ("/dev/sda", "2"));
    let points = book.points(place, Span::SixHours, 1001).expect("read");
    assert_eq!(points.values.iter().flatten().count(), 2);
    assert_eq!(book.find("1").map(|(_, name, _)| name), Some("/dev/sda"));
    assert!(book.find("/dev/sdb").is_none());
}

#[test]
fn an_identity_that_has_no_room_has_no_history() {
    let (mut book, _) = book();
    let long = Sample {
        key: "x".repeat(300),
        ..sample(0, 5.0)
    };
    assert_eq!(
        book.record(1000, &[long, sample(1, 5.0)])
            .expect("recorded"),
        1
    );
    assert_eq!(chart(&book, 1, Span::SixHours, 1000).len(), 1);
}

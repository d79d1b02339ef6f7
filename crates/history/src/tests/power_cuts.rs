//! Power cuts at every request to the storage, with each write torn at every byte.

use super::*;

/// Minutes after which windows of both coarser rings end.
const BEGIN: u32 = 29_000_160 - 15;

/// Points of all objects in all spans.
type Charts = Vec<BTreeMap<u32, f64>>;

fn charts(book: &Book<Memory>, last: u32) -> Charts {
    let all = (0..3).flat_map(|object| Span::ALL.map(|span| (object, span)));
    all.map(|(object, span)| chart(book, object, span, last))
        .collect()
}

/// Returns the samples of a minute. An object joins after a while.
fn samples(minute: u32) -> Vec<Sample> {
    let objects = if minute < BEGIN + 12 { 0..2 } else { 0..3 };
    objects
        .map(|of| sample(of, f64::from((minute + of as u32) % 900)))
        .collect()
}

/// Opens what a power cut left, and checks that it has everything of the minutes before.
fn check(image: Vec<u8>, minute: u32, before: &Charts, what: &str) -> Memory {
    let memory = Memory::of(image);
    let book = opened_if_whole(&memory).unwrap_or_else(|| panic!("{what}: damaged"));
    let found = charts(&book, minute);
    for (at, (found, before)) in found.iter().zip(before).enumerate() {
        for (time, reads) in before {
            let told = found.get(time);
            let told = told.unwrap_or_else(|| panic!("{what}: chart {at} lacks {time}"));
            // The window of the minute that was cut may have it or not.
            let is_under_way = at % 3 > 0 && *time + 360 > minute;
            assert!(
                told == reads || is_under_way,
                "{what}: chart {at} at {time}"
            );
        }
    }
    memory
}

/// Goes on with what a power cut left, and checks that one more opening finds it.
fn go_on(memory: &Memory, minute: u32, what: &str) {
    let mut book = opened(memory);
    for later in minute + 1..minute + 3 {
        book.record(later, &samples(later)).expect("recorded");
    }
    let again = opened_if_whole(memory).unwrap_or_else(|| panic!("{what}: damaged later"));
    let last = chart(&again, 0, Span::SixHours, minute + 2);
    let expected = f64::from((minute + 2) % 900);
    assert_eq!(last[&(minute + 2)], expected, "{what}");
}

#[test]
fn a_power_cut_takes_at_most_the_minute_that_was_being_written() {
    let (mut book, memory) = book();
    let mut sizes = std::collections::BTreeSet::new();
    for minute in BEGIN..BEGIN + 20 {
        let before = charts(&book, minute);
        let start = memory.image();
        memory.events.borrow_mut().clear();
        book.record(minute, &samples(minute)).expect("recorded");
        let events = memory.events.borrow().clone();
        sizes.insert(events.len());
        // All other minutes are like the first of these. The others join an object, and end the
        // windows of both coarser rings.
        if ![1, 12, 15].contains(&(minute - BEGIN)) {
            continue;
        }
        let mut durable = start;
        let mut pending: Vec<Event> = Vec::new();
        for (number, event) in events.iter().enumerate() {
            match event {
                Event::Sync => {
                    pending.iter().for_each(|of| apply(&mut durable, of));
                    pending.clear();
                }
                // The length of a file is part of the file system's journal.
                Event::Lengthen(_) => apply(&mut durable, event),
                Event::Write(at, bytes) => {
                    let what =
                        |cut: usize| format!("minute {minute}, request {number}, byte {cut}");
                    for cut in 0..=bytes.len() {
                        let torn = Event::Write(*at, bytes[..cut].to_vec());
                        // The writes before may be on the disk or not.
                        let mut image = durable.clone();
                        apply(&mut image, &torn);
                        let left = check(image, minute, &before, &what(cut));
                        if cut % 16 == 0 {
                            go_on(&left, minute, &what(cut));
                        }
                        if !pending.is_empty() && cut % 16 == 0 {
                            let mut image = durable.clone();
                            pending.iter().for_each(|of| apply(&mut image, of));
                            apply(&mut image, &torn);
                            let left = check(image, minute, &before, &what(cut));
                            go_on(&left, minute, &what(cut));
                        }
                    }
                    pending.push(event.clone());
                }
            }
        }
        assert!(pending.is_empty(), "each minute ends with a sync");
    }
    assert!(sizes.len() > 2, "minutes of all kinds: {sizes:?}");
}

#[test]
fn an_ordinary_minute_is_one_write_for_eight_objects_and_one_sync() {
    let (mut book, memory) = book();
    let all = |minute: u32| {
        (0..8)
            .map(|of| sample(of, f64::from(minute)))
            .collect::<Vec<_>>()
    };
    book.record(1001, &all(1)).expect("recorded");
    memory.events.borrow_mut().clear();
    book.record(1002, &all(2)).expect("recorded");
    let events = memory.events.borrow();
    let told = matches!(&events[..], [Event::Write(_, bytes), Event::Sync] if bytes.len() == 208);
    assert!(told, "{events:?}");
}

#[test]
fn a_summed_up_row_that_was_lost_is_made_again() {
    let (mut book, memory) = book();
    for minute in 1000..1010 {
        book.record(minute, &[sample(0, 20.0)]).expect("recorded");
    }
    memory.events.borrow_mut().clear();
    book.record(1010, &[sample(0, 40.0)]).expect("recorded");
    let events = memory.events.borrow().clone();
    let [Event::Write(at, summed_up), Event::Write(..), Event::Sync] = &events[..] else {
        panic!("{events:?}");
    };
    // The disk wrote the later of the two, and lost the earlier.
    apply(
        &mut memory.bytes.borrow_mut(),
        &Event::Write(*at, vec![0; summed_up.len()]),
    );
    let book = opened(&memory);
    let told = chart(&book, 0, Span::FourteenDays, 1010);
    assert_eq!(told, BTreeMap::from([(1000, 20.0), (1010, 40.0)]));
    let mut again = vec![0; summed_up.len()];
    memory.read(*at, &mut again).expect("read");
    assert_eq!(again, *summed_up);
}

#[test]
fn a_full_disk_costs_minutes_and_nothing_else() {
    let (mut book, memory) = book();
    for minute in 1000..1010 {
        book.record(minute, &[sample(0, 20.0)]).expect("recorded");
    }
    let before = chart(&book, 0, Span::SixHours, 1030);
    // The first of these minutes ends a window, and brings another object.
    let mut failed = 0;
    for patience in 0..7 {
        memory.patience.set(Some(patience));
        let minute = 1010 + patience as u32;
        let told = book.record(minute, &[sample(0, 30.0), sample(1, 30.0)]);
        failed += usize::from(told.is_err());
        memory.patience.set(None);
        let found = opened(&Memory::of(memory.image()));
        for (at, reads) in &before {
            let told = chart(&found, 0, Span::SixHours, 1030);
            assert_eq!(told[at], *reads, "{patience}");
        }
    }
    assert!((3..7).contains(&failed), "{failed}");
    book.record(1020, &[sample(0, 30.0), sample(1, 30.0)])
        .expect("recorded");
    let book = opened(&memory);
    assert_eq!(chart(&book, 1, Span::SixHours, 1030)[&1020], 30.0);
    assert_eq!(chart(&book, 0, Span::FourteenDays, 1030)[&1000], 20.0);
}

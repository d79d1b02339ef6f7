//! Tests of the history: the entries that are kept, those that are refused, and that replay has the
//! same ones.

use super::*;
use crate::catalog::ErrorKind;
use crate::catalog::history::{History, HistoryEntry, MAX_BYTES, MAX_TEXT};

fn entry(text: &str) -> HistoryEntry {
    HistoryEntry {
        time_s: 1_700_000_000,
        text: text.to_owned(),
        user: "root".to_owned(),
        host: "san1".to_owned(),
        is_internal: false,
    }
}

fn note(world: &mut World, entry: HistoryEntry) {
    world
        .run(|catalog, _| catalog.plan_note(entry))
        .expect("it may be kept");
}

fn texts_of(history: &History) -> Vec<&str> {
    history.entries().map(|of| of.text.as_str()).collect()
}

#[test]
fn it_is_readable_by_anyone_and_absent_where_there_is_none() {
    let mut world = World::new();
    let text = |catalog: &Catalog| String::from_utf8(catalog.encode()).expect("JSON");
    assert!(!text(&world.catalog).contains("history"));
    note(&mut world, entry("pool create tank a"));
    let internal = HistoryEntry {
        time_s: 5,
        text: "scrub".to_owned(),
        is_internal: true,
        ..HistoryEntry::default()
    };
    note(&mut world, internal);
    let expected = concat!(
        r#""history":[{"time_s":1700000000,"text":"pool create tank a","user":"root","host":"san1"},"#,
        r#"{"time_s":5,"text":"scrub","is_internal":true}]}"#
    );
    let stored = text(&world.catalog);
    assert!(stored.ends_with(expected), "{stored}");
    let operation = String::from_utf8(world.done[0].encode()).expect("JSON");
    assert_eq!(
        operation,
        r#"{"note":{"time_s":1700000000,"text":"pool create tank a","user":"root","host":"san1"}}"#
    );
    let again = Catalog::decode(stored.as_bytes()).expect("a catalogue");
    assert_eq!(again.history(), world.catalog.history());
}

#[test]
fn the_oldest_goes_but_never_the_first() {
    let mut world = World::new();
    note(&mut world, entry("pool create tank a"));
    let long = "x".repeat(900);
    for number in 0..400 {
        note(&mut world, entry(&format!("{number} {long}")));
    }
    let texts = texts_of(world.catalog.history());
    assert_eq!(texts[0], "pool create tank a");
    assert!(texts.len() > 100 && texts.len() < 140, "{}", texts.len());
    assert!(texts[1].starts_with(&format!("{} ", 401 - texts.len())));
    assert!(texts.last().expect("some").starts_with("399 "));
    // Replay gives the same history.
    let mut again = World::new().catalog;
    for operation in &world.done {
        let operation = Operation::decode(&operation.encode()).expect("an operation");
        again.apply(&operation).expect("fits");
    }
    assert_eq!(again.history(), world.catalog.history());
    let stored = Catalog::decode(&world.catalog.encode()).expect("a catalogue");
    assert_eq!(stored.history(), world.catalog.history());
}

#[test]
fn what_is_noted_is_made_to_fit_and_what_lies_on_a_disk_must() {
    let mut world = World::new();
    let long = "ä".repeat(MAX_TEXT);
    note(&mut world, entry(&long));
    note(&mut world, entry("a\u{1b}[2Jb\nc"));
    let texts = texts_of(world.catalog.history());
    assert!(texts[0].len() <= MAX_TEXT && texts[0].len() > MAX_TEXT - 8);
    assert!(texts[0].ends_with('…'));
    assert_eq!(texts[1], "a [2Jb c");
    let refused = world.run(|catalog, _| catalog.plan_note(entry("")));
    assert_eq!(refused.expect_err("nothing").kind, ErrorKind::InvalidValue);
    for bad in [
        entry(""),
        entry("a\nb"),
        entry(&"x".repeat(MAX_TEXT + 1)),
        HistoryEntry {
            user: "x".repeat(256),
            ..entry("a")
        },
    ] {
        let operation = Operation::Note(bad);
        assert!(world.catalog.apply(&operation).is_err(), "{operation:?}");
    }
    let good = String::from_utf8(world.catalog.encode()).expect("JSON");
    for (from, to) in [
        ("[2Jb c", "\\n"),
        ("[2Jb c", &"x".repeat(MAX_TEXT)),
        (r#""user":"root""#, r#""by":"root""#),
    ] {
        assert!(good.contains(from), "{good}");
        let bad = good.replace(from, to);
        assert!(Catalog::decode(bad.as_bytes()).is_err(), "{from}");
    }
    let many: Vec<String> = (0..MAX_BYTES / 1000)
        .map(|_| format!(r#"{{"time_s":1,"text":"{}"}}"#, "x".repeat(1000)))
        .collect();
    let at = good.find(r#""history":["#).expect("there") + r#""history":["#.len();
    let bad = format!("{}{}]}}", &good[..at], many.join(","));
    assert!(Catalog::decode(bad.as_bytes()).is_err());
}

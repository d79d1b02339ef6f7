//! Tests with one file of results, saved again by spreadsheets of several languages: the tests of
//! the file stay equal, or a refusal names a line.

use proptest::prelude::*;

use super::*;
use crate::text::decode;

/// Two tests of version 2006.07.27, with rows of managers, workers and disks.
const PLAIN: &str = include_str!("two_tests.csv");

/// Returns the file in rows and cells.
fn rows() -> Vec<Vec<String>> {
    let row = |line: &str| line.split(',').map(str::to_owned).collect();
    PLAIN.lines().map(row).collect()
}

/// Saves as a spreadsheet does, with a separator of cells, the marks of numbers, and the choice of
/// cells in quotes.
fn saved(separator: char, mark: char, grouping: &str, quoted: impl Fn(&str) -> bool) -> String {
    let rows = rows();
    let width = rows.iter().map(Vec::len).max().unwrap();
    let cell = |cell: &String| {
        let is_number = cell.parse::<f64>().is_ok() && !cell.starts_with('-');
        let text = match (is_number, cell.split_once('.')) {
            (true, Some((whole, fraction))) => {
                let fraction = fraction.trim_end_matches('0');
                let whole = grouped(whole, grouping);
                match fraction {
                    "" => whole,
                    fraction => format!("{whole}{mark}{fraction}"),
                }
            }
            (true, None) => grouped(cell, grouping),
            (false, _) => cell.clone(),
        };
        match text.contains([separator, '"']) || quoted(&text) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text,
        }
    };
    let line = |row: &Vec<String>| {
        let mut cells: Vec<String> = row.iter().map(cell).collect();
        cells.resize(width, String::new());
        cells.join(&separator.to_string())
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\r\n")
}

fn grouped(digits: &str, grouping: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push_str(grouping);
        }
        text.push(digit);
    }
    text
}

fn tests(text: &str) -> Vec<Test> {
    read(text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .tests
}

#[test]
fn both_tests_are_read() {
    let tests = tests(PLAIN);
    assert_eq!(tests.len(), 2);
    let first = &tests[0];
    assert_eq!(first.name, "RealLife-60%Rand-65%Read");
    assert_eq!(first.specifications.len(), 1);
    assert_eq!(
        first.specifications[0].lines,
        [AccessLine::all(8192, 65, 60)]
    );
    assert_eq!((first.iops, first.mean_ms), (1234.5, 48.25));
    assert_eq!(
        (first.read.accesses, first.write.accesses),
        (96_291.0, 51_849.0)
    );
    assert_eq!(
        (first.workers, first.disks, first.queue_depth),
        (1, 1, Some(64))
    );
}

#[test]
fn spreadsheets_of_all_languages_save_the_same() {
    let expected = tests(PLAIN);
    let never = |_: &str| false;
    for (separator, mark, grouping) in [
        (',', '.', ""),
        (';', ',', ""),
        (';', '.', ""),
        ('\t', '.', ""),
        ('\t', ',', ""),
        (',', ',', ""),
        (',', '.', ","),
        (';', ',', "."),
        (';', ',', "\u{a0}"),
        (';', ',', "\u{202f}"),
        (';', '.', "'"),
    ] {
        let text = saved(separator, mark, grouping, never);
        assert_eq!(
            tests(&text),
            expected,
            "{separator:?} {mark:?} {grouping:?}"
        );
        let quoted = saved(separator, mark, grouping, |cell| !cell.is_empty());
        assert_eq!(
            tests(&quoted),
            expected,
            "quoted: {separator:?} {mark:?} {grouping:?}"
        );
    }
    let whole: Vec<String> = PLAIN.lines().map(|line| format!("\"{line}\"")).collect();
    assert_eq!(tests(&whole.join("\n")), expected, "each line in one cell");
    let unicode: Vec<u8> = saved('\t', ',', "", never)
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(
        tests(&decode(&[&[0xff, 0xfe], &unicode[..]].concat())),
        expected
    );
    assert_eq!(
        tests(&PLAIN.replace("\r\n", "\n").replace('\n', "\r\n")),
        expected
    );
}

#[test]
fn what_a_spreadsheet_has_spoilt_is_refused_with_its_line() {
    let row = 1 + PLAIN
        .lines()
        .position(|line| line.starts_with("ALL"))
        .unwrap();
    let line = PLAIN.lines().nth(row - 1).unwrap();
    let spoilt = |from: &str, to: &str| {
        assert!(line.contains(from), "{from}");
        let text = PLAIN.replacen(line, &line.replacen(from, to, 1), 1);
        let error = read(&text).expect_err(to);
        assert_eq!(error.line, row, "{to}: {error}");
        error.reason
    };
    assert!(spoilt("48.250000", "12. Mai").contains("Average Response Time"));
    assert!(spoilt("1234.500000", "1234,5").contains("values for"));
    assert!(spoilt("802.425000", "802425000").contains("Read IOps"));
    assert!(spoilt("96291", "#####").contains("Read I/Os"));
    assert!(spoilt("96291", "").contains("is empty"));
    assert!(spoilt("96291", "-96291").contains("not a number"));
    let semicolons = saved(';', ',', "", |_| false);
    let mixed = semicolons.replacen("48,25", "48.25", 1);
    assert!(
        read(&mixed)
            .expect_err("two marks")
            .reason
            .contains("different decimal marks")
    );
}

#[test]
fn every_value_of_the_row_is_a_number_or_refused() {
    let row = PLAIN
        .lines()
        .position(|line| line.starts_with("ALL"))
        .unwrap();
    let header = PLAIN.lines().nth(row - 1).unwrap();
    for (column, name) in header.split(',').enumerate() {
        if !NUMBERS.contains(&plain(name).as_str()) {
            continue;
        }
        for garbage in ["banana", "1.2.3", "-7", "12. Mai", "1e", "0x10", "∞"] {
            let mut rows = rows();
            rows[row][column] = garbage.to_owned();
            let lines: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
            let error = read(&lines.join("\n")).expect_err(garbage);
            assert_eq!(error.line, row + 1, "{name} {garbage}: {error}");
            assert!(error.reason.contains(garbage), "{name} {garbage}: {error}");
        }
    }
}

#[test]
fn the_lines_of_a_specification_are_checked_with_their_line() {
    let at = 1 + PLAIN
        .lines()
        .position(|line| line.starts_with("8192,"))
        .unwrap();
    for wrong in [
        "8192,101,65,60,0,1,0,0,",
        "8192,100,65",
        "0,100,65,60,0,1,0,0",
        "8192,100,65,60,0,1,0,0,9",
        "8.5,100,65,60,0,1,0,0",
    ] {
        let text = PLAIN.replacen("8192,100,65,60,0,1,0,0,", wrong, 1);
        assert_eq!(read(&text).expect_err(wrong).line, at, "{wrong}");
    }
}

#[test]
fn what_is_less_than_iometer_wrote_is_noted() {
    let rounded = PLAIN
        .replacen("788815872", "7.88816E+08", 1)
        .replacen(",64,", ",-2,", 1);
    let results = read(&rounded).expect("results");
    assert_eq!(results.tests[0].read.bytes, 788_816_000.0);
    assert_eq!(results.tests[0].queue_depth, None);
    let notes: Vec<String> = results.notes.iter().map(ToString::to_string).collect();
    assert!(notes[0].contains("different queue depths"), "{notes:?}");
    assert!(
        notes[1].contains("rounded column \"Bytes Read\""),
        "{notes:?}"
    );
}

proptest! {
    #[test]
    fn changed_files_never_panic_and_name_a_line_that_they_have(at in 0usize..9000, new in "[\"',;\\t.0-9a\u{a0}]{0,3}", euro in any::<bool>()) {
        let text = match euro { true => saved(';', ',', ".", |_| false), false => PLAIN.to_owned() };
        let at = (0..=at % text.len()).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let text = format!("{}{new}{}", &text[..at], &text[at..].chars().skip(1).collect::<String>());
        if let Err(ReadError { line, reason }) = read(&text) {
            prop_assert!((1..=text.lines().count()).contains(&line), "{line}: {reason}");
        }
    }
}

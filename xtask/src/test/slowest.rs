//! The tests that took longest, so that a suite that becomes slow shows where.
//!
//! nextest writes the time of each test to a file of JUnit's form, as `.config/nextest.toml` asks.

use std::path::PathBuf;

use crate::target_folder;

/// Number of tests that are listed.
const COUNT: usize = 15;

/// Returns the file with the times of all tests.
fn times() -> PathBuf {
    target_folder().join("nextest/default/junit.xml")
}

/// Removes the times of an earlier run.
pub(super) fn forget() {
    let _ = std::fs::remove_file(times());
}

/// Prints the tests that took longest. Without nextest there is nothing to print.
pub(super) fn print() {
    let Ok(text) = std::fs::read_to_string(times()) else {
        return;
    };
    let mut tests: Vec<(f64, String)> = text.split("<testcase ").skip(1).filter_map(test).collect();
    tests.sort_by(|one, other| other.0.total_cmp(&one.0));
    let all: f64 = tests.iter().map(|(seconds, _)| seconds).sum();
    println!("\nOf {all:.0} s in {} tests, the longest:", tests.len());
    for (seconds, name) in tests.iter().take(COUNT) {
        println!("{seconds:>8.1} s  {name}");
    }
}

/// Returns the seconds and the name of a test, from what follows `<testcase `.
fn test(text: &str) -> Option<(f64, String)> {
    let (attributes, _) = text.split_once('>')?;
    let value = |name: &str| {
        let (_, rest) = attributes.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0)
    };
    // `name` is also the end of `classname`, which follows it.
    let (name, of) = (value("name")?, value("classname")?);
    Some((value(" time")?.parse().ok()?, format!("{of} {name}")))
}

#[cfg(test)]
mod tests {
    use super::test;

    #[test]
    fn a_test_has_its_time_and_its_name() {
        let text = "name=\"a::b\" classname=\"store::format\" timestamp=\"2026-11-29T15:00:00\" \
                    time=\"1.250\">\n</testcase>";
        assert_eq!(test(text), Some((1.25, "store::format a::b".to_owned())));
        assert_eq!(test("name=\"a\">"), None);
    }
}

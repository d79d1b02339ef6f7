//! Tests of the rules: the files that are shipped agree with the code.

use std::collections::BTreeSet;
use std::path::Path;

use super::{RECORDINGS, RULES, file};
use crate::metrics::family::Kind;
use crate::metrics::tests::all_families;

const RULES_FILE: &str = "prometheus/sandstone.rules.yml";
const TESTS_FILE: &str = "prometheus/sandstone.rules.test.yml";
/// Tests of rules that look at days.
const DAYS_FILE: &str = "prometheus/sandstone.rules.days.test.yml";
const DASHBOARD: &str = "grafana/sandstone.json";
/// Variable with which the test writes the file of rules instead of comparing it.
const WRITE: &str = "SANDSTONE_WRITE_RULES";

fn packaged(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging")
        .join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(packaged(name)).expect(name)
}

#[test]
fn the_file_of_rules_is_that_of_the_table() {
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(packaged(RULES_FILE), file()).unwrap();
    }
    assert!(
        read(RULES_FILE) == file(),
        "packaging/{RULES_FILE} differs from the table: {WRITE}=1 cargo test -p control rules writes it"
    );
}

#[test]
fn conditions_have_names_of_their_own_and_whole_words() {
    let names: BTreeSet<_> = RULES.iter().map(|rule| rule.condition).collect();
    assert_eq!(names.len(), RULES.len());
    for rule in RULES {
        let is_kebab =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        assert!(rule.condition.chars().all(is_kebab), "{}", rule.condition);
        assert!(!rule.finding.ends_with('.'), "{}", rule.condition);
        assert!(rule.next.ends_with('.'), "{}", rule.condition);
    }
}

/// Each alert fires in a test of promtool, and is silent in another.
#[test]
fn each_alert_has_a_test_that_it_fires_and_one_that_it_does_not() {
    let tests = [read(TESTS_FILE), read(DAYS_FILE)].concat();
    for rule in RULES {
        let alert = format!("alertname: {}\n", rule.alert());
        let parts: Vec<&str> = tests.split(&alert).skip(1).collect();
        let is_silent = |part: &&str| part.trim_start().starts_with("exp_alerts: []");
        assert!(
            parts.iter().any(is_silent),
            "{} is never silent",
            rule.alert()
        );
        assert!(!parts.iter().all(is_silent), "{} never fires", rule.alert());
    }
}

/// Returns the names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    text.split(|letter| !is_part(letter))
        .filter(|word| word.starts_with("sandstone_") || word.starts_with("sandstone:"))
        .collect()
}

#[test]
fn rules_their_tests_and_the_dashboard_name_metrics_that_exist() {
    let mut known: BTreeSet<String> = RECORDINGS.iter().map(|of| of.name.to_owned()).collect();
    for family in all_families() {
        known.insert(family.name.to_owned());
        if family.kind == Kind::Histogram {
            let parts = ["_bucket", "_sum", "_count"];
            known.extend(parts.map(|part| format!("{}{part}", family.name)));
        }
    }
    for file in [RULES_FILE, TESTS_FILE, DASHBOARD] {
        let text = read(file);
        let used = names(&text);
        assert!(used.len() > 20, "{file}: {used:?}");
        let unknown: Vec<_> = used.iter().filter(|name| !known.contains(**name)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

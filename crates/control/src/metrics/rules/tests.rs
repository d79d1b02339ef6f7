//! Tests of the rules: the files that are shipped agree with the code.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Alert, RECORDINGS, file};
use crate::metrics::family::Kind;
use crate::metrics::tests::all_families;
use alert::CONDITIONS;

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
fn each_condition_has_one_alert() {
    let alerts = Alert::all();
    let names: BTreeSet<_> = alerts.iter().map(Alert::name).collect();
    assert_eq!(names.len(), alerts.len());
    for condition in CONDITIONS {
        let of = |alert: &&Alert| std::ptr::eq(alert.condition, *condition);
        assert_eq!(alerts.iter().filter(of).count(), 1, "{}", condition.id);
    }
    for alert in alerts {
        assert!(!alert.finding.ends_with('.'), "{}", alert.condition.id);
    }
}

/// Each alert fires in a test of promtool, and is silent in another.
#[test]
fn each_alert_has_a_test_that_it_fires_and_one_that_it_does_not() {
    let tests = [read(TESTS_FILE), read(DAYS_FILE)].concat();
    for alert in Alert::all() {
        let name = alert.name();
        let line = format!("alertname: {name}\n");
        let parts: Vec<&str> = tests.split(&line).skip(1).collect();
        let is_silent = |part: &&str| part.trim_start().starts_with("exp_alerts: []");
        assert!(parts.iter().any(is_silent), "{name} is never silent");
        assert!(!parts.iter().all(is_silent), "{name} never fires");
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

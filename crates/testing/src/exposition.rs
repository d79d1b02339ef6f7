//! A strict reader of metrics, in Prometheus' text format and in OpenMetrics.
//!
//! It refuses whatever the formats forbid, and more: names without a help text, a family that
//! appears twice, series that appear twice, histograms that do not add up.

use std::collections::{BTreeMap, BTreeSet};

/// Labels of a series.
pub type Labels = BTreeMap<String, String>;

/// A family of metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    /// Kind of the family: counter, gauge, histogram, info.
    pub kind: String,
    /// Help text.
    pub help: String,
    /// Unit. The text format has none.
    pub unit: Option<String>,
    /// Samples in their order: the whole name, the labels, and the value.
    pub samples: Vec<(String, Labels, f64)>,
}

/// Families by the names under which they are announced.
pub type Families = BTreeMap<String, Family>;

/// Format to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// Reads metrics.
///
/// # Panics
/// The text breaks a rule of the format.
pub fn parse(text: &str, format: Format) -> Families {
    let body = match format {
        Format::Text => text,
        Format::OpenMetrics => text.strip_suffix("# EOF\n").expect("no # EOF at the end"),
    };
    assert!(body.is_empty() || body.ends_with('\n'), "no last newline");
    let mut families = Families::new();
    let mut seen = BTreeSet::new();
    let mut current: Option<(String, Family)> = None;
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            close(&mut families, current.take());
            let family = Family {
                help: help.to_owned(),
                ..Family::default()
            };
            current = Some((name.to_owned(), family));
            continue;
        }
        let (name, family) = current.as_mut().expect(line);
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(
                family.kind.is_empty() && family.samples.is_empty(),
                "{line}"
            );
            family.kind = rest
                .strip_prefix(&format!("{name} "))
                .expect(line)
                .to_owned();
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            assert_eq!(format, Format::OpenMetrics, "{line}");
            assert!(family.unit.is_none() && family.samples.is_empty(), "{line}");
            let unit = rest.strip_prefix(&format!("{name} ")).expect(line);
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
            family.unit = Some(unit.to_owned());
        } else {
            let sample = sample(line);
            assert!(
                seen.insert((sample.0.clone(), sample.1.clone())),
                "twice: {line}"
            );
            family.samples.push(sample);
        }
    }
    close(&mut families, current);
    for (name, family) in &families {
        check(name, family, format);
    }
    families
}

fn close(families: &mut Families, family: Option<(String, Family)>) {
    if let Some((name, family)) = family {
        let before = families.insert(name.clone(), family);
        assert!(before.is_none(), "{name} is there twice");
    }
}

/// Checks a family by itself.
fn check(name: &str, family: &Family, format: Format) {
    assert!(is_name(name), "{name:?} is no name");
    assert!(
        family.help.ends_with('.'),
        "the help of {name} is no sentence"
    );
    let suffix = match (family.kind.as_str(), format) {
        ("counter", Format::Text) => {
            assert!(name.ends_with("_total"), "{name}");
            ""
        }
        ("counter", Format::OpenMetrics) => "_total",
        ("info", Format::OpenMetrics) => "_info",
        ("gauge", _) => {
            assert!(!name.ends_with("_total"), "{name}");
            ""
        }
        ("histogram", _) => return check_histogram(name, family),
        (kind, _) => panic!("{name} has the kind {kind:?}"),
    };
    let whole = format!("{name}{suffix}");
    for (sample, _, value) in &family.samples {
        assert_eq!(*sample, whole);
        assert!(value.is_finite(), "{sample} is {value}");
        assert!(
            family.kind != "counter" || *value >= 0.0,
            "{sample} is {value}"
        );
        assert!(
            family.kind != "info" || *value == 1.0,
            "{sample} is {value}"
        );
    }
}

/// Checks that the buckets of each series grow, and agree with its count.
fn check_histogram(name: &str, family: &Family) {
    let mut series: BTreeMap<Labels, Histogram> = BTreeMap::new();
    for (sample, labels, value) in &family.samples {
        let mut labels = labels.clone();
        let le = labels.remove("le");
        let histogram = series.entry(labels).or_default();
        match (sample.strip_prefix(name), le) {
            (Some("_bucket"), Some(le)) => {
                let bound = le.parse().expect("a bound");
                histogram.buckets.push((bound, *value));
            }
            (Some("_sum"), None) => histogram.sum = Some(*value),
            (Some("_count"), None) => histogram.count = Some(*value),
            _ => panic!("{sample} does not belong to {name}"),
        }
    }
    for (labels, histogram) in series {
        let (sum, count) = (
            histogram.sum.expect("a sum"),
            histogram.count.expect("a count"),
        );
        let last = histogram.buckets.last().expect("buckets");
        assert_eq!(*last, (f64::INFINITY, count), "{name}{labels:?}");
        assert!(sum >= 0.0, "{name}{labels:?}");
        let grows = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        assert!(histogram.buckets.windows(2).all(grows), "{name}{labels:?}");
    }
}

/// Series of a histogram.
#[derive(Debug, Default)]
struct Histogram {
    /// Upper bounds, and the numbers up to them.
    buckets: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// Reads the line of a sample.
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect(line);
    let (name, rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest, line),
        None => (Labels::new(), rest),
    };
    let value = rest.strip_prefix(' ').expect(line);
    let value = value.parse().unwrap_or_else(|_| panic!("no value: {line}"));
    (name.to_owned(), labels, value)
}

/// Reads labels up to the closing brace, and returns what follows it.
fn labels<'a>(mut rest: &'a str, line: &str) -> (Labels, &'a str) {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").expect(line);
        assert!(is_name(name) && !name.contains(':'), "{line}");
        let (value, after) = value(after, line);
        assert!(labels.insert(name.to_owned(), value).is_none(), "{line}");
        match after.split_at(1) {
            (",", after) => rest = after,
            ("}", after) => return (labels, after),
            _ => panic!("{line}"),
        }
    }
}

/// Reads a value up to its closing quotation mark, and returns what follows it.
fn value<'a>(text: &'a str, line: &str) -> (String, &'a str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match letters.next() {
                Some((_, 'n')) => '\n',
                Some((_, letter @ ('\\' | '"'))) => letter,
                _ => panic!("a strange escape: {line}"),
            }),
            letter => value.push(letter),
        }
    }
    panic!("a value without an end: {line}")
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || matches!(letter, '_' | ':');
    letters.next().is_some_and(is_letter)
        && letters.all(|letter| is_letter(letter) || letter.is_ascii_digit())
}

/// Returns the value of the one series that has this whole name and these labels, or `None` if
/// there is none.
///
/// # Panics
/// Several series have them.
pub fn value_of(families: &Families, name: &str, wanted: &[(&str, &str)]) -> Option<f64> {
    let samples = families.values().flat_map(|family| &family.samples);
    let mut found = samples.filter(|(sample, labels, _)| {
        let has = |(label, value): &(&str, &str)| labels.get(*label).is_some_and(|of| of == value);
        sample == name && wanted.iter().all(has)
    });
    let value = found.next().map(|(_, _, value)| *value);
    assert!(
        found.next().is_none(),
        "several series {name} with {wanted:?}"
    );
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# HELP a_seconds Times.\n# TYPE a_seconds histogram\n\
        a_seconds_bucket{x=\"1\",le=\"0.1\"} 1\na_seconds_bucket{x=\"1\",le=\"+Inf\"} 3\n\
        a_seconds_sum{x=\"1\"} 2.5\na_seconds_count{x=\"1\"} 3\n\
        # HELP b_total Things.\n# TYPE b_total counter\nb_total{n=\"a\\\"b\\\\c\\nd\"} 5\n";

    #[test]
    fn good_text_is_read() {
        let families = parse(GOOD, Format::Text);
        assert_eq!(
            value_of(&families, "b_total", &[("n", "a\"b\\c\nd")]),
            Some(5.0)
        );
        assert_eq!(value_of(&families, "b_total", &[("n", "x")]), None);
        assert_eq!(families["a_seconds"].kind, "histogram");
    }

    #[test]
    fn broken_text_is_refused() {
        for (from, to) in [
            ("+Inf\"} 3", "+Inf\"} 4"),
            ("0.1\"} 1", "0.1\"} 9"),
            ("b_total{", "c_total{"),
            ("\\\"", "\""),
            ("\\n", "\\t"),
            ("} 5\n", "} five\n"),
            ("} 5\n", "} 5"),
            ("counter", "counters"),
            ("# HELP b_total Things.\n", ""),
            ("Things.", "Things"),
            ("a_seconds_count{x=\"1\"} 3\n", ""),
            ("} 5\n", "} 5\nb_total{n=\"a\\\"b\\\\c\\nd\"} 6\n"),
        ] {
            let broken = GOOD.replacen(from, to, 1);
            assert_ne!(broken, GOOD, "{from}");
            let read = std::panic::catch_unwind(|| parse(&broken, Format::Text));
            assert!(read.is_err(), "{from} to {to} was accepted");
        }
    }
}

//! Tests of the metrics: the rules of both formats, names that others chose, counters that never
//! go backwards, and the list of names in the document.

mod dashboard;
mod document;
mod everything;

use std::sync::Arc;
use std::time::{Duration, Instant};

use testing::exposition::{Families, Format as Expected, parse, value_of};

use self::everything::{HOSTILE, everything, large};
use super::family::{Exposition, Family, Kind};
use super::{Format, Metrics, Reading};
use model::figures::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;
use std::sync::Mutex;

/// Returns all families of the code, in their order.
pub(in crate::metrics) fn all_families() -> Vec<&'static Family> {
    #[derive(Debug)]
    struct Recorder(Arc<Mutex<Vec<&'static Family>>>);
    impl Collector for Recorder {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
            let mut out = Exposition::new(encoder);
            nothing().tell(&mut out)?;
            *self.0.lock().unwrap() = out.begun().to_vec();
            Ok(())
        }
    }
    let families = Arc::default();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Recorder(Arc::clone(&families))));
    prometheus_text::encode(&mut String::new(), &registry).unwrap();
    let families = families.lock().unwrap();
    families.clone()
}

fn nothing() -> Metrics {
    Metrics::new(None, Arc::default(), Instant::now())
}

fn metrics(reading: Reading, snapshot: Snapshot) -> Metrics {
    Metrics::new(
        Some((Instant::now(), Arc::new(reading))),
        Arc::new(snapshot),
        Instant::now(),
    )
}

fn text(metrics: Metrics) -> Families {
    parse(&metrics.encode(Format::Text), Expected::Text)
}

#[test]
fn both_formats_keep_their_rules_and_have_the_same_series() {
    let of = |format| {
        let (reading, snapshot) = everything();
        metrics(reading, snapshot).encode(format)
    };
    let text = parse(&of(Format::Text), Expected::Text);
    let open = of(Format::OpenMetrics);
    assert!(open.ends_with("# EOF\n"));
    let open = parse(&open, Expected::OpenMetrics);
    let series = |families: &Families| {
        let samples = families.values().flat_map(|family| &family.samples);
        let mut series: Vec<String> = samples
            // The formats write bounds differently: 1 and 1.0.
            .filter(|(name, ..)| !name.ends_with("_bucket"))
            .filter(|(name, ..)| name != "sandstone_daemon_readings_age_seconds")
            .map(|sample| format!("{sample:?}"))
            .collect();
        series.sort();
        series
    };
    assert_eq!(series(&text), series(&open));
    assert_eq!(text.len(), open.len());
    for (name, family) in &open {
        let named = ["seconds", "bytes", "ratio"].into_iter();
        let unit = named
            .clone()
            .find(|unit| name.ends_with(&format!("_{unit}")));
        assert_eq!(family.unit.as_deref(), unit, "{name}");
    }
    for (name, family) in &text {
        assert!(!family.samples.is_empty(), "{name} has no sample in a test");
    }
}

#[test]
fn names_of_families_say_their_kind_and_object() {
    let objects = [
        "build",
        "daemon",
        "portal",
        "tcp",
        "lu",
        "session",
        "host",
        "port_group",
        "pool",
        "alert",
        "initiator",
    ];
    for family in all_families() {
        let name = family.name;
        let rest = name.strip_prefix("sandstone_").expect(name);
        let is_of = |object: &&str| {
            rest.strip_prefix(*object)
                .is_some_and(|of| of.starts_with('_'))
        };
        assert!(objects.iter().any(is_of), "{name}");
        assert_eq!(
            name.ends_with("_total"),
            family.kind == Kind::Counter,
            "{name}"
        );
        assert_eq!(name.ends_with("_info"), family.kind == Kind::Info, "{name}");
        assert!(family.help.ends_with('.'), "{name}");
        for label in family.labels {
            assert!(
                !matches!(*label, "le" | "quantile" | "job" | "instance"),
                "{name}"
            );
        }
    }
}

/// No sample may claim that all is well while nothing was read.
#[test]
fn without_a_reading_the_age_is_told_and_no_state() {
    let families = text(nothing());
    let told: Vec<_> = families
        .iter()
        .filter(|(_, family)| !family.samples.is_empty())
        .map(|(name, _)| name.as_str())
        .collect();
    let expected = [
        "sandstone_build_info",
        "sandstone_daemon_readings_age_seconds",
    ];
    assert_eq!(told, expected);
    let old = Instant::now().checked_sub(Duration::from_secs(50)).unwrap();
    let late = Metrics::new(None, Arc::default(), old);
    let age = value_of(&text(late), "sandstone_daemon_readings_age_seconds", &[]);
    assert!(age.unwrap() >= 50.0);
}

#[test]
fn names_that_others_chose_come_back_as_they_were() {
    let (reading, snapshot) = everything();
    let families = text(metrics(reading, snapshot));
    for (name, labels) in [
        ("sandstone_lu_size_bytes", vec![("lu", HOSTILE)]),
        (
            "sandstone_lu_commands_total",
            vec![("lu", HOSTILE), ("op", "read")],
        ),
        ("sandstone_pool_free_bytes", vec![("pool", HOSTILE)]),
        ("sandstone_host_sessions", vec![("host", HOSTILE)]),
        (
            "sandstone_session_info",
            vec![("initiator", HOSTILE), ("alias", HOSTILE)],
        ),
        (
            "sandstone_port_group_commands_total",
            vec![("target", HOSTILE), ("op", "write")],
        ),
        (
            "sandstone_pool_vdev_operations_total",
            vec![("vdev", HOSTILE), ("op", "read")],
        ),
        ("sandstone_initiator_device_info", vec![("vendor", HOSTILE)]),
        ("sandstone_initiator_path_info", vec![("target", HOSTILE)]),
    ] {
        assert!(
            value_of(&families, name, &labels).is_some(),
            "{name} {labels:?}"
        );
    }
}

#[test]
fn exactly_one_state_of_a_set_is_present() {
    let (reading, snapshot) = everything();
    let families = text(metrics(reading, snapshot));
    for family in all_families() {
        if family.labels.last() != Some(&"state") {
            continue;
        }
        let mut present = std::collections::BTreeMap::new();
        for (_, labels, value) in &families[family.name].samples {
            let mut object = labels.clone();
            object.remove("state");
            *present.entry(object).or_insert(0.0) += value;
        }
        assert!(
            present.values().all(|sum| *sum == 1.0),
            "{}: {present:?}",
            family.name
        );
    }
}

#[test]
fn figures_of_a_unit_are_those_of_the_snapshot() {
    let (reading, snapshot) = everything();
    let sums = snapshot.units[0].sums;
    let families = text(metrics(reading, snapshot));
    let of = |name: &str, more: &[(&str, &str)]| {
        let labels = [&[("lu", HOSTILE), ("op", "read")], more].concat();
        value_of(&families, name, &labels).expect(name)
    };
    let count = of("sandstone_lu_command_duration_seconds_count", &[]);
    assert_eq!(count, sums.reads.commands as f64);
    assert_eq!(of("sandstone_lu_commands_total", &[]), count);
    assert_eq!(of("sandstone_lu_bytes_total", &[]), sums.reads.bytes as f64);
    let stages = ["wire_in", "queue", "device", "reply"]
        .map(|stage| of("sandstone_lu_stage_seconds_total", &[("stage", stage)]));
    let sum: f64 = stages.iter().sum();
    let told = of("sandstone_lu_command_duration_seconds_sum", &[]);
    assert!((sum - told).abs() < 1e-9, "{stages:?} and {told}");
    // All reads of the fixture took 600 µs.
    let up_to = |bound| {
        of(
            "sandstone_lu_command_duration_seconds_bucket",
            &[("le", bound)],
        )
    };
    assert_eq!((up_to("0.0005"), up_to("0.001")), (0.0, count));
}

/// The number of series stands in the document, so that it stays a decision.
#[test]
fn a_large_machine_has_as_many_series_as_the_document_says() {
    let (reading, snapshot) = large(1000, 2000);
    let families = text(metrics(reading, snapshot));
    let series: usize = families.values().map(|family| family.samples.len()).sum();
    // A unit has 55, and a session has 13.
    assert_eq!(series, 354 + 1000 * 55 + 2000 * 13);
}

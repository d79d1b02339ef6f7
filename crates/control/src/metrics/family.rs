//! Families of metrics: their names, kinds, labels and help, and the writer of their samples.
//!
//! Names are written in full, as Prometheus shows them. The unit follows from the name, so that
//! both agree.

use std::fmt;

use model::figures::latency::Latencies;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabel,
    EncodeLabelSet, GaugeValueEncoder, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Kind of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value that only grows, until what it counts is opened anew.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Numbers of commands by upper bound of their time, and the sum of their times.
    Histogram,
    /// The value 1, with labels that describe an object.
    Info,
}

/// A family: all series of one name.
#[derive(Debug)]
pub(super) struct Family {
    /// Name of the family, with its unit and with the suffix of its kind.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Names of the labels, in the order of the values that [`Samples::put`] takes.
    pub(super) labels: &'static [&'static str],
    /// A sentence about the value.
    pub(super) help: &'static str,
}

/// Defines a counter.
pub(super) const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    family(Kind::Counter, name, labels, help)
}

/// Defines a gauge.
pub(super) const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    family(Kind::Gauge, name, labels, help)
}

/// Defines a histogram of times.
pub(super) const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    family(Kind::Histogram, name, labels, help)
}

/// Defines a family that describes objects by its labels.
pub(super) const fn info(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    family(Kind::Info, name, labels, help)
}

const fn family(
    kind: Kind,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family {
        name,
        kind,
        labels,
        help,
    }
}

impl Family {
    /// Returns the name without the suffix of its kind and without its unit, and the unit.
    fn parts(&self) -> (&'static str, Option<Unit>) {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        let name = self.name.strip_suffix(suffix).unwrap_or(self.name);
        let (short, unit) = match name.rsplit_once('_') {
            Some((short, "seconds")) => (short, Unit::Seconds),
            Some((short, "bytes")) => (short, Unit::Bytes),
            Some((short, "ratio")) => (short, Unit::Other("ratio".to_owned())),
            _ => return (name, None),
        };
        (short, Some(unit))
    }
}

/// Writer of families.
#[derive(Debug)]
pub(super) struct Exposition<'a> {
    encoder: DescriptorEncoder<'a>,
    /// Families that were begun, in their order.
    begun: Vec<&'static Family>,
}

impl<'a> Exposition<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self {
            encoder,
            begun: Vec::new(),
        }
    }

    /// Begins a family, and lets `write` add its samples. A family is begun even if it has no
    /// samples, so that every answer names all families.
    pub(super) fn family(
        &mut self,
        family: &'static Family,
        write: &mut dyn FnMut(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.begun.push(family);
        let kind = match family.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        };
        let (name, unit) = family.parts();
        let encoder = self
            .encoder
            .encode_descriptor(name, family.help, unit.as_ref(), kind)?;
        write(&mut Samples { encoder, family })
    }

    /// Returns the families that were begun.
    #[cfg(test)]
    pub(super) fn begun(&self) -> &[&'static Family] {
        &self.begun
    }
}

/// Writer of the samples of one family.
pub(super) struct Samples<'a> {
    encoder: MetricEncoder<'a>,
    family: &'static Family,
}

impl Samples<'_> {
    /// Adds a sample of a counter or gauge.
    pub(super) fn put(&mut self, labels: &[&str], value: impl Into<Number>) -> fmt::Result {
        self.put_number(labels, value.into())
    }

    fn put_number(&mut self, labels: &[&str], value: Number) -> fmt::Result {
        let labels = self.labels(labels);
        let mut sample = self.encoder.encode_family(&labels)?;
        match self.family.kind {
            Kind::Counter => sample.encode_counter::<NoLabelSet, _, u64>(&value, None),
            _ => sample.encode_gauge(&value),
        }
    }

    /// Adds an object that the labels describe.
    pub(super) fn describe(&mut self, labels: &[&str]) -> fmt::Result {
        let labels = self.labels(labels);
        self.encoder.encode_info(&labels)
    }

    /// Adds a sample for each state, with the value 1 for the present one. The state is the last
    /// label.
    pub(super) fn put_states(
        &mut self,
        labels: &[&str],
        states: &[&str],
        present: &str,
    ) -> fmt::Result {
        for state in states {
            self.put(&[labels, &[*state]].concat(), *state == present)?;
        }
        Ok(())
    }

    /// Adds a histogram of latencies, whose sum has nanoseconds.
    pub(super) fn put_latencies(
        &mut self,
        labels: &[&str],
        latencies: &Latencies,
        sum_ns: u64,
    ) -> fmt::Result {
        let commands = latencies.commands();
        let mut buckets = [(f64::INFINITY, 0); BOUNDS_NS.len() + 1];
        let mut below = 0;
        for (bucket, bound_ns) in buckets.iter_mut().zip(BOUNDS_NS) {
            let up_to = latencies.below(bound_ns);
            *bucket = (seconds(bound_ns), up_to - below);
            below = up_to;
        }
        buckets[BOUNDS_NS.len()].1 = commands - below;
        let labels = self.labels(labels);
        let mut sample = self.encoder.encode_family(&labels)?;
        sample.encode_histogram::<NoLabelSet>(seconds(sum_ns), commands, &buckets, None)
    }

    fn labels<'v>(&self, values: &'v [&'v str]) -> Labels<'v> {
        let names = self.family.labels;
        debug_assert_eq!(names.len(), values.len(), "{}", self.family.name);
        Labels { names, values }
    }
}

/// Upper bounds of the buckets of histograms, in nanoseconds.
const BOUNDS_NS: [u64; 12] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
];

/// Returns nanoseconds as seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Labels of one sample.
struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [&'a str],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for label in self.names.iter().zip(self.values) {
            (*label.0, *label.1).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

/// Value of a sample. Whole numbers are written without a decimal point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Number {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<bool> for Number {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeCounterValue::encode(value, encoder),
            Self::Real(value) => EncodeCounterValue::encode(value, encoder),
        }
    }
}

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeGaugeValue::encode(value, encoder),
            Self::Real(value) => EncodeGaugeValue::encode(value, encoder),
        }
    }
}

/// A figure that each object of a type may have: its family, and the function that finds it.
pub(super) struct Figure<T: 'static> {
    pub(super) family: Family,
    /// Returns the figure, or `None` if the object has none now.
    pub(super) of: fn(&T) -> Option<Number>,
}

/// Objects of a type, each with the values of its labels.
pub(super) type Labelled<'a, T> = [(Vec<&'a str>, &'a T)];

impl Exposition<'_> {
    /// Adds each figure of all objects.
    pub(super) fn figures<T>(
        &mut self,
        figures: &'static [Figure<T>],
        objects: &Labelled<'_, T>,
    ) -> fmt::Result {
        figures.iter().try_for_each(|figure| {
            self.family(&figure.family, &mut |to| {
                for (labels, object) in objects {
                    if let Some(value) = (figure.of)(object) {
                        to.put(labels, value)?;
                    }
                }
                Ok(())
            })
        })
    }
}

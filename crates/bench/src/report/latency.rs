//! Distribution of latencies: histogram, percentiles, and the range from the median to the worst.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::lines::{self, Line, Lines};
use super::ranges::{self, Range};
use super::scale::Scale;
use super::subject::{Series, Subject};
use super::units;
use crate::measure::latency::Distribution;

/// Buckets of a power of two in the picture; finer ones would show noise.
const PER_OCTAVE: f64 = 8.0;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    let spreads = subject
        .workloads
        .iter()
        .map(|workload| (workload, spreads(subject, workload)));
    let spreads: Vec<_> = spreads.filter(|(_, spreads)| !spreads.is_empty()).collect();
    if spreads.is_empty() {
        return html! {};
    }
    html! {
        section id="latency" {
            h2 { "How latency is distributed" }
            p.note {
                "Means hide slow accesses: one access of 500 ms among a thousand of 1 ms gives a mean of "
                "1.5 ms. All runs of a setting are counted together."
            }
            @if subject.is_single() {
                @let ranges: Vec<Range> = spreads
                    .iter()
                    .flat_map(|(workload, spreads)| spreads.iter().map(|spread| range(spread, workload)))
                    .collect();
                div.panels { (ranges::draw("Median to worst", &ranges)) }
            }
            @for (workload, spreads) in &spreads {
                h3 { (workload) }
                div.panels {
                    (histogram(spreads))
                    (percentiles(spreads))
                    @match &spreads[..] {
                        [spread] if spread.is_single => (listed(spread)),
                        _ => (worst(spreads)),
                    }
                }
            }
        }
    }
}

/// Latencies of a series in one workload.
struct Spread<'s, 'a> {
    series: &'s Series<'a>,
    /// Place among the series.
    index: usize,
    /// End of each bucket in nanoseconds, and the accesses in it; ascending.
    buckets: Vec<(u64, u64)>,
    total: u64,
    least_ns: u64,
    greatest_ns: u64,
    is_single: bool,
}

impl Spread<'_, '_> {
    fn label(&self) -> String {
        match self.is_single || self.series.class == "sx" {
            true => String::new(),
            false if self.series.short.is_empty() => self.series.label.clone(),
            false => self.series.short.clone(),
        }
    }

    /// Returns a percentile like [`Distribution::percentile_ns`], but never beyond the greatest
    /// latency.
    fn percentile_ns(&self, percent: f64) -> f64 {
        let all = Distribution {
            buckets: self.buckets.clone(),
            ..Distribution::default()
        };
        all.percentile_ns(percent).min(self.greatest_ns) as f64
    }
}

fn spreads<'s, 'a>(subject: &'s Subject<'a>, workload: &str) -> Vec<Spread<'s, 'a>> {
    let of_series = subject
        .series
        .iter()
        .enumerate()
        .filter_map(|(index, series)| {
            let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
            let (mut least_ns, mut greatest_ns) = (u64::MAX, 0);
            for run in series.of(workload) {
                let latency = &run.measurement.latency;
                let Some(distribution) = &latency.distribution else {
                    continue;
                };
                least_ns = least_ns.min(distribution.min_ns);
                greatest_ns = greatest_ns.max(latency.max_ns);
                for (end, count) in &distribution.buckets {
                    *buckets.entry(*end).or_default() += count;
                }
            }
            let total = buckets.values().sum();
            (total > 0).then(|| Spread {
                series,
                index,
                buckets: buckets.into_iter().collect(),
                total,
                least_ns,
                greatest_ns,
                is_single: subject.is_single(),
            })
        });
    let mut spreads: Vec<Spread<'s, 'a>> = of_series.collect();
    // Series with a colour are drawn over those without.
    spreads.sort_by_key(|spread| spread.series.class != "sx");
    spreads
}

fn scale_of(spreads: &[Spread<'_, '_>]) -> Scale {
    let least = spreads.iter().map(|spread| spread.least_ns).min();
    let greatest = spreads.iter().map(|spread| spread.greatest_ns).max();
    Scale::logarithmic(least.unwrap_or(1) as f64, greatest.unwrap_or(1) as f64)
}

fn histogram(spreads: &[Spread<'_, '_>]) -> Markup {
    let shares: Vec<Vec<(f64, f64)>> = spreads.iter().map(shares).collect();
    let greatest = shares
        .iter()
        .flatten()
        .map(|(_, share)| *share)
        .fold(0.0, f64::max);
    let lines = spreads.iter().zip(&shares).map(|(spread, shares)| Line {
        label: String::new(),
        class: spread.series.class.to_owned(),
        points: steps(shares).into_iter().map(Some).collect(),
    });
    lines::draw(&Lines {
        title: "Histogram",
        unit: "share of accesses per ⅛ octave",
        below: "latency",
        across: (scale_of(spreads), &units::time_tick),
        upward: (Scale::linear(greatest), &|share| {
            format!("{} %", units::tick(share * 100.0))
        }),
        lines: lines.collect(),
        filled: true,
    })
}

/// Returns `(begin of the bucket in nanoseconds, share of all accesses)`, with empty buckets
/// between.
fn shares(spread: &Spread<'_, '_>) -> Vec<(f64, f64)> {
    let bucket = |ns: u64| ((ns.max(1) as f64).log2() * PER_OCTAVE).floor() as i32;
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    let mut before = 0;
    for (end, count) in &spread.buckets {
        // A saved bucket is counted at its middle.
        let width = end - before.max(end - end / 32);
        *counts.entry(bucket(end - width / 2)).or_default() += count;
        before = *end;
    }
    let (Some((first, _)), Some((last, _))) = (counts.first_key_value(), counts.last_key_value())
    else {
        return Vec::new();
    };
    let share = |index: i32| counts.get(&index).copied().unwrap_or(0) as f64 / spread.total as f64;
    (*first..=last + 1)
        .map(|index| (2f64.powf(f64::from(index) / PER_OCTAVE), share(index)))
        .collect()
}

fn steps(shares: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut height = 0.0;
    for (begin, share) in shares {
        points.push((*begin, height));
        points.push((*begin, *share));
        height = *share;
    }
    points
}

fn percentiles(spreads: &[Spread<'_, '_>]) -> Markup {
    let most = spreads.iter().map(|spread| spread.total).max().unwrap_or(0);
    let lines = spreads.iter().map(|spread| {
        let mut seen = 0;
        let mut points = vec![Some((0.0, spread.least_ns as f64))];
        for (end, count) in &spread.buckets {
            let below = seen as f64 / spread.total as f64 * 100.0;
            let ns = (*end).min(spread.greatest_ns) as f64;
            points.push(Some((below, ns)));
            seen += count;
            // The last point stands at its own share: beyond it nothing was measured.
            let share = seen.min(spread.total - 1) as f64 / spread.total as f64 * 100.0;
            points.push(Some((share.max(below), ns)));
        }
        Line {
            label: spread.label(),
            class: spread.series.class.to_owned(),
            points,
        }
    });
    lines::draw(&Lines {
        title: "Percentiles",
        unit: "latency not exceeded by this share",
        below: "share of accesses",
        across: (Scale::percentile(most), &|percent| format!("{percent} %")),
        upward: (scale_of(spreads), &units::time_tick),
        lines: lines.collect(),
        filled: false,
    })
}

/// Draws the range of every series in a workload.
fn worst(spreads: &[Spread<'_, '_>]) -> Markup {
    let mut ordered: Vec<&Spread<'_, '_>> = spreads.iter().collect();
    ordered.sort_by_key(|spread| spread.index);
    let ranges = ordered
        .into_iter()
        .map(|spread| range(spread, &spread.series.label));
    ranges::draw("Median to worst", &ranges.collect::<Vec<_>>())
}

fn range(spread: &Spread<'_, '_>, label: &str) -> Range {
    Range {
        label: label.to_owned(),
        class: spread.series.class,
        points_ns: [
            spread.percentile_ns(50.0),
            spread.percentile_ns(99.0),
            spread.percentile_ns(99.9),
            spread.greatest_ns as f64,
        ],
    }
}

/// Lists the percentiles of the only series.
fn listed(spread: &Spread<'_, '_>) -> Markup {
    let rows = [
        ("median", 50.0),
        ("90 %", 90.0),
        ("99 %", 99.0),
        ("99.9 %", 99.9),
        ("99.99 %", 99.99),
    ];
    html! {
        figure {
            figcaption { b { "Not exceeded" } " " span.unit { "by this share of " (units::count(spread.total)) " accesses" } }
            table {
                tbody {
                    @for (name, percent) in rows {
                        tr { th scope="row" { (name) } td { (units::time(spread.percentile_ns(percent))) } }
                    }
                    tr { th scope="row" { "worst" } td { (units::time(spread.greatest_ns as f64)) } }
                }
            }
        }
    }
}

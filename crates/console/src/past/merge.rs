//! Merging: the steps of a history become fewer, and the figures of several objects become one.
//!
//! Rates of objects add up, and the rate of a longer step is the mean of its parts. Times are
//! weighed by the commands that had them. Of quantiles the worst stands, as in the history itself.

use std::collections::HashMap;

use model::history::{HistoryView, SeriesUnit};

use super::span::Shown;

/// Figures of the past, in equal steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Past {
    /// Start of each step, in seconds since 1970.
    pub(crate) unix_s: Vec<u64>,
    /// Values of each figure, one for each step.
    series: HashMap<String, Vec<Option<f64>>>,
}

impl Past {
    /// Reports whether no step has any value.
    pub(crate) fn is_empty(&self) -> bool {
        self.series.values().flatten().all(Option::is_none)
    }

    /// Returns the values of a figure. A figure that is not known has none.
    pub(crate) fn values(&self, name: &str) -> &[Option<f64>] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the values of a figure, each times a factor.
    pub(crate) fn scaled(&self, name: &str, factor: f64) -> Vec<Option<f64>> {
        let values = self.values(name).iter();
        values.map(|value| Some((*value)? * factor)).collect()
    }
}

/// Merges the histories of objects to the points that are shown.
pub(crate) fn merged(views: &[HistoryView], shown: &Shown) -> Past {
    let Some(first) = views.first() else {
        return Past::default();
    };
    let skipped = first.unix_s.len().saturating_sub(shown.steps);
    let steps: Vec<u64> = first.unix_s.iter().skip(skipped).copied().collect();
    let points: Vec<&[u64]> = steps.chunks(shown.joined).collect();
    let series = first.series.iter().map(|one| {
        let values = points.iter().map(|steps| {
            let cells: Vec<Vec<Cell>> = steps
                .iter()
                .map(|step| {
                    views
                        .iter()
                        .filter_map(|view| cell(view, &one.name, *step))
                        .collect()
                })
                .collect();
            joined(&one.name, one.unit, &cells)
        });
        (one.name.clone(), values.collect())
    });
    Past {
        unix_s: points
            .iter()
            .filter_map(|steps| steps.first().copied())
            .collect(),
        series: series.collect(),
    }
}

/// Value of one object in one step, with its weight.
#[derive(Clone, Copy, Debug)]
struct Cell {
    value: f64,
    weight: f64,
}

/// Returns the value of an object in a step, if there is one.
fn cell(view: &HistoryView, name: &str, step: u64) -> Option<Cell> {
    let at = view.unix_s.binary_search(&step).ok()?;
    let value = |name: &str| {
        let mut series = view.series.iter();
        series.find(|it| it.name == name)?.values.get(at).copied()?
    };
    let rate = |name: &str| value(name).unwrap_or(0.0);
    let weight = match name {
        "read_latency_ns" => rate("reads_per_s"),
        "write_latency_ns" => rate("writes_per_s"),
        _ => rate("reads_per_s") + rate("writes_per_s"),
    };
    Some(Cell {
        value: value(name)?,
        weight,
    })
}

/// Returns the one value of all objects in all steps of a point. `cells` are the objects of each
/// step.
fn joined(name: &str, unit: SeriesUnit, cells: &[Vec<Cell>]) -> Option<f64> {
    let all = || cells.iter().flatten();
    match unit {
        SeriesUnit::PerSecond | SeriesUnit::BytesPerSecond => {
            let known: Vec<f64> = cells
                .iter()
                .filter(|objects| !objects.is_empty())
                .map(|objects| objects.iter().map(|cell| cell.value).sum())
                .collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        }
        SeriesUnit::Nanoseconds if name.ends_with("_p99_ns") => {
            all().map(|cell| cell.value).reduce(f64::max)
        }
        SeriesUnit::Nanoseconds => {
            let weights: f64 = all().map(|cell| cell.weight).sum();
            let sum: f64 = all().map(|cell| cell.value * cell.weight).sum();
            (weights > 0.0).then_some(sum / weights)
        }
        SeriesUnit::Bytes => {
            let last = cells.iter().rev().find(|objects| !objects.is_empty())?;
            Some(last.iter().map(|cell| cell.value).sum())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::history::{HistoryKind, Series, Span};

    const SHOWN: Shown = Shown {
        word: "",
        label: "40 min",
        half: "20 min",
        span: Span::FourteenDays,
        steps: 4,
        joined: 2,
    };

    fn view(reads: [Option<f64>; 5], latency: [Option<f64>; 5]) -> HistoryView {
        let series = |name: &str, unit, values: [Option<f64>; 5]| Series {
            name: name.to_owned(),
            unit,
            values: values.to_vec(),
        };
        HistoryView {
            kind: HistoryKind::PortGroup,
            name: "a".to_owned(),
            key: "a".to_owned(),
            span: Span::FourteenDays,
            step_s: 600,
            unix_s: (1..=5).map(|at| at * 600).collect(),
            series: vec![
                series("reads_per_s", SeriesUnit::PerSecond, reads),
                series("device_ns", SeriesUnit::Nanoseconds, latency),
                series("read_p99_ns", SeriesUnit::Nanoseconds, latency),
                series("allocated_bytes", SeriesUnit::Bytes, reads),
            ],
            outlook: None,
        }
    }

    #[test]
    fn rates_add_up_and_times_are_weighed() {
        let a = view(
            [Some(9.0), Some(100.0), Some(300.0), None, Some(50.0)],
            [Some(9.0), Some(1000.0), Some(2000.0), None, Some(7.0)],
        );
        let b = view(
            [None, Some(100.0), Some(100.0), None, None],
            [None, Some(1000.0), Some(4000.0), None, None],
        );
        let past = merged(&[a, b], &SHOWN);
        // The first step lies before the time that is shown.
        assert_eq!(past.unix_s, [1200, 2400]);
        assert_eq!(past.values("reads_per_s"), [Some(300.0), Some(50.0)]);
        let device = (200.0 * 1000.0 + 300.0 * 2000.0 + 100.0 * 4000.0) / 600.0;
        assert_eq!(past.values("device_ns"), [Some(device), Some(7.0)]);
        assert_eq!(past.values("read_p99_ns"), [Some(4000.0), Some(7.0)]);
        assert_eq!(past.values("allocated_bytes"), [Some(400.0), Some(50.0)]);
        assert_eq!(past.scaled("read_p99_ns", 0.5)[1], Some(3.5));
    }

    #[test]
    fn what_was_not_recorded_is_a_gap() {
        let none = view([None; 5], [None; 5]);
        let past = merged(&[none], &SHOWN);
        assert_eq!(past.values("reads_per_s"), [None, None]);
        assert!(past.is_empty());
        assert!(merged(&[], &SHOWN).is_empty());
        let idle = view([Some(0.0); 5], [None; 5]);
        let past = merged(&[idle], &SHOWN);
        assert_eq!(past.values("device_ns"), [None, None]);
        assert!(!past.is_empty());
    }
}

//! Columns of live figures, the same in each table that has them.

use crate::live::rates::{Rates, place};
use crate::table::{Cell, Column};

/// Heading and place of each column of live figures.
const COLUMNS: [(&str, &str, usize); 9] = [
    ("iops", "IOPS", place::COMMANDS),
    ("mib", "MiB/s", place::BYTES),
    ("mean", "Mean ms", place::MEAN),
    ("p50", "p50 ms", place::P50),
    ("p99", "p99 ms", place::P99),
    ("wire", "Wire in", place::STAGES),
    ("queue", "Queue", place::STAGES + 1),
    ("device", "Device", place::STAGES + 2),
    ("reply", "Reply", place::STAGES + 3),
];

/// Returns the columns of live figures of objects with latencies.
pub(super) fn with_quantiles<'a, T: 'a>(
    rates: impl Fn(&T) -> Option<Rates> + Copy + 'a,
) -> Vec<Column<'a, T>> {
    let shown = COLUMNS.into_iter().filter(|(_, _, at)| *at != place::MEAN);
    shown.map(|of| column(of, rates)).collect()
}

/// Returns the columns of live figures of objects with sums alone, which have no quantiles.
pub(super) fn with_means<'a, T: 'a>(
    rates: impl Fn(&T) -> Option<Rates> + Copy + 'a,
) -> Vec<Column<'a, T>> {
    let shown = COLUMNS
        .into_iter()
        .filter(|(_, _, at)| ![place::P50, place::P99].contains(at));
    shown.map(|of| column(of, rates)).collect()
}

fn column<'a, T: 'a>(
    (key, title, at): (&'static str, &'static str, usize),
    rates: impl Fn(&T) -> Option<Rates> + 'a,
) -> Column<'a, T> {
    let make = move |row: &T| match rates(row).map(|rates| rates.figures()) {
        None => Cell::unknown(),
        Some(mut figures) => {
            let (value, text) = std::mem::take(&mut figures[at]);
            Cell::maybe(value, text)
        }
    };
    Column::figure(key, title, make).live(at)
}

//! The table of a sweep: block sizes down, accesses in flight across; and the best settings in
//! words.
//!
//! More in flight always wait longer. So the best depth for a block size is the least one that the
//! fastest exceeds by no more than [`WORTH`], or by nothing that is larger than the noise.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::order::{BLOCK, DEPTH};
use super::rows::{RowView, rows};
use bench::results::Results;
use bench::statistics::{Ratio, paired};

/// Gain in accesses per second below which a greater depth is not worth its wait, as a factor.
const WORTH: f64 = 1.05;
/// Chance that a difference is seen where there is none.
const ALPHA: f64 = 0.05;

/// Table of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepView {
    /// Block sizes, one for each line of the table.
    pub blocks: Vec<String>,
    /// Accesses in flight, one for each column of the table.
    pub outstanding: Vec<String>,
    /// Lines of cells; `null` where nothing was measured.
    #[schema(value_type = Vec<Vec<Option<RowView>>>)]
    pub cells: Vec<Vec<Option<RowView>>>,
    /// Column of the best depth for each line; `null` where nothing was measured.
    pub best: Vec<Option<usize>>,
    /// Best settings in words, the most useful first.
    pub words: Vec<String>,
}

/// Makes the table of a sweep's results.
pub(crate) fn table(results: &Results) -> SweepView {
    let axis = |name: &str| {
        let mut values: Vec<String> = Vec::new();
        for settings in &results.plan {
            if let Some(value) = settings.get(name)
                && !values.contains(value)
            {
                values.push(value.clone());
            }
        }
        values
    };
    let (blocks, outstanding) = (axis(BLOCK), axis(DEPTH));
    let rows = rows(results);
    let cell = |block: &String, depth: &String| {
        let is_it = |row: &&RowView| {
            row.settings.get(BLOCK) == Some(block) && row.settings.get(DEPTH) == Some(depth)
        };
        rows.iter().find(is_it).cloned()
    };
    let line = |block| outstanding.iter().map(|depth| cell(block, depth)).collect();
    let cells: Vec<Vec<Option<RowView>>> = blocks.iter().map(line).collect();
    let best: Vec<Option<usize>> = cells.iter().map(|line| best_of(results, line)).collect();
    let mut view = SweepView {
        blocks,
        outstanding,
        cells,
        best,
        words: Vec::new(),
    };
    view.words = words(results, &view);
    view
}

/// Returns the least depth that is enough. Where the rounds cannot tell two depths apart, their
/// figures decide.
fn best_of(results: &Results, line: &[Option<RowView>]) -> Option<usize> {
    let iops = |at: usize| line[at].as_ref().map_or(0.0, |cell| cell.iops);
    let measured = (0..line.len()).filter(|at| iops(*at) > 0.0);
    let most = measured
        .clone()
        .max_by(|a, b| iops(*a).total_cmp(&iops(*b)))?;
    let is_enough = |at: &usize| {
        let is_near = iops(most) <= iops(*at) * WORTH;
        is_near || is_within_noise(results, line[*at].as_ref(), line[most].as_ref())
    };
    measured.clone().find(is_enough)
}

/// Reports whether the rounds show that two cells hardly differ.
fn is_within_noise(results: &Results, a: Option<&RowView>, b: Option<&RowView>) -> bool {
    ratio(results, a, b).is_some_and(|ratio| !ratio.differs() && !ratio.is_vague())
}

/// Returns the ratio of the accesses per second of two cells, by the rounds that both have.
fn ratio(results: &Results, a: Option<&RowView>, b: Option<&RowView>) -> Option<Ratio> {
    let values = |of: Option<&RowView>| -> Vec<(u32, f64)> {
        let runs = results.runs.iter();
        let runs = runs.filter(|run| of.is_some_and(|cell| cell.settings == run.settings));
        let mut values: Vec<(u32, f64)> = runs
            .map(|run| (run.round, run.measurement.iops()))
            .collect();
        values.sort_by_key(|(round, _)| *round);
        values
    };
    let (a, b) = (values(a), values(b));
    // A sweep that was stopped has a round that is not whole.
    let both = a.iter().filter_map(|(round, value)| {
        let other = b.iter().find(|(of, _)| of == round)?;
        Some((*value, other.1))
    });
    let (a, b): (Vec<f64>, Vec<f64>) = both.unzip();
    paired(&a, &b, ALPHA)
}

/// Reports whether the rounds of a line differ too much to be sure of its best depth: they cannot
/// tell it from a lesser one.
fn is_uncertain(results: &Results, line: &[Option<RowView>], best: usize) -> bool {
    let chosen = line[best].as_ref();
    let is_sure = |lesser: &RowView| {
        ratio(results, Some(lesser), chosen).is_some_and(|ratio| ratio.differs())
    };
    let has_rounds = chosen.is_some_and(|cell| cell.rounds > 1);
    has_rounds && !line[..best].iter().flatten().all(is_sure)
}

fn words(results: &Results, view: &SweepView) -> Vec<String> {
    let mut words = Vec::new();
    let all = || view.cells.iter().flatten().flatten();
    let Some(fastest) = all().max_by(|a, b| a.iops.total_cmp(&b.iops)) else {
        return words;
    };
    let widest = all().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
    for (at, line) in view.cells.iter().enumerate() {
        let Some(best) = view.best[at] else { continue };
        let Some(cell) = &line[best] else { continue };
        let (block, depth) = (&view.blocks[at], &view.outstanding[best]);
        let end = match best + 1 == line.len() {
            _ if line.len() == 1 => "No other number was tried.",
            _ if is_uncertain(results, line, best) => {
                "The rounds differ too much to be sure: measure longer, or in more rounds."
            }
            true => "More were not tried, and may be faster.",
            false => "More wait longer and gain little, or nothing that is larger than the noise.",
        };
        words.push(format!(
            "For {block}, {depth} in flight: {} at {:.3} ms. {end}",
            speed(cell),
            cell.mean_ms
        ));
    }
    words.push(format!("Most accesses: {}.", place(fastest)));
    words.extend(widest.map(|cell| format!("Most throughput: {}.", place(cell))));
    if all().all(|cell| cell.rounds < 2) {
        words.push("One round does not tell a difference from noise: choose three or more.".into());
    }
    words
}

/// Returns accesses and bytes per second in words.
fn speed(cell: &RowView) -> String {
    let iops = bench::report::units::number(cell.iops);
    let mib = cell.bytes_per_s / f64::from(1 << 20);
    format!("{iops} IOPS, {mib:.1} MiB/s")
}

fn place(cell: &RowView) -> String {
    let of = |name: &str| cell.settings.get(name).map_or("", String::as_str);
    format!(
        "{} with {} in flight, {}",
        of(BLOCK),
        of(DEPTH),
        speed(cell)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{results, run};

    /// Returns results of a sweep over one block size, with these accesses per second in each
    /// round.
    fn swept(depths: &[(&str, &[u64])]) -> Results {
        let settings = |depth: &str| {
            [(BLOCK, "4K"), (DEPTH, depth)].map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let runs = depths.iter().flat_map(|(depth, rounds)| {
            let each = rounds.iter().enumerate();
            each.map(|(round, iops)| run("a", &settings(depth), round as u32, *iops, 1.0))
        });
        let mut results = results(runs.collect());
        results.plan = depths
            .iter()
            .map(|(depth, _)| settings(depth).into())
            .collect();
        results
    }

    #[test]
    fn the_least_depth_that_is_enough_is_the_best() {
        let view = table(&swept(&[
            ("1", &[100, 101, 102]),
            ("8", &[700, 702, 704]),
            ("64", &[710, 712, 714]),
        ]));
        assert_eq!(
            (view.blocks, view.best),
            (vec!["4K".to_owned()], vec![Some(1)])
        );
        assert_eq!(view.outstanding, ["1", "8", "64"]);
        assert!(
            view.words[0].starts_with("For 4K, 8 in flight: 702 IOPS"),
            "{:?}",
            view.words
        );
        assert!(
            view.words[0].contains("larger than the noise"),
            "{:?}",
            view.words
        );
        assert!(
            view.words[1].contains("4K with 64 in flight"),
            "{:?}",
            view.words
        );
    }

    #[test]
    fn a_gain_within_the_noise_is_none() {
        let view = table(&swept(&[("1", &[100, 100, 100]), ("8", &[95, 120, 110])]));
        assert_eq!(view.best, [Some(0)]);
    }

    #[test]
    fn rounds_that_cannot_tell_leave_it_to_the_figures_and_say_so() {
        let view = table(&swept(&[("1", &[100, 100, 100]), ("8", &[40, 500, 90])]));
        assert_eq!(view.best, [Some(1)]);
        assert!(
            view.words[0].contains("too much to be sure"),
            "{:?}",
            view.words
        );
    }

    #[test]
    fn a_depth_that_still_gains_is_told_as_the_last_that_was_tried() {
        let view = table(&swept(&[("1", &[100, 101, 102]), ("8", &[700, 702, 704])]));
        assert_eq!(view.best, [Some(1)]);
        assert!(
            view.words[0].ends_with("may be faster."),
            "{:?}",
            view.words
        );
    }

    #[test]
    fn one_round_decides_by_its_figures_and_says_so() {
        let view = table(&swept(&[("1", &[100]), ("8", &[700]), ("64", &[710])]));
        assert_eq!(view.best, [Some(1)]);
        assert!(
            view.words.last().expect("words").starts_with("One round"),
            "{:?}",
            view.words
        );
    }

    #[test]
    fn what_was_not_measured_is_a_gap() {
        let mut results = swept(&[("1", &[100]), ("8", &[0])]);
        results.runs.truncate(1);
        let view = table(&results);
        assert_eq!(
            view.cells[0].iter().filter(|cell| cell.is_none()).count(),
            1
        );
        assert_eq!(view.best, [Some(0)]);
        results.runs.clear();
        let view = table(&results);
        assert_eq!((view.best, view.words), (vec![None], Vec::new()));
    }
}

//! The table of a sweep: block sizes down, queue depths across, coloured from slow to fast; and the
//! best settings in words.

use ::benchmarks::{RowView, SweepView};
use maud::{Markup, html};

use crate::choice::Choice;
use crate::format::{NONE, mib, rate};
use crate::line_chart::{Axis, Line, LineChart, MOST_LINES};
use crate::visit::Visit;

/// Figure that the cells show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Iops,
    Bytes,
    Mean,
}

impl Figure {
    fn of(word: &str) -> Self {
        match word {
            "mib" => Self::Bytes,
            "mean" => Self::Mean,
            _ => Self::Iops,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Iops => "accesses per second",
            Self::Bytes => "MiB/s",
            Self::Mean => "mean latency in ms",
        }
    }

    fn value(self, cell: &RowView) -> f64 {
        match self {
            Self::Iops => cell.iops,
            Self::Bytes => cell.bytes_per_s / f64::from(1 << 20),
            Self::Mean => cell.mean_ms,
        }
    }

    fn text(self, cell: &RowView) -> String {
        match self {
            Self::Iops => rate(cell.iops),
            Self::Bytes => mib(cell.bytes_per_s),
            Self::Mean => format!("{:.3}", cell.mean_ms),
        }
    }

    /// Returns the step of the colour of a value between those of its line: 0 for the worst, 4 for
    /// the best.
    fn step(self, value: f64, line: &[f64]) -> usize {
        let most = line.iter().copied().fold(f64::MIN, f64::max);
        let least = line.iter().copied().fold(f64::MAX, f64::min);
        if most <= least {
            return 4;
        }
        let share = (value - least) / (most - least);
        let share = if self == Self::Mean {
            1.0 - share
        } else {
            share
        };
        (share * 4.0).round() as usize
    }
}

/// Shows the table of a sweep. The best settings are told once it is over.
pub(super) fn draw(visit: &Visit, sweep: &SweepView, is_over: bool) -> Markup {
    let figure = Figure::of(visit.query.get("figure"));
    let choice = Choice {
        label: "Figures",
        name: "figure",
        options: &[("", "IOPS"), ("mib", "MiB/s"), ("mean", "latency")],
        anchor: "sweep",
    };
    html! {
        section #sweep aria-label="The best setting" {
            h2 { "The best setting" }
            @if is_over { ul { @for words in &sweep.words { li { (words) } } } }
            @else { p { "It is told when all is measured." } }
            nav.choices aria-label="Figures of the table" { (choice.draw(visit)) }
            (table(sweep, figure, is_over))
            p.quiet { "Colours compare the cells of a line, from the slowest to the fastest."
                @if is_over { " " strong { "best" } " marks the least number in flight that is enough for its block size." } }
            (charts(sweep))
        }
    }
}

fn table(sweep: &SweepView, figure: Figure, is_over: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of the sweep" {
            table.heat {
                caption { "Block size by accesses in flight, " (figure.unit()) }
                thead { tr {
                    th scope="col" { "Block size" }
                    @for depth in &sweep.outstanding { th.figure scope="col" { (depth) " in flight" } }
                } }
                tbody {
                    @for (at, line) in sweep.cells.iter().enumerate() {
                        @let values = line.iter().flatten().map(|cell| figure.value(cell)).collect::<Vec<f64>>();
                        tr {
                            th scope="row" { (sweep.blocks[at]) }
                            @for (column, cell) in line.iter().enumerate() {
                                @match cell {
                                    None => td.figure { (NONE) },
                                    Some(cell) => {
                                        @let step = figure.step(figure.value(cell), &values);
                                        @let class = format!("figure h{step}");
                                        td class=(class) {
                                            @if is_over && sweep.best[at] == Some(column) { strong { "best " } }
                                            (figure.text(cell))
                                        }
                                    },
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Draws accesses and latency over the accesses in flight, a line for each block size.
fn charts(sweep: &SweepView) -> Markup {
    if sweep.outstanding.len() < 2 {
        return html! {};
    }
    let lines = |figure: Figure, from: usize| -> Vec<Line> {
        let each = sweep
            .blocks
            .iter()
            .zip(&sweep.cells)
            .skip(from)
            .take(MOST_LINES);
        each.map(|(block, cells)| Line {
            name: block.clone(),
            values: cells
                .iter()
                .map(|cell| cell.as_ref().map(|cell| figure.value(cell)))
                .collect(),
        })
        .collect()
    };
    let axis = Axis::of_places("In flight", &sweep.outstanding);
    let chart = |title, figure: Figure, decimals, from| {
        LineChart {
            title,
            unit: figure.unit(),
            lines: lines(figure, from),
            decimals,
            limit: None,
        }
        .draw(&axis)
    };
    html! {
        @for from in (0..sweep.blocks.len()).step_by(MOST_LINES) {
            div.charts {
                (chart("Throughput", Figure::Bytes, 1, from))
                (chart("Latency", Figure::Mean, 3, from))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_the_worst_to_the_best_of_a_line() {
        let line = [100.0, 200.0, 500.0];
        let steps = line.map(|value| Figure::Iops.step(value, &line));
        assert_eq!(steps, [0, 1, 4]);
        let steps = line.map(|value| Figure::Mean.step(value, &line));
        assert_eq!(steps, [4, 3, 0]);
        assert_eq!(Figure::Iops.step(7.0, &[7.0]), 4);
    }
}

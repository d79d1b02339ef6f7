//! Drawing of a chart of the past, with its figures as a table.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::merge::Past;
use super::span::Shown;
use crate::chart::{HEIGHT, LEFT, PLOT_HEIGHT, PLOT_WIDTH, TOP, WIDTH, class, nice_limit, tick};
use crate::format::{NONE, time};

/// Length of the stroke that shows a single value.
const STROKE: f64 = 6.0;
/// Rows of the table behind a chart.
const ROWS: usize = 24;

/// Line of a chart.
#[derive(Debug)]
pub(crate) struct Line {
    /// Name of the line.
    pub(crate) name: &'static str,
    /// Value of each step.
    pub(crate) values: Vec<Option<f64>>,
}

/// Chart of the past.
#[derive(Debug)]
pub(crate) struct PastChart<'a> {
    /// Title of the chart.
    pub(crate) title: &'a str,
    /// Unit of all values.
    pub(crate) unit: &'a str,
    /// Lines of the chart.
    pub(crate) lines: Vec<Line>,
    /// Decimals of the values in words.
    pub(crate) decimals: usize,
    /// Value at the top; `None` for a round one above all values.
    pub(crate) limit: Option<f64>,
}

impl PastChart<'_> {
    /// Draws the chart over the steps of a past.
    pub(crate) fn draw(&self, past: &Past, shown: &Shown) -> Markup {
        let values = self.lines.iter().flat_map(|line| &line.values).flatten();
        let greatest = values.copied().fold(0.0, f64::max);
        let limit = self.limit.unwrap_or_else(|| nice_limit(greatest));
        let label = format!(
            "{} of the last {}, in {}",
            self.title, shown.label, self.unit
        );
        let axis = [
            (LEFT, None, format!("{} ago", shown.label)),
            (
                LEFT + PLOT_WIDTH / 2.0,
                Some("middle"),
                format!("{} ago", shown.half),
            ),
            (LEFT + PLOT_WIDTH, Some("end"), "now".to_owned()),
        ];
        html! {
            figure.chart {
                figcaption {
                    strong { (self.title) } span.quiet { (self.unit) }
                    @for (at, line) in self.lines.iter().enumerate() {
                        span.key {
                            svg viewBox="0 0 22 8" aria-hidden="true" { path.(class(at)) d="M0 4H22" {} }
                            (line.name)
                        }
                    }
                }
                svg role="img" aria-label=(label) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
                    @for share in [0.0, 0.5, 1.0] {
                        @let y = TOP + PLOT_HEIGHT * (1.0 - share);
                        line.grid x1=(LEFT) x2=(LEFT + PLOT_WIDTH) y1=(y) y2=(y) {}
                        text x=(LEFT - 6.0) y=(y + 4.0) text-anchor="end" { (tick(limit * share)) }
                    }
                    @for (x, anchor, words) in &axis {
                        text x=(x) y=(HEIGHT - 5.0) text-anchor=[*anchor] { (words) }
                    }
                    @for (at, line) in self.lines.iter().enumerate() {
                        path.(class(at)) d=(outline(&line.values, limit)) {}
                    }
                }
                (self.table(past))
            }
        }
    }

    fn text(&self, value: Option<f64>) -> String {
        let decimals = self.decimals;
        value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.decimals$}"))
    }

    /// Draws the figures as a table, the newest first.
    fn table(&self, past: &Past) -> Markup {
        let step = past.unix_s.len().div_ceil(ROWS).max(1);
        let label = format!("Table of {}", self.title);
        html! {
            details {
                summary { "Table" }
                div.scroll tabindex="0" role="region" aria-label=(label) {
                    table {
                        thead { tr {
                            th scope="col" { "From" }
                            @for line in &self.lines { th.figure scope="col" { (line.name) } }
                        } }
                        tbody {
                            @for (at, unix_s) in past.unix_s.iter().enumerate().rev().step_by(step) {
                                tr {
                                    th scope="row" { (time(*unix_s)) }
                                    @for line in &self.lines {
                                        td.figure { (self.text(line.values.get(at).copied().flatten())) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the outline of a line. It has a gap where a value is not known. A value between two gaps
/// is a short stroke, so that it can be seen.
pub(crate) fn outline(values: &[Option<f64>], limit: f64) -> String {
    let mut path = String::new();
    let width = PLOT_WIDTH / values.len().saturating_sub(1).max(1) as f64;
    let mut is_drawing = false;
    for (at, value) in values.iter().enumerate() {
        let Some(value) = value else {
            is_drawing = false;
            continue;
        };
        let x = LEFT + width * at as f64;
        let y = TOP + PLOT_HEIGHT * (1.0 - (value / limit).clamp(0.0, 1.0));
        let is_alone = !is_drawing && values.get(at + 1).is_none_or(Option::is_none);
        // Writing to a text cannot fail.
        let _ = match (is_alone, is_drawing) {
            (true, _) => write!(path, "M{:.1} {y:.1}h{STROKE}", x - STROKE / 2.0),
            (false, false) => write!(path, "M{x:.1} {y:.1}"),
            (false, true) => write!(path, "L{x:.1} {y:.1}"),
        };
        is_drawing = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_now_has_gaps_and_shows_single_values() {
        let drawn = outline(&[Some(1.0), None, Some(1.0), Some(2.0)], 2.0);
        let (right, middle) = (LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT / 2.0);
        assert!(
            drawn.starts_with(&format!("M{:.1} {middle:.1}h6M", LEFT - 3.0)),
            "{drawn}"
        );
        assert!(drawn.ends_with(&format!("L{right:.1} {TOP:.1}")), "{drawn}");
        assert_eq!(outline(&[], 1.0), "");
        assert_eq!(outline(&[None], 1.0), "");
    }

    #[test]
    fn what_exceeds_a_fixed_limit_stays_in_the_picture() {
        let drawn = outline(&[Some(0.0), Some(400.0)], 100.0);
        assert!(drawn.ends_with(&format!(" {TOP:.1}")), "{drawn}");
    }
}

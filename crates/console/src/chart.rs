//! Charts of the last minutes as SVG. The script goes on drawing into them by the same rules,
//! so a page without scripts shows what a page with scripts shows at first. Charts of longer times
//! are in `past/`.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::format::duration;
use crate::live::points::Point;

/// Width and height of the drawing, and of the room for lines in it.
pub(crate) const WIDTH: f64 = 480.0;
pub(crate) const HEIGHT: f64 = 150.0;
pub(crate) const LEFT: f64 = 40.0;
pub(crate) const TOP: f64 = 8.0;
pub(crate) const PLOT_WIDTH: f64 = WIDTH - LEFT - 6.0;
pub(crate) const PLOT_HEIGHT: f64 = HEIGHT - TOP - 20.0;
/// Points that the server draws: every third, to keep pages small.
const STEP: usize = 3;
/// Rows of the table behind a chart: one for each quarter of a minute.
const TABLE_STEP: usize = 15;

/// A chart of some values of the points.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    /// Title of the chart.
    pub(crate) title: &'a str,
    /// Unit of all values.
    pub(crate) unit: &'a str,
    /// Number of the first value in each point.
    pub(crate) first: usize,
    /// Names of the lines, one for each value.
    pub(crate) lines: &'a [&'a str],
    /// Decimals of the values in words.
    pub(crate) decimals: usize,
    /// Seconds from the left end to the right one, which is now.
    pub(crate) seconds: u64,
}

impl Chart<'_> {
    /// Draws the points, the oldest first.
    pub(crate) fn draw<const N: usize>(&self, points: &[Point<N>]) -> Markup {
        let range = self.first..self.first + self.lines.len();
        let all = points.iter().flat_map(|point| &point.values[range.clone()]);
        let greatest = all.flatten().copied().fold(0.0, f64::max);
        let limit = nice_limit(greatest);
        let last = points.last().copied().unwrap_or_default();
        let ago = duration(self.seconds);
        html! {
            figure.chart {
                figcaption {
                    strong { (self.title) } span.quiet { (self.unit) }
                    @for (at, name) in self.lines.iter().enumerate() {
                        span.key {
                            svg viewBox="0 0 22 8" aria-hidden="true" { path.(class(at)) d="M0 4H22" {} }
                            (name) " "
                            strong data-now=(self.first + at) { (self.text(last.values[self.first + at])) }
                        }
                    }
                }
                svg role="img" aria-label=(format!("{} of the last {ago}, in {}", self.title, self.unit))
                    viewBox=(format!("0 0 {WIDTH} {HEIGHT}"))
                    data-first=(self.first) data-left=(LEFT) data-top=(TOP) data-width=(PLOT_WIDTH)
                    data-height=(PLOT_HEIGHT) data-decimals=(self.decimals)
                    data-seconds=(self.seconds) {
                    @for share in [0.0, 0.5, 1.0] {
                        @let y = TOP + PLOT_HEIGHT * (1.0 - share);
                        line.grid x1=(LEFT) x2=(LEFT + PLOT_WIDTH) y1=(y) y2=(y) {}
                        text data-tick=(share) x=(LEFT - 6.0) y=(y + 4.0) text-anchor="end" { (tick(limit * share)) }
                    }
                    text x=(LEFT) y=(HEIGHT - 5.0) { (ago) " ago" }
                    text x=(LEFT + PLOT_WIDTH) y=(HEIGHT - 5.0) text-anchor="end" { "now" }
                    @for at in 0..self.lines.len() {
                        path.(class(at)) data-s=(at) d=(self.path(points, self.first + at, limit)) {}
                    }
                }
                (self.table(points))
            }
        }
    }

    fn text(&self, value: Option<f64>) -> String {
        let decimals = self.decimals;
        value.map_or_else(
            || crate::format::NONE.to_owned(),
            |value| format!("{value:.decimals$}"),
        )
    }

    /// Returns the outline of a line. It has a gap where a value is not known.
    fn path<const N: usize>(&self, points: &[Point<N>], value: usize, limit: f64) -> String {
        let end = points.last().map_or(0, |point| point.at_ms);
        let seconds = self.seconds as f64;
        let mut path = String::new();
        let mut is_drawing = false;
        let skipped = points.len().saturating_sub(1) % STEP;
        for point in points.iter().skip(skipped).step_by(STEP) {
            let age = (end - point.at_ms) as f64 / 1000.0;
            let Some(value) = point.values[value].filter(|_| age <= seconds) else {
                is_drawing = false;
                continue;
            };
            let x = LEFT + PLOT_WIDTH * (1.0 - age / seconds);
            let y = TOP + PLOT_HEIGHT * (1.0 - value / limit);
            // Writing to a text cannot fail.
            let _ = write!(path, "{}{x:.1} {y:.1}", if is_drawing { 'L' } else { 'M' });
            is_drawing = true;
        }
        path
    }

    /// Draws the figures as a table.
    fn table<const N: usize>(&self, points: &[Point<N>]) -> Markup {
        let last = points.last().map_or(0, |point| point.at_ms);
        html! {
            details {
                summary { "Table" }
                div.scroll tabindex="0" role="region" aria-label=(format!("Table of {}", self.title)) {
                    table {
                        thead { tr {
                            th scope="col" { "Seconds ago" }
                            @for name in self.lines { th.figure scope="col" { (name) } }
                        } }
                        tbody {
                            @for point in points.iter().rev().step_by(TABLE_STEP) {
                                tr {
                                    th scope="row" { ((last - point.at_ms) / 1000) }
                                    @for at in 0..self.lines.len() {
                                        td.figure { (self.text(point.values[self.first + at])) }
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

/// Returns the class of a line by its number.
pub(crate) fn class(line: usize) -> &'static str {
    ["c1", "c2", "c3", "c4", "c5"][line % 5]
}

/// Rounds up to 1, 2 or 5 times a power of ten.
pub(crate) fn nice_limit(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let limits = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    limits
        .into_iter()
        .find(|limit| *limit >= value)
        .unwrap_or(10.0 * power)
}

/// Writes a value at the axis.
pub(crate) fn tick(value: f64) -> String {
    match value {
        value if value >= 1000.0 => format!("{}k", short(value / 1000.0)),
        value => short(value),
    }
}

/// Writes three significant digits without zeros at the end.
fn short(value: f64) -> String {
    let text = match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value if value >= 0.1 => format!("{value:.3}"),
        value => format!("{value:.4}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: Chart<'static> = Chart {
        title: "<b>",
        unit: "ms",
        first: 0,
        lines: &["<i>"],
        decimals: 3,
        seconds: 300,
    };

    fn point(at: u64, value: Option<f64>) -> Point<1> {
        let mut point = Point {
            at_ms: at * 1000,
            ..Point::default()
        };
        point.values[0] = value;
        point
    }

    #[test]
    fn scales_end_at_round_figures() {
        for (value, limit) in [
            (0.0, 1.0),
            (0.03, 0.05),
            (1.0, 1.0),
            (1.1, 2.0),
            (21.0, 50.0),
            (501.0, 1000.0),
        ] {
            assert!((nice_limit(value) - limit).abs() < 1e-9, "{value}");
        }
        assert_eq!(
            [tick(0.0), tick(0.25), tick(2000.0), tick(500.0)],
            ["0", "0.25", "2k", "500"]
        );
    }

    #[test]
    fn a_line_ends_now_and_has_gaps() {
        let points: Vec<Point<1>> = (0..10)
            .map(|at| point(at, (at != 6).then_some(1.0)))
            .collect();
        let drawn = CHART.path(&points, 0, 2.0);
        let right = LEFT + PLOT_WIDTH;
        let middle = TOP + PLOT_HEIGHT / 2.0;
        assert!(
            drawn.ends_with(&format!("{right:.1} {middle:.1}")),
            "{drawn}"
        );
        assert_eq!(drawn.matches('M').count(), 2, "{drawn}");
        assert_eq!(CHART.path::<1>(&[], 0, 1.0), "");
        let short = Chart {
            seconds: 3,
            ..CHART
        };
        let drawn = short.path(&points, 0, 2.0);
        assert!(drawn.starts_with(&format!("M{right:.1} ")), "{drawn}");
    }

    #[test]
    fn a_chart_has_its_table_and_names_only_as_text() {
        let points: Vec<Point<1>> = (0..31).map(|at| point(at, Some(1.0))).collect();
        let drawn = CHART.draw(&points).into_string();
        assert!(!drawn.contains("<b>") && !drawn.contains("<i>"));
        assert_eq!(drawn.matches("<th scope=\"row\">").count(), 3);
        assert!(CHART.draw::<1>(&[]).into_string().contains("–"));
    }
}

//! Charts of figures over time or over settings: lines with names, and the figures as a table.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::chart::{HEIGHT, LEFT, PLOT_HEIGHT, PLOT_WIDTH, TOP, WIDTH, class, nice_limit, tick};
use crate::format::NONE;

/// Most lines of one chart, as many as a reader can tell apart.
pub(crate) const MOST_LINES: usize = 5;
/// Length of the stroke that shows a single value.
const STROKE: f64 = 6.0;

/// Line of a chart.
#[derive(Debug)]
pub(crate) struct Line {
    /// Name of the line.
    pub(crate) name: String,
    /// Value at each place; `None` where nothing is known.
    pub(crate) values: Vec<Option<f64>>,
}

/// Horizontal axis: places that are equally far apart.
#[derive(Debug)]
pub(crate) struct Axis {
    /// Words that follow the title: `over In flight`.
    pub(crate) words: String,
    /// Heading of the places in the table.
    pub(crate) heading: &'static str,
    /// Words below the axis.
    pub(crate) ticks: Vec<Tick>,
    /// Rows of the table: the number of a place among the values, and its name.
    pub(crate) rows: Vec<(usize, String)>,
}

/// Words below the axis.
#[derive(Debug)]
pub(crate) struct Tick {
    /// Place as a share of the axis.
    pub(crate) share: f64,
    /// Side of the words that lies at the place.
    pub(crate) anchor: Option<&'static str>,
    /// Words themselves.
    pub(crate) words: String,
}

impl Axis {
    /// Returns the axis of named places, from left to right. `heading` is the word for all of them,
    /// such as `Second`.
    pub(crate) fn of_places(heading: &'static str, places: &[String]) -> Self {
        let last = places.len().saturating_sub(1);
        // Few fit beside each other on a phone.
        let shown: Vec<usize> = match last {
            0..=6 => (0..places.len()).collect(),
            _ => vec![0, last / 2, last],
        };
        let tick = |at: usize| Tick {
            share: at as f64 / last.max(1) as f64,
            anchor: match at {
                0 => None,
                at if at == last => Some("end"),
                _ => Some("middle"),
            },
            words: match at {
                0 => format!("{heading} {}", places[0]),
                at => places[at].clone(),
            },
        };
        Self {
            words: format!("over {heading}"),
            heading,
            ticks: shown.into_iter().map(tick).collect(),
            rows: places.iter().cloned().enumerate().collect(),
        }
    }
}

/// Chart of lines.
#[derive(Debug)]
pub(crate) struct LineChart<'a> {
    /// Title of the chart.
    pub(crate) title: &'a str,
    /// Unit of all values.
    pub(crate) unit: &'a str,
    /// Lines of the chart, at most [`MOST_LINES`].
    pub(crate) lines: Vec<Line>,
    /// Decimals of the values in words.
    pub(crate) decimals: usize,
    /// Value at the top; `None` for a round one above all values.
    pub(crate) limit: Option<f64>,
}

impl LineChart<'_> {
    /// Draws the chart over an axis.
    pub(crate) fn draw(&self, axis: &Axis) -> Markup {
        let values = self.lines.iter().flat_map(|line| &line.values).flatten();
        let greatest = values.copied().fold(0.0, f64::max);
        let limit = self.limit.unwrap_or_else(|| nice_limit(greatest));
        let label = format!("{} {}, in {}", self.title, axis.words, self.unit);
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
                    @for tick in &axis.ticks {
                        text x=(LEFT + PLOT_WIDTH * tick.share) y=(HEIGHT - 5.0) text-anchor=[tick.anchor] { (tick.words) }
                    }
                    @for (at, line) in self.lines.iter().enumerate() {
                        path.(class(at)) d=(outline(&line.values, limit)) {}
                    }
                }
                (self.table(axis))
            }
        }
    }

    fn text(&self, value: Option<f64>) -> String {
        let decimals = self.decimals;
        value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.decimals$}"))
    }

    /// Draws the figures as a table.
    fn table(&self, axis: &Axis) -> Markup {
        let label = format!("Table of {}", self.title);
        html! {
            details {
                summary { "Table" }
                div.scroll tabindex="0" role="region" aria-label=(label) {
                    table {
                        thead { tr {
                            th scope="col" { (axis.heading) }
                            @for line in &self.lines { th.figure scope="col" { (line.name) } }
                        } }
                        tbody {
                            @for (at, place) in &axis.rows {
                                tr {
                                    th scope="row" { (place) }
                                    @for line in &self.lines {
                                        td.figure { (self.text(line.values.get(*at).copied().flatten())) }
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
fn outline(values: &[Option<f64>], limit: f64) -> String {
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
    fn each_place_has_its_row_and_an_unknown_value_is_no_zero() {
        let chart = LineChart {
            title: "IOPS",
            unit: "<per second>",
            lines: vec![Line {
                name: "4K".to_owned(),
                values: vec![Some(1.0), None],
            }],
            decimals: 0,
            limit: None,
        };
        let places = ["1".to_owned(), "16".to_owned()];
        let axis = Axis::of_places("In flight", &places);
        let text = chart.draw(&axis).into_string();
        assert_eq!(text.matches("<th scope=\"row\">").count(), 2);
        assert!(
            text.contains("In flight 1") && text.contains(NONE),
            "{text}"
        );
        assert!(!text.contains("<per second>"));
    }

    #[test]
    fn of_many_places_three_are_named() {
        let places: Vec<String> = (0..60).map(|at: u32| at.to_string()).collect();
        let ticks = Axis::of_places("In flight", &places).ticks;
        let words: Vec<String> = ticks.into_iter().map(|it| it.words).collect();
        assert_eq!(words, ["In flight 0", "29", "59"]);
        assert!(Axis::of_places("In flight", &[]).ticks.is_empty());
    }

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

//! Charts of figures over the seconds of a measurement, or over settings: lines with names, and the
//! figures as a table below.

use maud::{Markup, html};

use crate::chart::{HEIGHT, LEFT, PLOT_HEIGHT, PLOT_WIDTH, TOP, WIDTH, class, nice_limit, tick};
use crate::format::NONE;
use crate::past::outline;

/// Most lines of one chart: so many can be told apart.
pub(crate) const MOST_LINES: usize = 5;

/// Line of a chart.
#[derive(Debug)]
pub(crate) struct Line {
    /// Name of the line.
    pub(crate) name: String,
    /// Value at each place; `None` where nothing is known.
    pub(crate) values: Vec<Option<f64>>,
}

/// Chart of lines over places that are equally far apart.
#[derive(Debug)]
pub(crate) struct LineChart<'a> {
    /// Title of the chart.
    pub(crate) title: &'a str,
    /// Unit of all values.
    pub(crate) unit: &'a str,
    /// Word for the places: `Second`, `In flight`.
    pub(crate) over: &'a str,
    /// Names of the places, from left to right.
    pub(crate) places: &'a [String],
    /// Lines of the chart, at most [`MOST_LINES`].
    pub(crate) lines: Vec<Line>,
    /// Decimals of the values in words.
    pub(crate) decimals: usize,
}

impl LineChart<'_> {
    /// Draws the chart.
    pub(crate) fn draw(&self) -> Markup {
        let values = self.lines.iter().flat_map(|line| &line.values).flatten();
        let limit = nice_limit(values.copied().fold(0.0, f64::max));
        let label = format!("{} over {}, in {}", self.title, self.over, self.unit);
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
                    @for (x, anchor, words) in self.ticks() {
                        text x=(x) y=(HEIGHT - 5.0) text-anchor=[anchor] { (words) }
                    }
                    @for (at, line) in self.lines.iter().enumerate() {
                        path.(class(at)) d=(outline(&line.values, limit)) {}
                    }
                }
                (self.table())
            }
        }
    }

    /// Returns the words below the axis: place, anchor and text of each.
    fn ticks(&self) -> Vec<(f64, Option<&'static str>, String)> {
        let last = self.places.len().saturating_sub(1);
        // Few fit beside each other on a phone.
        let shown: Vec<usize> = match last {
            0..=6 => (0..=last).collect(),
            _ => vec![0, last / 2, last],
        };
        let tick = |at: usize| {
            let share = at as f64 / last.max(1) as f64;
            let (anchor, word) = match at {
                0 => (None, format!("{} {}", self.over, self.places[0])),
                at if at == last => (Some("end"), self.places[at].clone()),
                at => (Some("middle"), self.places[at].clone()),
            };
            (LEFT + PLOT_WIDTH * share, anchor, word)
        };
        let shown = shown.into_iter().filter(|at| *at < self.places.len());
        shown.map(tick).collect()
    }

    fn text(&self, value: Option<f64>) -> String {
        let decimals = self.decimals;
        value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.decimals$}"))
    }

    /// Draws the figures as a table.
    fn table(&self) -> Markup {
        html! {
            details {
                summary { "Table" }
                div.scroll tabindex="0" role="region" aria-label=(format!("Table of {}", self.title)) {
                    table {
                        thead { tr {
                            th scope="col" { (self.over) }
                            @for line in &self.lines { th.figure scope="col" { (line.name) } }
                        } }
                        tbody {
                            @for (at, place) in self.places.iter().enumerate() {
                                tr {
                                    th scope="row" { (place) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(places: &[String]) -> LineChart<'_> {
        LineChart {
            title: "IOPS",
            unit: "<per second>",
            over: "In flight",
            places,
            lines: vec![Line {
                name: "4K".to_owned(),
                values: vec![Some(1.0), None],
            }],
            decimals: 0,
        }
    }

    #[test]
    fn each_place_has_its_row_and_an_unknown_value_is_no_zero() {
        let places = ["1".to_owned(), "16".to_owned()];
        let text = chart(&places).draw().into_string();
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
        let words: Vec<String> = chart(&places).ticks().into_iter().map(|it| it.2).collect();
        assert_eq!(words, ["In flight 0", "29", "59"]);
        assert!(chart(&[]).ticks().is_empty());
    }
}

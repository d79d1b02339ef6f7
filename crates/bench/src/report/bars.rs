//! Bars: a figure of several things. Each bar has its name above and its value at the end, and a
//! dot for every run of which it is the mean.

use maud::{Markup, html};

use super::scale::Scale;
use super::svg::{self, WIDTH, fitting, px};

/// Bar of a chart.
#[derive(Debug)]
pub(super) struct Bar {
    /// Meaning of the bar.
    pub(super) label: String,
    /// Parts from the left, each with its class.
    pub(super) parts: Vec<(String, f64)>,
    /// Single values whose mean the bar shows. A single dot is not drawn.
    pub(super) dots: Vec<f64>,
    /// Value in words.
    pub(super) value: String,
}

impl Bar {
    fn total(&self) -> f64 {
        self.parts.iter().map(|(_, value)| value).sum()
    }
}

/// Mark against which all bars are measured.
#[derive(Debug)]
pub(super) struct Mark {
    /// Values of the mark; there may be one for each direction.
    pub(super) at: Vec<f64>,
    /// Meaning of the values.
    pub(super) label: String,
}

impl Mark {
    fn greatest(&self) -> f64 {
        self.at.iter().copied().fold(0.0, f64::max)
    }
}

const ROW: f64 = 34.0;
const THICKNESS: f64 = 9.0;
const RIGHT: f64 = WIDTH - 6.0;

pub(super) fn draw(title: &str, unit: &str, bars: &[Bar], mark: Option<&Mark>) -> Markup {
    let values = bars
        .iter()
        .flat_map(|bar| bar.dots.iter().copied().chain([bar.total()]));
    let greatest = values.chain(mark.map(Mark::greatest)).fold(0.0, f64::max);
    let scale = Scale::linear_to(greatest);
    let x = |value: f64| scale.place(value) * RIGHT;
    let top = if mark.is_some() { 16.0 } else { 2.0 };
    let height = top + ROW * bars.len() as f64 + 4.0;
    let content = html! {
        @if let Some(mark) = mark {
            @for at in &mark.at {
                line.mark x1=(px(x(*at))) x2=(px(x(*at))) y1=(px(top)) y2=(px(height - 4.0)) {}
            }
            @let near_the_end = x(mark.greatest()) > RIGHT / 2.0;
            text.tick x=(px(x(mark.greatest()))) y="10" text-anchor=(if near_the_end { "end" } else { "start" }) {
                (fitting(&mark.label, RIGHT))
            }
        }
        @for (index, bar) in bars.iter().enumerate() {
            @let y = top + ROW * index as f64;
            text.name x="0" y=(px(y + 12.0)) { (fitting(&bar.label, RIGHT - 90.0)) title { (bar.label) } }
            text.value.halo x=(px(RIGHT)) y=(px(y + 12.0)) text-anchor="end" { (bar.value) }
            line.axis x1="0" x2=(px(RIGHT)) y1=(px(y + 17.0 + THICKNESS)) y2=(px(y + 17.0 + THICKNESS)) {}
            @for (class, from, to) in spans(bar) {
                rect class={ "bar " (class) } x=(px(x(from))) y=(px(y + 17.0)) width=(px(x(to) - x(from))) height=(px(THICKNESS)) {}
            }
            @if bar.dots.len() > 1 {
                @for value in &bar.dots {
                    circle.run cx=(px(x(*value))) cy=(px(y + 17.0 + THICKNESS / 2.0)) r="2.2" {}
                }
            }
        }
    };
    svg::figure(title, unit, WIDTH, height, content)
}

/// Returns class, begin and end of each part.
fn spans(bar: &Bar) -> Vec<(&str, f64, f64)> {
    let mut end = 0.0;
    let parts = bar.parts.iter();
    parts
        .map(|(class, value)| {
            let begin = end;
            end += value;
            (class.as_str(), begin, end)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(value: f64, dots: &[f64]) -> Bar {
        Bar {
            label: "<b>".into(),
            parts: vec![("s0".into(), value / 4.0), ("s1".into(), value * 0.75)],
            dots: dots.to_vec(),
            value: "x".into(),
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let drawn = draw("t", "u", &[bar(100.0, &[]), bar(50.0, &[50.0])], None).into_string();
        for part in [
            "width=\"88.5\"",
            "width=\"265.5\"",
            "x=\"88.5\"",
            "width=\"44.2\"",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(!drawn.contains("<circle"), "one value is the bar itself");
        assert!(drawn.contains("&lt;b&gt;") && !drawn.contains("<b>&"));
    }

    #[test]
    fn a_mark_beyond_all_bars_makes_room() {
        let mark = Mark {
            at: vec![50.0, 200.0],
            label: "the wire".into(),
        };
        let drawn = draw("t", "u", &[bar(100.0, &[90.0, 110.0])], Some(&mark)).into_string();
        assert!(drawn.contains("x1=\"354\"") && drawn.contains("the wire"));
        assert_eq!(drawn.matches("class=\"mark\"").count(), 2);
        assert_eq!(drawn.matches("<circle").count(), 2);
    }
}

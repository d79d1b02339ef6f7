//! Ranges on a logarithmic axis: from the median to the worst, with a dot at each percentile
//! between.

use maud::{Markup, html};

use super::scale::Scale;
use super::svg::{self, Plot, WIDTH, fitting, px};
use super::units;

/// Range on the axis.
#[derive(Debug)]
pub(super) struct Range {
    /// Meaning of the range.
    pub(super) label: String,
    /// Class of the range.
    pub(super) class: &'static str,
    /// Points p50, p99, p99.9 and the greatest, in nanoseconds.
    pub(super) points_ns: [f64; 4],
}

const ROW: f64 = 34.0;

pub(super) fn draw(title: &str, ranges: &[Range]) -> Markup {
    let values = || {
        ranges
            .iter()
            .flat_map(|range| range.points_ns)
            .filter(|value| *value > 0.0)
    };
    let least = values().fold(f64::INFINITY, f64::min);
    let greatest = values().fold(0.0, f64::max);
    let scale = Scale::logarithmic(if least.is_finite() { least } else { 1.0 }, greatest);
    let height = ROW * ranges.len() as f64 + 26.0;
    let plot = Plot {
        width: WIDTH,
        height,
        left: 6.0,
        right: WIDTH - 14.0,
        top: 0.0,
        bottom: height - 22.0,
    };
    let x = |value: f64| plot.x(scale.place(value));
    let content = html! {
        @for tick in &scale.ticks {
            line.grid x1=(px(x(*tick))) x2=(px(x(*tick))) y1="0" y2=(px(plot.bottom)) {}
        }
        (plot.lower_axis(&scale, units::time_tick))
        @for (index, range) in ranges.iter().enumerate() {
            @let y = ROW * index as f64 + 23.0;
            @let [p50, p99, p99_9, max] = range.points_ns;
            text.name.halo x=(px(plot.left)) y=(px(y - 11.0)) { (fitting(&range.label, plot.right)) title { (range.label) } }
            line class={ "range thin " (range.class) } x1=(px(x(p99_9))) x2=(px(x(max))) y1=(px(y)) y2=(px(y)) {}
            line class={ "range " (range.class) } x1=(px(x(p50))) x2=(px(x(p99_9))) y1=(px(y)) y2=(px(y)) {}
            circle class={ "bar " (range.class) } cx=(px(x(p50))) cy=(px(y)) r="4.5" { title { "median " (units::time(p50)) } }
            circle class={ "bar " (range.class) } cx=(px(x(p99))) cy=(px(y)) r="3.2" { title { "p99 " (units::time(p99)) } }
            circle class={ "bar " (range.class) } cx=(px(x(p99_9))) cy=(px(y)) r="2.2" { title { "p99.9 " (units::time(p99_9)) } }
            line class={ "range end " (range.class) } x1=(px(x(max))) x2=(px(x(max))) y1=(px(y - 4.0)) y2=(px(y + 4.0)) {}
        }
    };
    svg::figure(
        title,
        "● p50  ● p99  • p99.9  | worst",
        WIDTH,
        height,
        content,
    )
}

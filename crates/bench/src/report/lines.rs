//! Lines over an axis, each with its name at its end.

use maud::{Markup, html};

use super::scale::Scale;
use super::svg::{self, Plot, fitting, path, px};

/// A line.
#[derive(Debug)]
pub(super) struct Line {
    /// Name at the end of the line; empty for none.
    pub(super) label: String,
    /// Class of the line.
    pub(super) class: String,
    /// Points; `None` at a gap.
    pub(super) points: Vec<Option<(f64, f64)>>,
}

/// Picture of lines.
pub(super) struct Lines<'a> {
    /// Title of the picture.
    pub(super) title: &'a str,
    /// Unit of the axis at the left.
    pub(super) unit: &'a str,
    /// Meaning of the lower axis.
    pub(super) below: &'a str,
    /// Lower axis, and the texts of its ticks.
    pub(super) across: (Scale, &'a dyn Fn(f64) -> String),
    /// Axis at the left, and the texts of its ticks.
    pub(super) upward: (Scale, &'a dyn Fn(f64) -> String),
    /// Lines; the important ones come last.
    pub(super) lines: Vec<Line>,
    /// Whether the area below each is filled.
    pub(super) filled: bool,
}

/// Least distance between two labels.
const LABEL_HEIGHT: f64 = 12.0;

pub(super) fn draw(picture: &Lines<'_>) -> Markup {
    let plot = Plot::for_lines();
    let place = |point: &Option<(f64, f64)>| {
        point.map(|(x, y)| {
            (
                plot.x(picture.across.0.place(x)),
                plot.y(picture.upward.0.place(y)),
            )
        })
    };
    let placed: Vec<Vec<Option<(f64, f64)>>> = picture
        .lines
        .iter()
        .map(|line| line.points.iter().map(place).collect())
        .collect();
    let labels = labels(&plot, &picture.lines, &placed);
    let content = html! {
        (plot.left_axis(&picture.upward.0, picture.upward.1))
        (plot.lower_axis(&picture.across.0, picture.across.1))
        text.tick x=(px(plot.x(0.5))) y=(px(plot.height - 2.0)) text-anchor="middle" { (picture.below) }
        @for (line, points) in picture.lines.iter().zip(&placed) {
            @if picture.filled {
                path class={ "fill " (line.class) } d=(area(&plot, points)) {}
            }
            path class={ "line " (line.class) } d=(path(points)) {}
            @if let [Some((x, y))] = points[..] {
                circle class={ "dot " (line.class) } cx=(px(x)) cy=(px(y)) r="3" {}
            }
        }
        @for (y, text, class) in labels {
            text class={ "label " (class) } x=(px(plot.right + 5.0)) y=(px(y)) { (text) }
        }
    };
    svg::figure(
        picture.title,
        picture.unit,
        plot.width,
        plot.height,
        content,
    )
}

fn area(plot: &Plot, points: &[Option<(f64, f64)>]) -> String {
    let mut known = points.iter().flatten();
    let (Some(first), last) = (known.next(), known.next_back()) else {
        return String::new();
    };
    let last = last.unwrap_or(first);
    let floor = plot.bottom;
    format!(
        "{}L{} {}L{} {}Z",
        path(points),
        px(last.0),
        px(floor),
        px(first.0),
        px(floor)
    )
}

/// Places the names at the end of each line, moved apart if they would cover each other.
fn labels(
    plot: &Plot,
    lines: &[Line],
    placed: &[Vec<Option<(f64, f64)>>],
) -> Vec<(f64, String, String)> {
    let mut labels: Vec<(f64, String, String)> = lines
        .iter()
        .zip(placed)
        .filter(|(line, _)| !line.label.is_empty())
        .filter_map(|(line, points)| {
            let (_, y) = points.iter().rev().flatten().next()?;
            let text = fitting(&line.label, plot.width - plot.right - 5.0);
            Some((y + 3.5, text, line.class.clone()))
        })
        .collect();
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let lowest = plot.bottom + 3.5;
    let mut least = plot.top;
    for label in &mut labels {
        label.0 = label.0.max(least);
        least = label.0 + LABEL_HEIGHT;
    }
    let mut most = lowest;
    for label in labels.iter_mut().rev() {
        label.0 = label.0.min(most);
        most = label.0 - LABEL_HEIGHT;
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, y: f64) -> Line {
        Line {
            label: label.into(),
            class: "s0".into(),
            points: vec![Some((0.0, y)), Some((1.0, y))],
        }
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let plot = Plot::for_lines();
        let lines: Vec<Line> = (0..8).map(|n| line(&n.to_string(), f64::from(n))).collect();
        let placed: Vec<Vec<Option<(f64, f64)>>> = (0..8)
            .map(|n| vec![Some((0.0, 180.0 + f64::from(n)))])
            .collect();
        let labels = labels(&plot, &lines, &placed);
        let heights: Vec<f64> = labels.iter().map(|label| label.0).collect();
        assert!(
            heights
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= LABEL_HEIGHT - 1e-9),
            "{heights:?}"
        );
        assert!(heights.iter().all(|y| *y <= plot.bottom + 3.5));
        assert_eq!(labels[0].1, "0", "the order stays");
    }

    #[test]
    fn an_area_ends_on_the_floor() {
        let plot = Plot::for_lines();
        let points = [Some((10.0, 20.0)), Some((30.0, 40.0))];
        assert_eq!(area(&plot, &points), "M10 20L30 40L30 184L10 184Z");
        assert_eq!(area(&plot, &[None]), "");
    }
}

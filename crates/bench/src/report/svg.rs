//! The common parts of pictures: a plot area with axes, paths, and a caption.
//!
//! Pictures are as wide as a phone, and a page shows several side by side where there is room; so
//! letters have the same size everywhere. Colours are the style's: an element says only what it is
//! (`s0` the first series, `tick` a letter at an axis).

use maud::{Markup, html};

use super::scale::Scale;

/// The area that an axis encloses, in pixels of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    /// Width of the whole picture.
    pub(super) width: f64,
    /// Height of the whole picture.
    pub(super) height: f64,
    /// Left edge of the area.
    pub(super) left: f64,
    /// Its right edge.
    pub(super) right: f64,
    /// Its upper edge.
    pub(super) top: f64,
    /// Its lower edge.
    pub(super) bottom: f64,
}

/// Width of every picture.
pub(super) const WIDTH: f64 = 360.0;

/// About the width of a letter.
const LETTER: f64 = 6.2;

impl Plot {
    /// For lines: room for ticks at the left and below, and for labels at the right.
    pub(super) fn for_lines() -> Self {
        Self {
            width: WIDTH,
            height: 216.0,
            left: 50.0,
            right: WIDTH - 54.0,
            top: 12.0,
            bottom: 184.0,
        }
    }

    /// Pixels from the left of a place (0 to 1).
    pub(super) fn x(&self, place: f64) -> f64 {
        self.left + place * (self.right - self.left)
    }

    /// Pixels from the top of a place (0 to 1), which grows upwards.
    pub(super) fn y(&self, place: f64) -> f64 {
        self.bottom - place * (self.bottom - self.top)
    }

    /// Ticks at the left with lines across.
    pub(super) fn left_axis(&self, scale: &Scale, text: impl Fn(f64) -> String) -> Markup {
        html! {
            @for tick in &scale.ticks {
                @let y = self.y(scale.place(*tick));
                line.grid x1=(px(self.left)) x2=(px(self.right)) y1=(px(y)) y2=(px(y)) {}
                text.tick x=(px(self.left - 6.0)) y=(px(y + 3.5)) text-anchor="end" { (text(*tick)) }
            }
        }
    }

    /// Ticks below. Those that would touch the one before are left out.
    pub(super) fn lower_axis(&self, scale: &Scale, text: impl Fn(f64) -> String) -> Markup {
        let mut taken = f64::NEG_INFINITY;
        let mut shown = Vec::new();
        for tick in &scale.ticks {
            let (x, label) = (self.x(scale.place(*tick)), text(*tick));
            let half = label.chars().count() as f64 * LETTER / 2.0;
            let fits = x - half > taken + 4.0 && x + half < self.width;
            if fits {
                taken = x + half;
            }
            shown.push((x, fits.then_some(label)));
        }
        html! {
            line.axis x1=(px(self.left)) x2=(px(self.right)) y1=(px(self.bottom)) y2=(px(self.bottom)) {}
            @for (x, label) in shown {
                line.axis x1=(px(x)) x2=(px(x)) y1=(px(self.bottom)) y2=(px(self.bottom + 4.0)) {}
                @if let Some(label) = label {
                    text.tick x=(px(x)) y=(px(self.bottom + 16.0)) text-anchor="middle" { (label) }
                }
            }
        }
    }
}

/// A coordinate: a tenth of a pixel is enough.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// A path through points; where one is missing it begins anew.
pub(super) fn path(points: &[Option<(f64, f64)>]) -> String {
    let mut text = String::new();
    let mut goes_on = false;
    for point in points {
        if let Some((x, y)) = point {
            text.push(if goes_on { 'L' } else { 'M' });
            text.push_str(&px(*x));
            text.push(' ');
            text.push_str(&px(*y));
        }
        goes_on = point.is_some();
    }
    text
}

/// As many letters as fit into so many pixels.
pub(super) fn fitting(text: &str, pixels: f64) -> String {
    let most = (pixels / LETTER).max(1.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

/// A picture with what it shows in words above it, and the unit beside.
pub(super) fn figure(title: &str, unit: &str, width: f64, height: f64, content: Markup) -> Markup {
    html! {
        figure {
            figcaption { b { (title) } @if !unit.is_empty() { " " span.unit { (unit) } } }
            svg viewBox=(format!("0 0 {} {}", px(width), px(height))) role="img" aria-label=(title) { (content) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!(
            [px(1.0), px(0.04), px(-0.04), px(12.34)],
            ["1", "0", "0", "12.3"]
        );
    }

    #[test]
    fn paths_begin_anew_after_a_gap() {
        let points = [Some((0.0, 1.0)), Some((2.5, 3.0)), None, Some((4.0, 4.0))];
        assert_eq!(path(&points), "M0 1L2.5 3M4 4");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(fitting("abc", 100.0), "abc");
        assert_eq!(fitting("abcdefghijklmnopqrstuvwxyz", 62.0), "abcdefghi…");
    }

    #[test]
    fn ticks_do_not_touch() {
        let plot = Plot::for_lines();
        let scale = Scale::linear_to(30.0);
        let axis = plot
            .lower_axis(&scale, |tick| format!("{tick} and many letters"))
            .into_string();
        assert!(axis.matches("<text").count() < scale.ticks.len());
        assert_eq!(axis.matches("<line").count(), scale.ticks.len() + 1);
    }
}

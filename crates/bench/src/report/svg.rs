//! Common parts of pictures: a plot area with axes, paths, and a caption.
//!
//! A picture is as wide as a phone, and a page shows several side by side if there is room. So
//! letters have one size everywhere. Colours belong to the style: an element states only its role
//! (`s0` the first series, `tick` a letter at an axis).

use maud::{Markup, html};

use super::scale::Scale;

/// Area that an axis encloses, in pixels of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    /// Width of the whole picture.
    pub(super) width: f64,
    /// Height of the whole picture.
    pub(super) height: f64,
    /// Left edge of the area.
    pub(super) left: f64,
    /// Right edge of the area.
    pub(super) right: f64,
    /// Upper edge of the area.
    pub(super) top: f64,
    /// Lower edge of the area.
    pub(super) bottom: f64,
}

/// Width of every picture.
pub(super) const WIDTH: f64 = 360.0;

/// Approximate width of a letter.
const LETTER: f64 = 6.2;

impl Plot {
    /// Returns the area for lines, with room for ticks at the left and below, and for labels at the
    /// right.
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

    /// Returns the pixels from the left for a place (0 to 1).
    pub(super) fn x(&self, place: f64) -> f64 {
        self.left + place * (self.right - self.left)
    }

    /// Returns the pixels from the top for a place (0 to 1), which grows upwards.
    pub(super) fn y(&self, place: f64) -> f64 {
        self.bottom - place * (self.bottom - self.top)
    }

    /// Draws ticks at the left, with lines across.
    pub(super) fn left_axis(&self, scale: &Scale, text: impl Fn(f64) -> String) -> Markup {
        html! {
            @for tick in &scale.ticks {
                @let y = self.y(scale.place(*tick));
                line.grid x1=(px(self.left)) x2=(px(self.right)) y1=(px(y)) y2=(px(y)) {}
                text.tick x=(px(self.left - 6.0)) y=(px(y + 3.5)) text-anchor="end" { (text(*tick)) }
            }
        }
    }

    /// Draws ticks below. A tick that would touch the one before is left out.
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

/// Formats a coordinate; a tenth of a pixel is enough.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Draws a path through points. At a missing point it begins anew.
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

/// Cuts a text to the letters that fit into a number of pixels.
pub(super) fn fitting(text: &str, pixels: f64) -> String {
    let most = (pixels / LETTER).max(1.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

/// Builds a picture with its title in words above and the unit beside.
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

//! Axis of the charts of the past: from some time ago until now.

use super::merge::Past;
use super::span::Shown;
use crate::format::time;
use crate::line_chart::{Axis, Tick};

/// Rows of the table behind a chart.
const ROWS: usize = 24;

/// Returns the axis of a past. The table behind a chart begins with the newest figures.
pub(super) fn axis(past: &Past, shown: &Shown) -> Axis {
    let tick = |share, anchor, words| Tick {
        share,
        anchor,
        words,
    };
    let step = past.unix_s.len().div_ceil(ROWS).max(1);
    let steps = past.unix_s.iter().enumerate().rev().step_by(step);
    Axis {
        words: format!("of the last {}", shown.label),
        heading: "From",
        ticks: vec![
            tick(0.0, None, format!("{} ago", shown.label)),
            tick(0.5, Some("middle"), format!("{} ago", shown.half)),
            tick(1.0, Some("end"), "now".to_owned()),
        ],
        rows: steps.map(|(at, unix_s)| (at, time(*unix_s))).collect(),
    }
}

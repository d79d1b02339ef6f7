//! Times that charts of the past can show. Each is a part of a span of the history, in steps that
//! leave some hundred points.

use maud::Markup;
use model::history::Span;

use crate::choice::Choice;
use crate::visit::Visit;

/// Time that charts show.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Value of the parameter; empty for the usual time.
    pub(crate) word: &'static str,
    /// Time in words.
    pub(crate) label: &'static str,
    /// Half of the time in words.
    pub(crate) half: &'static str,
    /// Span of the history that covers it.
    pub(crate) span: Span,
    /// Steps of the history that are shown.
    pub(crate) steps: usize,
    /// Steps of the history that become one point.
    pub(crate) joined: usize,
}

const ALL: [Shown; 5] = [
    shown("6h", "6 h", "3 h", Span::SixHours, 360, 2),
    shown("", "24 h", "12 h", Span::FourteenDays, 144, 1),
    shown("7d", "7 d", "84 h", Span::FourteenDays, 1008, 6),
    shown("30d", "30 d", "15 d", Span::TwoYears, 120, 1),
    shown("2y", "2 y", "1 y", Span::TwoYears, 2920, 20),
];

const fn shown(
    word: &'static str,
    label: &'static str,
    half: &'static str,
    span: Span,
    steps: usize,
    joined: usize,
) -> Shown {
    Shown {
        word,
        label,
        half,
        span,
        steps,
        joined,
    }
}

impl Shown {
    /// Returns the time that a visit asks for: 24 hours, unless it names another.
    pub(crate) fn of(visit: &Visit) -> &'static Self {
        let word = visit.query.get("span");
        let found = ALL.iter().find(|shown| shown.word == word);
        found.unwrap_or(&ALL[1])
    }

    /// Returns the length of the time in seconds.
    pub(crate) fn seconds(&self) -> u64 {
        let step_s = match self.span {
            Span::SixHours => 60,
            Span::FourteenDays => 600,
            Span::TwoYears => 21_600,
        };
        self.steps as u64 * step_s
    }
}

/// Shows the choice of a time, as links.
pub(crate) fn choice(visit: &Visit) -> Markup {
    let options = ALL.each_ref().map(|shown| (shown.word, shown.label));
    let choice = Choice {
        label: "The last",
        name: "span",
        options: &options,
        anchor: "past",
    };
    choice.draw(visit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_as_long_as_it_says_and_has_whole_points() {
        let hours = ALL.each_ref().map(|shown| shown.seconds() / 3600);
        assert_eq!(hours, [6, 24, 7 * 24, 30 * 24, 2 * 365 * 24]);
        for shown in &ALL {
            assert!(shown.steps.is_multiple_of(shown.joined), "{shown:?}");
            let points = shown.steps / shown.joined;
            assert!((100..=200).contains(&points), "{shown:?}");
        }
    }
}

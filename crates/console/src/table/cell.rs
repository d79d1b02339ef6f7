//! Cells: a value as people read it, and as sorting and exports take it.

use std::cmp::Ordering;

use maud::{Markup, html};

use crate::format;
use crate::mark::State;

/// Value for sorting and for exports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// Text, in which runs of digits count as numbers.
    Text(String),
    /// Number.
    Number(f64),
    /// Value that is not known, which comes last.
    Unknown,
}

impl Order {
    /// Compares values, in rising order.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => natural(a, b),
            (Self::Unknown, Self::Unknown) => Ordering::Equal,
            (Self::Unknown, _) => Ordering::Greater,
            (_, Self::Unknown) => Ordering::Less,
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

/// Cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Text for people, for filters and for CSV.
    pub(crate) text: String,
    /// Value for sorting and JSON.
    pub(crate) order: Order,
    link: Option<String>,
    state: Option<State>,
    markup: Option<Markup>,
    depth: usize,
    is_time: bool,
}

/// Classes of texts by their depth in a tree.
const DEPTHS: [&str; 4] = ["t", "t in1", "t in2", "t in3"];

impl Cell {
    /// Returns a cell with text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            order: Order::Text(text.clone()),
            text,
            link: None,
            state: None,
            markup: None,
            depth: 0,
            is_time: false,
        }
    }

    /// Returns a cell with a point in time, in seconds since 1970.
    pub(crate) fn time(unix_s: u64) -> Self {
        Self {
            is_time: true,
            ..Self::text(format::time(unix_s))
        }
    }

    /// Returns a cell with a number and the text for it.
    pub(crate) fn figure(value: f64, text: impl Into<String>) -> Self {
        Self {
            order: Order::Number(value),
            ..Self::text(text)
        }
    }

    /// Returns a cell with a number that may be unknown.
    pub(crate) fn maybe(value: Option<f64>, text: impl Into<String>) -> Self {
        match value {
            Some(value) => Self::figure(value, text),
            None => Self::unknown(),
        }
    }

    /// Returns a cell without a value.
    pub(crate) fn unknown() -> Self {
        Self {
            order: Order::Unknown,
            ..Self::text(format::NONE)
        }
    }

    /// Returns a cell with a count.
    pub(crate) fn count(value: u64) -> Self {
        Self::figure(value as f64, format::count(value))
    }

    /// Returns a cell with a size in bytes.
    pub(crate) fn size(bytes: u64) -> Self {
        Self::figure(bytes as f64, format::size(bytes))
    }

    /// Returns a cell that leads to a page.
    pub(crate) fn link(self, path: impl Into<String>) -> Self {
        Self {
            link: Some(path.into()),
            ..self
        }
    }

    /// Returns a cell with a state and its word.
    pub(crate) fn state(state: State, word: impl Into<String>) -> Self {
        Self {
            state: Some(state),
            ..Self::text(word)
        }
    }

    /// Returns a cell whose markup is more than text, such as buttons.
    pub(crate) fn markup(self, markup: Markup) -> Self {
        Self {
            markup: Some(markup),
            ..self
        }
    }

    /// Returns a cell that stands further to the right, as a part of a row above.
    pub(crate) fn indented(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    /// Shows the content of a column of texts.
    pub(super) fn show_text(&self) -> Markup {
        match (&self.markup, &self.link, self.state) {
            (None, None, None) if !self.text.is_empty() => {
                let class = match self.is_time {
                    true => "t when",
                    false => DEPTHS[self.depth.min(DEPTHS.len() - 1)],
                };
                html! { span class=(class) { (self.text) } }
            }
            _ => self.show(),
        }
    }

    /// Shows the content.
    pub(super) fn show(&self) -> Markup {
        html! {
            @match (&self.markup, &self.link, self.state) {
                (Some(markup), ..) => (markup),
                (None, Some(path), _) => a.name href=(path) title=(self.text) { (self.text) },
                (None, None, Some(state)) => (state.show(&self.text)),
                (None, None, None) => (self.text),
            }
        }
    }
}

/// Compares texts in which runs of digits count as numbers: `vol2` comes before `vol10`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.chars().peekable(), b.chars().peekable());
    // Capitals only decide between names that are otherwise equal.
    let mut tie = Ordering::Equal;
    loop {
        match (a.peek().copied(), b.peek().copied()) {
            (None, None) => return tie,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let order = digits(&mut a).cmp(&digits(&mut b));
                if order != Ordering::Equal {
                    return order;
                }
            }
            (Some(x), Some(y)) => {
                let order = x.to_lowercase().cmp(y.to_lowercase());
                if order != Ordering::Equal {
                    return order;
                }
                tie = tie.then(x.cmp(&y));
                a.next();
                b.next();
            }
        }
    }
}

/// Takes a run of digits: its length without leading zeros, and the digits.
fn digits(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> (usize, String) {
    let mut run = String::new();
    while let Some(digit) = letters.next_if(char::is_ascii_digit) {
        if !(digit == '0' && run.is_empty()) {
            run.push(digit);
        }
    }
    (run.len(), run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["vol10", "vol2", "Vol1", "vol02a", "a", "vol"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "vol", "Vol1", "vol2", "vol02a", "vol10"]);
        assert_eq!(
            natural("x99999999999999999999999", "x100000000000000000000000"),
            Ordering::Less
        );
    }

    #[test]
    fn unknown_values_come_last() {
        let mut all = [
            Order::Unknown,
            Order::Number(2.0),
            Order::Text("a".into()),
            Order::Number(1.0),
        ];
        all.sort_by(Order::compare);
        assert_eq!(all[0], Order::Number(1.0));
        assert_eq!(all[3], Order::Unknown);
    }
}

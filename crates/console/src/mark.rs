//! States of objects, each told by a shape, a word and a colour.

use maud::{Markup, html};

/// State of an object, told by a shape, a word and a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// All is well.
    Good,
    /// Nothing is wrong, but it is off by intent, or waits.
    Quiet,
    /// An administrator should look at it.
    Warn,
    /// An administrator must act.
    Bad,
}

impl State {
    /// Returns the class of the colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Quiet => "off",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    /// Returns the shape.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Good => "●",
            Self::Quiet => "○",
            Self::Warn => "▲",
            Self::Bad => "■",
        }
    }

    /// Shows a word in this state.
    pub(crate) fn show(self, word: &str) -> Markup {
        html! { span.state.(self.class()) { span aria-hidden="true" { (self.mark()) " " } (word) } }
    }
}

//! Choices as links: each leads to the same page with another value of one parameter, so a choice
//! can be bookmarked and needs no script.

use maud::{Markup, html};

use crate::format::escape;
use crate::visit::Visit;

/// Choice of the value of a parameter.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    /// Words before the options.
    pub(crate) label: &'a str,
    /// Name of the parameter.
    pub(crate) name: &'a str,
    /// Values with their words. The empty value leaves the parameter out.
    pub(crate) options: &'a [(&'a str, &'a str)],
    /// Part of the page to which the links lead; empty for its beginning.
    pub(crate) anchor: &'a str,
}

impl Choice<'_> {
    /// Shows the options, with the present one marked.
    pub(crate) fn draw(&self, visit: &Visit) -> Markup {
        let now = visit.query.get(self.name);
        let is_known = self.options.iter().any(|(value, _)| *value == now);
        let now = if is_known { now } else { "" };
        html! {
            p.choice {
                span.quiet { (self.label) }
                @for (value, word) in self.options {
                    " " a href=(self.address(visit, value))
                        aria-current=[(*value == now).then_some("true")] { (word) }
                }
            }
        }
    }

    /// Returns the address of the present page with another value. The first rows of a list are
    /// shown again.
    fn address(&self, visit: &Visit, value: &str) -> String {
        let all = visit.query.0.iter();
        let all = all.map(|(name, value)| (name.as_str(), value.as_str()));
        let kept =
            all.filter(|(name, value)| ![self.name, "offset"].contains(name) && !value.is_empty());
        let own = (!value.is_empty()).then_some((self.name, value));
        let pairs = kept.chain(own);
        let pairs = pairs.map(|(name, value)| format!("{}={}", escape(name), escape(value)));
        let pairs: Vec<String> = pairs.collect();
        let anchor = match self.anchor {
            "" => String::new(),
            anchor => format!("#{anchor}"),
        };
        match pairs.is_empty() {
            true => format!("{}{anchor}", visit.path()),
            false => format!("{}?{}{anchor}", visit.path(), pairs.join("&")),
        }
    }
}

//! Parts of the forms of wizards: one of several answers, some of several answers, and warnings.

use maud::{Markup, html};

use crate::visit::Visit;

/// One of several answers.
pub(super) struct Choice<'a> {
    /// Value of the field.
    pub(super) value: &'a str,
    /// Answer in a few words.
    pub(super) label: Markup,
    /// Remark below the answer; empty for none.
    pub(super) hint: Markup,
    /// Whether the answer can be chosen.
    pub(super) is_open: bool,
}

impl<'a> Choice<'a> {
    /// Returns an answer without a remark.
    pub(super) fn new(value: &'a str, label: Markup) -> Self {
        Self {
            value,
            label,
            hint: html! {},
            is_open: true,
        }
    }

    /// Adds a remark below the answer.
    pub(super) fn hint(self, hint: Markup) -> Self {
        Self { hint, ..self }
    }

    /// Lets the answer be chosen, or not.
    pub(super) fn open(self, is_open: bool) -> Self {
        Self { is_open, ..self }
    }
}

/// Shows answers of which one is chosen.
pub(super) fn one_of(name: &str, legend: &str, chosen: &str, all: &[Choice<'_>]) -> Markup {
    pick(name, legend, "radio", &|value| value == chosen, all)
}

/// Shows answers of which any may be chosen.
pub(super) fn some_of(name: &str, legend: &str, chosen: &[&str], all: &[Choice<'_>]) -> Markup {
    pick(
        name,
        legend,
        "checkbox",
        &|value| chosen.contains(&value),
        all,
    )
}

fn pick(
    name: &str,
    legend: &str,
    kind: &str,
    is_chosen: &dyn Fn(&str) -> bool,
    all: &[Choice<'_>],
) -> Markup {
    html! {
        fieldset.options {
            legend { (legend) }
            @for (at, choice) in all.iter().enumerate() {
                @let id = format!("field-{name}-{at}");
                div.option {
                    input type=(kind) id=(id) name=(name) value=(choice.value)
                        checked[choice.is_open && is_chosen(choice.value)] disabled[!choice.is_open];
                    div {
                        label for=(id) { (choice.label) }
                        @if !choice.hint.0.is_empty() { div.hint { (choice.hint) } }
                    }
                }
            }
        }
    }
}

/// Returns all values of a field that may be sent several times.
pub(super) fn values<'a>(visit: &'a Visit, name: &str) -> Vec<&'a str> {
    let fields = visit.form.0.iter().filter(|(of, _)| of == name);
    let values = fields.map(|(_, value)| value.trim());
    values.filter(|value| !value.is_empty()).collect()
}

/// Shows a remark that someone should look at.
pub(super) fn warning(words: Markup) -> Markup {
    html! { p.state.warn { span aria-hidden="true" { "▲ " } (words) } }
}

/// Shows a remark that something is lost.
pub(super) fn danger(words: Markup) -> Markup {
    html! { p.state.bad { span aria-hidden="true" { "■ " } (words) } }
}

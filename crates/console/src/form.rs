//! Parts of forms: labelled fields, buttons, and the problem that a form was refused for.

use maud::{Markup, html};
use model::Error;

use super::visit::Visit;

/// Field of a form.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Field<'a> {
    /// Name under which the value is sent.
    pub(crate) name: &'a str,
    /// Label for people.
    pub(crate) label: &'a str,
    /// Sentence below the field.
    pub(crate) hint: &'a str,
    /// Value at first.
    pub(crate) value: &'a str,
    /// Whether the field may be empty.
    pub(crate) is_optional: bool,
    /// Whether the field is needed only with another answer of its form.
    pub(crate) is_conditional: bool,
    /// Beginning of the field's identity, where forms of one page share names.
    pub(crate) form: &'a str,
    /// Kind of what browsers fill in: `username`, `current-password`, `off`.
    pub(crate) autocomplete: &'a str,
}

impl<'a> Field<'a> {
    /// Returns a field that must be filled in.
    pub(crate) fn new(name: &'a str, label: &'a str) -> Self {
        Self {
            name,
            label,
            autocomplete: "off",
            ..Self::default()
        }
    }

    /// Adds a sentence below the field.
    pub(crate) fn hint(self, hint: &'a str) -> Self {
        Self { hint, ..self }
    }

    /// Sets the value at first, such as the one that was refused.
    pub(crate) fn value(self, value: &'a str) -> Self {
        Self { value, ..self }
    }

    /// Lets the field be empty.
    pub(crate) fn optional(self) -> Self {
        Self {
            is_optional: true,
            ..self
        }
    }

    /// Marks a field that is needed only with another answer, so that no browser asks for it.
    pub(crate) fn conditional(self) -> Self {
        Self {
            is_conditional: true,
            ..self
        }
    }

    /// Names the form of the field, where forms of one page share names.
    pub(crate) fn within(self, form: &'a str) -> Self {
        Self { form, ..self }
    }

    /// Names what browsers fill in.
    pub(crate) fn autocomplete(self, autocomplete: &'a str) -> Self {
        Self {
            autocomplete,
            ..self
        }
    }

    /// Returns the field as a line of text.
    pub(crate) fn text(self) -> Markup {
        self.around(self.input("text", None))
    }

    /// Returns the field as a number.
    pub(crate) fn number(self) -> Markup {
        self.around(self.input("number", None))
    }

    /// Returns the field as a password, which is never shown again.
    pub(crate) fn password(self) -> Markup {
        let field = Self { value: "", ..self };
        self.around(field.input("password", None))
    }

    /// Returns the field as a line of text with suggestions.
    pub(crate) fn suggesting(self, suggestions: &[String]) -> Markup {
        let list = format!("{}-list", self.id());
        self.around(html! {
            (self.input("text", Some(&list)))
            (suggestions_of(&list, suggestions))
        })
    }

    /// Returns the field as a line of text with the suggestions of a list elsewhere on the page.
    /// Lists of thousands thus are there once.
    pub(crate) fn suggested_by(self, list: &str) -> Markup {
        self.around(self.input("text", Some(list)))
    }

    fn input(self, kind: &str, list: Option<&str>) -> Markup {
        html! {
            input type=(kind) id=(self.id()) name=(self.name) value=[(kind != "password").then_some(self.value)]
                required[self.is_required()] autocomplete=(self.autocomplete) spellcheck="false"
                list=[list] aria-describedby=[self.described()];
        }
    }

    /// Returns the field as text of several lines.
    pub(crate) fn area(self, rows: u32) -> Markup {
        self.around(html! {
            textarea id=(self.id()) name=(self.name) rows=(rows) required[self.is_required()]
                spellcheck="false" aria-describedby=[self.described()] { (self.value) }
        })
    }

    /// Returns the field as a choice among pairs of value and label.
    pub(crate) fn choice(self, options: &[(String, String)]) -> Markup {
        self.around(html! {
            select id=(self.id()) name=(self.name) aria-describedby=[self.described()] {
                @for (value, label) in options {
                    option value=(value) selected[value == self.value] { (label) }
                }
            }
        })
    }

    fn around(self, control: Markup) -> Markup {
        html! {
            div.field {
                label for=(self.id()) { (self.label) @if self.is_optional { span.optional { " (optional)" } } }
                (control)
                @if !self.hint.is_empty() { p.hint id=(format!("{}-hint", self.id())) { (self.hint) } }
            }
        }
    }

    fn is_required(self) -> bool {
        !self.is_optional && !self.is_conditional
    }

    fn id(self) -> String {
        format!("field-{}{}", self.form, self.name)
    }

    fn described(self) -> Option<String> {
        (!self.hint.is_empty()).then(|| format!("{}-hint", self.id()))
    }
}

/// Returns a list of suggestions for fields. People do not see the list itself.
pub(crate) fn suggestions_of(list: &str, suggestions: &[String]) -> Markup {
    html! { datalist id=(list) { @for text in suggestions { option value=(text) {} } } }
}

/// Returns a box to check.
pub(crate) fn check(name: &str, label: &str, is_checked: bool) -> Markup {
    let id = format!("field-{name}");
    html! {
        div.check {
            input type="checkbox" id=(id) name=(name) value="yes" checked[is_checked];
            label for=(id) { (label) }
        }
    }
}

/// Returns a field that people do not see.
pub(crate) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// Returns the name of the user whose password a form takes. People do not see it. It tells
/// browsers and their stores of passwords whose password this is.
pub(crate) fn user_name(visit: &Visit) -> Markup {
    let name = visit.reader().map_or("", |reader| reader.name.as_str());
    html! { input type="text" name="user" value=(name) autocomplete="username" hidden; }
}

/// Returns a form that is sent to an act.
pub(crate) fn form(action: &str, content: Markup) -> Markup {
    html! { form.form method="post" action=(action) { (content) } }
}

/// Returns the button that sends a form, after the fields.
pub(crate) fn submit(label: &str) -> Markup {
    html! { div.buttons { button.primary type="submit" { (label) } } }
}

/// Returns a form that is one button. A reader whose role is too low sees it disabled, with the
/// role that it needs.
pub(crate) fn button(
    visit: &Visit,
    role: model::access::Role,
    action: &str,
    label: &str,
    fields: &[(&str, &str)],
) -> Markup {
    let may = visit.has_role(role);
    let needs = format!("needs the role {role}");
    html! {
        form.inline method="post" action=(action) {
            @for (name, value) in fields { (hidden(name, value)) }
            button type="submit" disabled[!may] title=[(!may).then_some(&needs)] { (label) }
        }
    }
}

/// Returns a link to a page with a form, such as a wizard. A reader whose role is too low sees a
/// disabled button, with the role that it needs.
pub(crate) fn lead(visit: &Visit, role: model::access::Role, path: &str, label: &str) -> Markup {
    let needs = format!("needs the role {role}");
    html! {
        @if visit.has_role(role) { a.button href=(path) { (label) } }
        @else { button type="button" disabled title=(needs) { (label) } }
    }
}

/// Shows why something was refused, in the four fields of an error.
pub(crate) fn problem(error: &Error) -> Markup {
    html! {
        section.problem role="alert" aria-label="What was refused" {
            p.problem-message { span.mark aria-hidden="true" { "■ " } (sentence(&error.message)) }
            dl {
                dt { "Not changed" } dd { (sentence(&error.not_changed)) }
                @if !error.next.is_empty() { dt { "What to do" } dd { (sentence(&error.next)) } }
                dt { "Kind" } dd { code { (error.kind.as_str()) } }
            }
        }
    }
}

/// Returns a clause as a sentence: with a capital letter and a full stop. Names and commands keep
/// their spelling.
pub(crate) fn sentence(clause: &str) -> String {
    let is_word = clause
        .split_whitespace()
        .next()
        .is_some_and(|word| word.chars().all(|it| it.is_ascii_lowercase() || it == ','));
    let is_command = clause.starts_with("sandstone ");
    let mut text = String::with_capacity(clause.len() + 1);
    let mut letters = clause.chars();
    if let Some(first) = letters.next().filter(|_| is_word && !is_command) {
        text.extend(first.to_uppercase());
        text.push_str(letters.as_str());
    } else {
        text.push_str(clause);
    }
    if !text.is_empty() && !is_command && !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_become_sentences_and_commands_stay() {
        for (clause, expected) in [
            ("nothing was changed", "Nothing was changed."),
            ("sandstone lu list", "sandstone lu list"),
            ("iqn.2026-01.a:b is wrong", "iqn.2026-01.a:b is wrong."),
            ("Done.", "Done."),
            ("", ""),
        ] {
            assert_eq!(sentence(clause), expected);
        }
    }

    #[test]
    fn a_password_is_never_sent_back() {
        let field = Field::new("password", "Password").value("secret");
        assert!(!field.password().into_string().contains("secret"));
    }

    #[test]
    fn values_are_escaped() {
        let hostile = "\"><script>alert(1)</script>";
        let field = Field::new("name", hostile).value(hostile).hint(hostile);
        let options = [(hostile.to_owned(), hostile.to_owned())];
        let all = [
            field.text(),
            field.area(3),
            field.choice(&options),
            hidden("a", hostile),
        ];
        for markup in all {
            let text = markup.into_string();
            assert!(
                !text.contains("<script") && text.contains("&lt;script"),
                "{text}"
            );
        }
    }
}

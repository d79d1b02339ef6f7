//! Previews: a form that changes something first shows what would change, and which sessions lose
//! something. The confirmation carries what was seen, so that nothing else is done.

use config::diff::{Action, Difference, FieldChange};
use config::validate::SECRET_NOT_SHOWN;
use control::Endpoint;
use control::transaction::{Commit, Committed, SessionEffect};
use maud::{Markup, html};
use model::Error;
use serde_json::Value;

use super::answer::Answer;
use super::form::hidden;
use super::frame::Page;
use super::visit::Visit;

/// Field that a confirmation carries.
pub(crate) const CONFIRMED: &str = "confirmed";
/// Field with the digest of the effect that was seen.
pub(crate) const EFFECT: &str = "effect";

/// Words around a change.
#[derive(Clone, Debug)]
pub(crate) struct Asking<'a> {
    /// Title of the preview, as a question or an imperative: `Take db offline`.
    pub(crate) title: String,
    /// Label of the button that makes the change.
    pub(crate) label: &'a str,
    /// Path to which the reader returns, with or without the change.
    pub(crate) back: String,
    /// Message after the change.
    pub(crate) done: String,
}

/// Makes a change of the configuration in two steps. The first request gets a preview. The
/// confirmation makes exactly the change that the preview showed.
///
/// # Errors
/// The endpoint refuses the change.
pub(crate) fn change<B: serde::Serialize + 'static>(
    visit: &Visit,
    endpoint: &Endpoint<Commit, B, Committed>,
    at: &[&str],
    body: B,
    asking: &Asking<'_>,
) -> Result<Answer, Error> {
    change_and(visit, endpoint, at, body, asking, |committed| committed)
}

/// Makes a change as [`change`] does, where the answer holds more than the change.
///
/// # Errors
/// The endpoint refuses the change.
pub(crate) fn change_and<B: serde::Serialize + 'static, A: 'static>(
    visit: &Visit,
    endpoint: &Endpoint<Commit, B, A>,
    at: &[&str],
    body: B,
    asking: &Asking<'_>,
    committed: fn(&A) -> &Committed,
) -> Result<Answer, Error> {
    let is_confirmed = is_confirmed(visit);
    let how = Commit {
        dry_run: !is_confirmed,
        cascade: visit.form.is_checked("cascade"),
        if_effect: visit.form.some(EFFECT).map(str::to_owned),
        ..Commit::default()
    };
    let answer = visit.ask(endpoint, at, how, body)?;
    match is_confirmed {
        true => Ok(Answer::done(asking.back.clone(), asking.done.clone())),
        false => {
            let committed = committed(&answer);
            let shown = effects(committed);
            Ok(page(visit, asking, shown, &committed.effect, committed).into())
        }
    }
}

/// Makes an act without a dry run in two steps: the first request gets the words of what will
/// happen, the confirmation does it.
///
/// # Errors
/// The work fails.
pub(crate) fn confirm(
    visit: &Visit,
    asking: &Asking<'_>,
    words: Markup,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<Answer, Error> {
    if is_confirmed(visit) {
        work()?;
        return Ok(Answer::done(asking.back.clone(), asking.done.clone()));
    }
    Ok(Page::new(asking.title.clone())
        .body(sure(visit, asking, words, ""))
        .into())
}

/// Reports whether a form confirms what the reader has seen.
pub(crate) fn is_confirmed(visit: &Visit) -> bool {
    visit.form.is_checked(CONFIRMED)
}

fn page(
    visit: &Visit,
    asking: &Asking<'_>,
    shown: Markup,
    effect: &str,
    committed: &Committed,
) -> Page {
    let page = Page::new(asking.title.clone());
    if committed.differences.is_empty() {
        return page.body(html! {
            p { "Nothing would change: it is already as you want it." }
            p { a.button href=(asking.back) { "Back" } }
        });
    }
    page.body(sure(visit, asking, shown, effect))
}

/// Returns the words, and the form that confirms with all fields of the first one.
fn sure(visit: &Visit, asking: &Asking<'_>, words: Markup, effect: &str) -> Markup {
    let own = [CONFIRMED, EFFECT];
    let fields = visit
        .form
        .0
        .iter()
        .filter(|(name, _)| !own.contains(&name.as_str()));
    html! {
        (words)
        form.form method="post" action=(visit.address) {
            @for (name, value) in fields { (hidden(name, value)) }
            (hidden(CONFIRMED, "yes"))
            @if !effect.is_empty() { (hidden(EFFECT, effect)) }
            div.buttons {
                button.primary type="submit" { (asking.label) }
                a.button href=(asking.back) { "Cancel" }
            }
        }
    }
}

/// Shows what a change does, and what sessions notice.
pub(crate) fn effects(committed: &Committed) -> Markup {
    let losing = committed.sessions.iter().filter(|it| it.loses).count();
    html! {
        section aria-label="What changes" {
            h2 { "What changes" }
            (differences(&committed.differences))
        }
        section aria-label="Sessions" {
            h2 { "Sessions" }
            @if committed.sessions.is_empty() {
                p { "No session notices it." }
            } @else {
                @match losing {
                    0 => p { "No session loses anything." },
                    1 => p.state.bad { span aria-hidden="true" { "■ " } "1 session ends or loses a LUN." },
                    many => p.state.bad { span aria-hidden="true" { "■ " } (many) " sessions end or lose a LUN." },
                }
                (sessions(&committed.sessions))
            }
        }
        @for notice in &committed.notices { p.state.warn { span aria-hidden="true" { "▲ " } (notice) } }
    }
}

/// Most differences and sessions that a preview lists.
const MOST: usize = 100;

/// Shows differences of two configurations.
pub(crate) fn differences(all: &[Difference]) -> Markup {
    html! {
        ul.differences {
            @for difference in all.iter().take(MOST) {
                li {
                    @let (sign, word) = match difference.action {
                        Action::Add => ("+", "new"),
                        Action::Remove => ("−", "removed"),
                        Action::Modify => ("~", "changed"),
                    };
                    span.sign aria-hidden="true" { (sign) } " "
                    strong { (difference.object) " " (difference.name) } " " span.quiet { (word) }
                    @if difference.action != Action::Remove && !difference.fields.is_empty() {
                        ul.fields {
                            @for field in difference.fields.iter().filter(|it| tells(it)) {
                                li {
                                    code { (field.field) } ": "
                                    @if let Some(old) = &field.old { del { (plain(old)) } " → " }
                                    @match &field.new {
                                        Some(new) => ins { (plain(new)) },
                                        None => "not set",
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if all.len() > MOST { li { "and " (all.len() - MOST) " more" } }
        }
    }
}

/// Reports whether a field says something: one that was not set and is empty now does not.
fn tells(field: &FieldChange) -> bool {
    field.old.is_some()
        || field
            .new
            .as_deref()
            .is_some_and(|new| !plain(new).is_empty())
}

/// Returns the text of a JSON string without its quotes. The mark of a secret becomes words.
fn plain(json: &str) -> String {
    match serde_json::from_str(json) {
        _ if json == SECRET_NOT_SHOWN => "set, and not shown".to_owned(),
        Ok(Value::String(text)) => text,
        _ => json.to_owned(),
    }
}

fn sessions(all: &[SessionEffect]) -> Markup {
    html! {
        ul {
            @for session in all.iter().take(MOST) {
                li {
                    "Session " (session.tsih) " of " span.name { (session.initiator) } ": " (session.effect)
                }
            }
            @if all.len() > MOST { li { "and " (all.len() - MOST) " more" } }
        }
    }
}

//! The walk through a wizard: one question after the other, a preview, and one commit.
//!
//! All answers are in the form. Each step carries those of the others as hidden fields, so a walk
//! needs no script and no memory in the daemon, and nothing is changed before the commit. A commit
//! carries the generation and a digest of what its preview showed. If either is no longer so, it is
//! refused, and the new preview is shown.

use control::answer::Problem;
use control::transaction::Committed;
use maud::{Markup, html};
use model::{Error, ErrorKind};

use crate::answer::Answer;
use crate::form::{hidden, problem};
use crate::frame::Page;
use crate::visit::Visit;

/// Name of the field that says what a button wants: `next`, `back` or `commit`.
const GO: &str = "go";
/// Name of the field with the step that the form shows.
const STEP: &str = "step";
/// Name of the field with the generation of a preview.
const GENERATION: &str = "generation";
/// Name of the field with the digest of a preview.
const SEEN: &str = "seen";
/// Fields of the walk itself, which no step carries along.
const OWN: [&str; 4] = [GO, STEP, GENERATION, SEEN];

/// A question of a wizard.
pub(super) struct Step {
    /// Name of the step in the form.
    pub(super) name: &'static str,
    /// Question in a few words.
    pub(super) title: &'static str,
    /// Names of the fields that the step shows.
    pub(super) fields: &'static [&'static str],
    /// Function that shows the fields, with the answers that the form has.
    pub(super) show: fn(&Visit) -> Result<Markup, Error>,
    /// Function that checks the answers of the step.
    pub(super) check: fn(&Visit) -> Result<(), Error>,
}

/// A wizard.
pub(super) struct Wizard {
    /// Path of its page and of its form.
    pub(super) path: &'static str,
    /// Title of its page.
    pub(super) title: &'static str,
    /// Page to which *Cancel* leads.
    pub(super) back: &'static str,
    /// Questions in their order.
    pub(super) steps: &'static [Step],
    /// Label of the button that makes the change.
    pub(super) label: &'static str,
    /// Function that shows what would change.
    pub(super) preview: fn(&Visit) -> Result<Preview, Error>,
    /// Function that makes the change that the preview showed.
    pub(super) commit: fn(&Visit) -> Result<Answer, Error>,
}

/// Effects of a change, before it is made.
pub(super) struct Preview {
    /// Words for the reader.
    pub(super) shown: Markup,
    /// Facts that the change depends on. A commit is refused if they are no longer so.
    pub(super) facts: String,
}

/// Returns the generation that the preview showed, to which a commit is bound.
pub(super) fn generation(visit: &Visit) -> Option<u64> {
    visit.form.get(GENERATION).parse().ok()
}

/// Shows a wizard to a reader who comes by a link, which may answer the first questions.
pub(super) fn begin(wizard: &'static Wizard, visit: &Visit) -> Result<Answer, Error> {
    let visit = Visit {
        form: visit.query.clone(),
        ..visit.clone()
    };
    let is_open = |step: &&Step| (step.check)(&visit).is_err();
    match visit.form.0.is_empty() {
        true => wizard.ask(&visit, &wizard.steps[0], None),
        false => match wizard.steps.iter().find(is_open) {
            Some(step) => wizard.ask(&visit, step, None),
            None => wizard.preview(&visit, None),
        },
    }
}

/// Takes the answers of a step, and shows what comes next.
pub(super) fn go_on(wizard: &'static Wizard, visit: &Visit) -> Result<Answer, Error> {
    let steps = wizard.steps;
    let place = steps.iter().position(|it| it.name == visit.form.get(STEP));
    let wants_back = visit.form.get(GO) == "back";
    let shown = match (visit.form.some(STEP), place) {
        (None, _) => return wizard.ask(visit, &steps[0], None),
        // The step after the last one is the preview.
        (Some(_), place) => place.unwrap_or(steps.len()),
    };
    if wants_back {
        return wizard.ask(visit, &steps[shown.saturating_sub(1)], None);
    }
    for step in steps.iter().take(shown + 1) {
        if let Err(error) = (step.check)(visit) {
            return wizard.ask(visit, step, Some(&error));
        }
    }
    match (steps.get(shown + 1), visit.form.get(GO)) {
        (Some(next), _) if shown < steps.len() => wizard.ask(visit, next, None),
        (_, "commit") => wizard.commit(visit),
        _ => wizard.preview(visit, None),
    }
}

impl Wizard {
    /// Shows a step, with the reason why its answers were refused.
    fn ask(&self, visit: &Visit, step: &Step, refused: Option<&Error>) -> Result<Answer, Error> {
        let content = (step.show)(visit)?;
        let is_first = self.steps[0].name == step.name;
        let body = html! {
            (self.progress(step.name))
            @if let Some(error) = refused { (problem(error)) }
            h2 { (step.title) }
            (self.form(visit, step.name, step.fields, html! {
                (content)
                div.buttons {
                    button.primary type="submit" name=(GO) value="next" { "Next" }
                    @if !is_first { button type="submit" name=(GO) value="back" formnovalidate { "Back" } }
                    a.button href=(self.back) { "Cancel" }
                }
            }))
        };
        Ok(self.page(body, refused))
    }

    /// Shows the preview, with the reason why a commit was refused.
    fn preview(&self, visit: &Visit, refused: Option<&Error>) -> Result<Answer, Error> {
        let preview = match (self.preview)(visit) {
            Ok(preview) => preview,
            // Without a preview there is nothing to commit: the last question is asked again.
            Err(error) => {
                let error = refused.unwrap_or(&error);
                return self.ask(visit, &self.steps[self.steps.len() - 1], Some(error));
            }
        };
        let config = visit.console.door.plane().transactions.config();
        let body = html! {
            (self.progress("preview"))
            @if let Some(error) = refused { (problem(error)) }
            (preview.shown)
            (self.form(visit, "preview", &[], html! {
                (hidden(GENERATION, &config.generation.to_string()))
                (hidden(SEEN, &digest(&preview)))
                div.buttons {
                    button.primary type="submit" name=(GO) value="commit" { (self.label) }
                    button type="submit" name=(GO) value="back" { "Back" }
                    a.button href=(self.back) { "Cancel" }
                }
            }))
        };
        Ok(self.page(body, refused))
    }

    /// Makes the change, if it is still the one that the preview showed.
    fn commit(&self, visit: &Visit) -> Result<Answer, Error> {
        let now = (self.preview)(visit);
        let config = visit.console.door.plane().transactions.config();
        let is_same = |preview: &Preview| {
            digest(preview) == visit.form.get(SEEN) && generation(visit) == Some(config.generation)
        };
        let done = match now {
            Ok(preview) if is_same(&preview) => (self.commit)(visit),
            Ok(_) => Err(Error::new(
                ErrorKind::Stale,
                "something has changed since the preview",
                "look at the preview below, which shows what would happen now, and confirm it",
            )),
            Err(error) => Err(error),
        };
        match done {
            Ok(answer) => Ok(answer),
            Err(error) => {
                // The disks may be others by now.
                let visit = Visit {
                    disks: Default::default(),
                    ..visit.clone()
                };
                self.preview(&visit, Some(&error))
            }
        }
    }

    /// Shows the steps, with the present one marked.
    fn progress(&self, present: &str) -> Markup {
        let names = self.steps.iter().map(|step| (step.name, step.title));
        let all: Vec<(&str, &str)> = names.chain([("preview", "Preview")]).collect();
        html! {
            nav aria-label="Steps" {
                ol.steps {
                    @for (name, title) in &all {
                        li aria-current=[(*name == present).then_some("step")] { (title) }
                    }
                }
            }
        }
    }

    /// Returns the form of a step, which carries the answers of all other steps.
    fn form(&self, visit: &Visit, step: &str, shown: &[&str], content: Markup) -> Markup {
        let is_carried = |name: &str| !OWN.contains(&name) && !shown.contains(&name);
        let carried = visit.form.0.iter().filter(|(name, _)| is_carried(name));
        html! {
            form.form.wide method="post" action=(self.path) {
                @for (name, value) in carried { (hidden(name, value)) }
                (hidden(STEP, step))
                (content)
            }
        }
    }

    fn page(&self, body: Markup, refused: Option<&Error>) -> Answer {
        let page = Page::new(self.title)
            .crumb("Wizards", "/wizards")
            .body(body);
        match refused {
            Some(error) => page.status(Problem::from(error.clone()).status()).into(),
            None => page.into(),
        }
    }
}

/// Returns the facts of a change of the configuration: what changes, and who loses something.
pub(super) fn facts_of(committed: &Committed) -> String {
    let losing = committed.sessions.iter().filter(|it| it.loses);
    let losing: Vec<(u16, &str)> = losing.map(|it| (it.tsih, it.effect.as_str())).collect();
    format!("{:?} {losing:?}", committed.differences)
}

/// Returns the digest of what a preview depends on.
fn digest(preview: &Preview) -> String {
    blake3::hash(preview.facts.as_bytes()).to_hex().to_string()
}

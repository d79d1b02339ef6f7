//! The configuration: its generations with their authors and differences, rolling back, and
//! applying a file.

use config::history::{GenerationView, NotedChange};
use control::endpoint::config::{self as endpoint, Apply};
use maud::{Markup, html};
use model::Error;

use crate::answer::Answer;
use crate::form::{Field, button, form, submit};
use crate::frame::Page;
use crate::mark::State;
use crate::preview::{Asking, change};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/config", &endpoint::GENERATIONS, show)
        .page("/config/file", &endpoint::SHOW, file)
        .act("/config/rollback", &endpoint::ROLLBACK, roll_back)
        .act("/config/apply", &endpoint::APPLY, apply)
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let mut generations = visit.call(&endpoint::GENERATIONS, &[])?;
    generations.reverse();
    let view = View::read(&visit.query);
    let table = table(visit, generations);
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let page = Page::new("Configuration");
    let page = page.actions(html! { a.button href="/config/file" { "Show as a file" } });
    Ok(page.body(html! {
        p.quiet { "Each change makes a generation. An earlier one can be put into force again, after a preview of what differs." }
        (table.show(&view))
    })
    .into())
}

/// Objects of a change that its row tells.
const TOLD_OBJECTS: usize = 8;

fn table(visit: &Visit, generations: Vec<GenerationView>) -> Table<'_, GenerationView> {
    Table {
        word: "generation",
        columns: vec![
            Column::figure("generation", "Generation", |it: &GenerationView| {
                Cell::figure(it.generation as f64, it.generation.to_string())
            }),
            Column::text("state", "State", |it: &GenerationView| match it.in_force {
                true => Cell::state(State::Good, "in force"),
                false => Cell::state(State::Quiet, "kept"),
            }),
            Column::text("time", "Time", |it: &GenerationView| {
                it.time_s.map_or_else(Cell::unknown, Cell::time)
            }),
            Column::text("author", "Author", |it: &GenerationView| {
                Cell::text(authors(it))
            }),
            Column::text("changes", "Changes", |it: &GenerationView| {
                Cell::text(words(it)).markup(changes(it))
            }),
            Column::buttons("Change", move |it: &GenerationView| {
                let number = it.generation.to_string();
                let fields = [("generation", number.as_str())];
                let back = button(
                    visit,
                    endpoint::ROLLBACK.role,
                    "/config/rollback",
                    "Roll back to it",
                    &fields,
                );
                Cell::text("").markup(if it.in_force {
                    html! {}
                } else {
                    back
                })
            }),
        ],
        rows: generations,
        id: |_| String::new(),
        empty: html! { p { "Nothing was configured yet." } },
    }
}

fn authors(view: &GenerationView) -> String {
    let changes = view.changes.iter().flatten();
    let mut names: Vec<&str> = changes
        .map(|it| match (it.is_internal, it.user.as_str()) {
            (true, _) => "the daemon",
            (false, "") => "unknown",
            (false, user) => user,
        })
        .collect();
    names.dedup();
    names.join(", ")
}

/// Returns the objects of a change, of which at most `most` are told.
fn objects(change: &NotedChange, most: usize) -> String {
    let objects = change
        .objects
        .iter()
        .map(|it| format!("{} {} {}", it.action.as_str(), it.object, it.name));
    let mut all: Vec<String> = objects.collect();
    let others = change.others + all.len().saturating_sub(most);
    all.truncate(most);
    if others > 0 {
        all.push(format!("and {others} more"));
    }
    all.join(", ")
}

fn words(view: &GenerationView) -> String {
    let changes = view.changes.iter().flatten();
    let all = changes.map(|it| objects(it, usize::MAX));
    all.collect::<Vec<_>>().join("; ")
}

fn changes(view: &GenerationView) -> Markup {
    html! {
        @match &view.changes {
            None => span.quiet { "not known" },
            Some(changes) => @for change in changes {
                @let told = objects(change, TOLD_OBJECTS);
                (told)
                @if !change.command.is_empty() {
                    @if !told.is_empty() { br; }
                    code.quiet { (change.command) } br;
                }
            },
        }
    }
}

fn roll_back(visit: &Visit) -> Result<Answer, Error> {
    let generation = visit.form.get("generation");
    let asking = Asking {
        title: format!("Roll back to generation {generation}"),
        label: "Roll back",
        back: "/config".to_owned(),
        done: format!("The configuration is that of generation {generation} again."),
    };
    change(visit, &endpoint::ROLLBACK, &[generation], (), &asking)
}

fn file(visit: &Visit) -> Result<Answer, Error> {
    let shown = visit.call(&endpoint::SHOW, &[])?;
    if visit.query.get("format") == "toml" {
        return Ok(Answer::File {
            name: "sandstone.toml".to_owned(),
            content_type: "text/plain; charset=utf-8",
            content: shown.toml.into_bytes(),
        });
    }
    let page = Page::new("As a file").crumb("Configuration", "/config");
    let page =
        page.actions(html! { a.button href="/config/file?format=toml" { "Keep as a file" } });
    Ok(page.body(html! {
        p { "Generation " (shown.generation) ". Secrets are not in it; where they are set, they are kept when it is applied." }
        @if visit.may(&endpoint::APPLY) {
            (form("/config/apply", html! {
                (Field::new("toml", "Configuration").value(&shown.toml)
                    .hint("A preview shows what would change. Forms take 64 KiB; for more: sandstone config apply FILE.").area(30))
                (submit("Preview"))
            }))
        } @else {
            pre { (shown.toml) }
        }
    })
    .into())
}

fn apply(visit: &Visit) -> Result<Answer, Error> {
    let toml = visit.form.exact("toml").replace("\r\n", "\n");
    let asking = Asking {
        title: "Apply the configuration".to_owned(),
        label: "Apply it",
        back: "/config".to_owned(),
        done: "The configuration is applied.".to_owned(),
    };
    change(visit, &endpoint::APPLY, &[], Apply::Toml(toml), &asking)
}

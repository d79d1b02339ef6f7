//! Ordering a benchmark: its fields, a preview of what it takes and overwrites, and the start.

use ::benchmarks::{BenchmarkStarted, StartBenchmark};
use control::answer::Problem;
use control::endpoint::benchmark::{self, Preview};
use maud::{Markup, html};
use model::access::Role;
use model::{Error, ErrorKind};

use super::fields::{self, Kind};
use crate::answer::Answer;
use crate::benchmark_figures::page;
use crate::choice::Choice;
use crate::form::{Field, form, hidden, problem, sentence, submit};
use crate::format::{duration, escape, size};
use crate::frame::Page;
use crate::preview::{CONFIRMED, is_confirmed};
use crate::visit::{Fields, Visit};

/// Field with the name of the unit, typed by a reader who gives up its data.
const OVERWRITE: &str = "overwrite";
/// Path of the form.
const PATH: &str = "/bench/new";

/// Shows the form to a reader who comes by a link, which may answer some fields.
pub(super) fn ask(visit: &Visit) -> Result<Answer, Error> {
    fill_in(visit, &visit.query, None)
}

/// Takes the form: shows what would happen, and starts what was confirmed.
pub(super) fn start(visit: &Visit) -> Result<Answer, Error> {
    let order = match fields::order(&visit.form) {
        Ok(order) => order,
        Err(error) => return fill_in(visit, &visit.form, Some(&error)),
    };
    if !is_confirmed(visit) {
        return preview(visit, order, None);
    }
    let how = Preview { dry_run: false };
    match visit.ask(&benchmark::START, &[], how, order.clone()) {
        Ok(told) => {
            let id = told.id.unwrap_or_default();
            Ok(Answer::done(page(id), format!("Benchmark {id} began.")))
        }
        Err(error) if error.kind == ErrorKind::NotPermitted => Err(error),
        Err(error) => preview(visit, order, Some(&error)),
    }
}

/// Shows the form, with the reason why it was refused.
fn fill_in(visit: &Visit, given: &Fields, refused: Option<&Error>) -> Result<Answer, Error> {
    let kind = Kind::of(given);
    let kinds = Choice {
        label: "Measure",
        name: "kind",
        options: &[
            ("", "one block size"),
            ("profile", "a usual profile"),
            ("sweep", "a sweep: many block sizes and queue depths"),
        ],
        anchor: "",
    };
    // The links keep what was filled in so far.
    let linked = Visit {
        query: given.clone(),
        address: PATH.to_owned(),
        ..visit.clone()
    };
    let body = html! {
        @if let Some(error) = refused { (problem(error)) }
        nav.choices aria-label="What is measured" { (kinds.draw(&linked)) }
        (form(PATH, html! {
            (hidden("kind", kind.as_str()))
            (fields::draw(visit, given)?)
            (submit("Preview"))
        }))
    };
    let mut page = Page::new("New benchmark")
        .crumb("Benchmarks", "/bench")
        .body(body);
    if let Some(error) = refused {
        page = page.status(Problem::from(error.clone()).status());
    }
    Ok(page.into())
}

/// Shows what an order comes to, with the button that starts it.
fn preview(visit: &Visit, order: StartBenchmark, refused: Option<&Error>) -> Result<Answer, Error> {
    let order = StartBenchmark {
        overwrite: None,
        ..order
    };
    let told = match visit.ask(
        &benchmark::START,
        &[],
        Preview { dry_run: true },
        order.clone(),
    ) {
        Ok(told) => told,
        Err(error) if error.kind == ErrorKind::NotPermitted => return Err(error),
        Err(error) => return fill_in(visit, &visit.form, Some(refused.unwrap_or(&error))),
    };
    let pairs = visit.form.0.iter();
    let own = [CONFIRMED, OVERWRITE];
    let kept = pairs.filter(|(name, value)| !own.contains(&name.as_str()) && !value.is_empty());
    let pair = |(name, value): (&String, &String)| format!("{}={}", escape(name), escape(value));
    let back: Vec<String> = kept
        .clone()
        .map(|(name, value)| pair((name, value)))
        .collect();
    let body = html! {
        @if let Some(error) = refused { (problem(error)) }
        (facts(&order, &told))
        @for note in &told.notes { p.state.warn { span aria-hidden="true" { "▲ " } (sentence(note)) } }
        (form(PATH, html! {
            @for (name, value) in kept { (hidden(name, value)) }
            (hidden(CONFIRMED, "yes"))
            (consent(visit, &order, &told))
            div.buttons {
                @if may_start(visit, &told) {
                    button.primary type="submit" { @if destroys(&told) { "Overwrite and start" } @else { "Start" } }
                }
                a.button href=(format!("{PATH}?{}", back.join("&"))) { "Change it" }
                a.button href="/bench" { "Cancel" }
            }
        }))
    };
    let page = Page::new("Start this benchmark?").crumb("Benchmarks", "/bench");
    let page = page.body(body);
    Ok(match refused {
        Some(error) => page.status(Problem::from(error.clone()).status()),
        None => page,
    }
    .into())
}

/// Reports whether data is destroyed, or a host may lose some.
fn destroys(told: &BenchmarkStarted) -> bool {
    told.overwrites.as_ref().is_some_and(|it| it.needs_name)
}

fn may_start(visit: &Visit, told: &BenchmarkStarted) -> bool {
    !destroys(told) || visit.has_role(Role::Admin)
}

fn facts(order: &StartBenchmark, told: &BenchmarkStarted) -> Markup {
    html! {
        dl.facts {
            dt { "Unit" } dd { (order.unit) }
            dt { "What" } dd { (told.about) }
            @if told.workloads.len() > 1 { dt { "Workloads" } dd { (told.workloads.join(", ")) } }
            dt { "Measurements" } dd { (told.runs) ", one after the other" }
            dt { "Time" } dd { "at most " (duration(told.seconds)) }
            dt { "Part of the unit" } dd { (size(told.working_set)) " at its start" }
            dt { "Writes" } dd { @if told.writes { strong { "yes" } } @else { "no, it only reads" } }
        }
    }
}

/// Shows what is overwritten, and asks for the name of the unit where data is lost.
fn consent(visit: &Visit, order: &StartBenchmark, told: &BenchmarkStarted) -> Markup {
    let Some(overwrites) = &told.overwrites else {
        return html! {};
    };
    let label = format!("Type {} to overwrite it", order.unit);
    html! {
        @if !overwrites.needs_name {
            p { "It overwrites " (overwrites.words) "." }
        } @else {
            p.state.bad { span aria-hidden="true" { "■ " } "It overwrites " (overwrites.words) ". That data is lost." }
            @if may_start(visit, told) {
                (Field::new(OVERWRITE, &label).hint("Take a snapshot first if the data may be needed.").text())
            } @else {
                p { "This needs the role admin. A benchmark that only reads needs the role operator." }
            }
        }
    }
}

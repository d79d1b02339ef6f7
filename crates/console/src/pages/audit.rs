//! Audit log: each attempt to change something, the newest first, with the check of its chain.

use control::endpoint::access::{self, AuditPage};
use maud::{Markup, html};
use model::Error;
use model::access::AuditLine;

use crate::answer::Answer;
use crate::format::count;
use crate::frame::Page;
use crate::mark::State;
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Lines that are read at once.
const LINES: usize = 1000;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/audit", &access::AUDIT, list)
        .page("/audit/check", &access::AUDIT_CHECK, check)
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let before = visit.query.get("before").parse().ok();
    let lines = visit.ask(
        &access::AUDIT,
        &[],
        AuditPage {
            before,
            limit: Some(LINES),
        },
        (),
    )?;
    let older = lines
        .last()
        .map(|line| line.seq)
        .filter(|seq| lines.len() == LINES && *seq > 1);
    let view = View::read(&visit.query);
    let table = table(lines);
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let page =
        Page::new("Audit").actions(html! { a.button href="/audit/check" { "Check the chain" } });
    Ok(page.body(html! {
        p.quiet { "Each attempt to change something, allowed or refused. Each line holds the hash of the line before, so none can be changed or removed unseen." }
        (table.show(&view))
        @if let Some(seq) = older { p { a.button href=(format!("/audit?before={seq}")) { "Older lines" } } }
    })
    .into())
}

fn table(lines: Vec<AuditLine>) -> Table<'static, AuditLine> {
    Table {
        word: "line",
        columns: vec![
            Column::text("time", "Time", |line: &AuditLine| Cell::time(line.at)),
            Column::text("who", "User", |line: &AuditLine| {
                Cell::text(if line.who.is_empty() {
                    "unknown"
                } else {
                    line.who.as_str()
                })
            }),
            Column::text("role", "Role", |line: &AuditLine| {
                line.role
                    .map_or_else(Cell::unknown, |role| Cell::text(role.as_str()))
            }),
            Column::text("by", "By", |line: &AuditLine| Cell::text(line.by.as_str())),
            Column::text("from", "From", |line: &AuditLine| {
                Cell::text(line.from.as_str())
            }),
            Column::text("request", "Request", |line: &AuditLine| {
                Cell::text(line.command.as_deref().unwrap_or(&line.request)).markup(request(line))
            }),
            Column::text("result", "Result", |line: &AuditLine| {
                let state = if line.result == "done" {
                    State::Good
                } else {
                    State::Warn
                };
                Cell::state(state, line.result.as_str())
            }),
            Column::text("generation", "Generation", |line: &AuditLine| {
                Cell::text(match line.before == line.after {
                    true => line.after.to_string(),
                    false => format!("{} → {}", line.before, line.after),
                })
            }),
            Column::figure("seq", "Line", |line: &AuditLine| Cell::count(line.seq)),
        ],
        rows: lines,
        id: |_| String::new(),
        empty: html! { p { "No one has tried to change anything yet." } },
    }
}

fn request(line: &AuditLine) -> Markup {
    html! {
        code { (line.command.as_deref().unwrap_or(&line.request)) }
        @if let Some(body) = &line.body { details { summary { "Body" } code { (body) } } }
    }
}

fn check(visit: &Visit) -> Result<Answer, Error> {
    let check = visit.call(&access::AUDIT_CHECK, &[])?;
    let page = Page::new("Check of the audit log").crumb("Audit", "/audit");
    Ok(page.body(html! {
        @if check.breaks.is_empty() {
            p { (State::Good.show("unbroken")) ": " (count(check.lines)) " lines, from " (check.first) " to " (check.last) "." }
        } @else {
            p { (State::Bad.show("broken")) ": lines were changed or removed." }
            ul { @for at in &check.breaks { li { (at) } } }
        }
        p { "The last line has this hash. A copy of it, kept elsewhere, proves the log up to that line." }
        pre { (check.head) }
    })
    .into())
}

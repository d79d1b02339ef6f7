//! The page of events of the whole daemon. While it is open, new ones come in at the top.

use control::endpoint::event;
use maud::{Markup, html};
use model::Error;

use super::list::stream;
use crate::answer::Answer;
use crate::choice::Choice;
use crate::event_table::{READ, table};
use crate::frame::Page;
use crate::routes::Routes;
use crate::table::View;
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes.page("/events", &event::LIST, list)
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    let table = table(visit)?;
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let is_live = is_live(visit, &view);
    let page = Page::new("Events");
    let page = match is_live {
        true => page.live(stream("events", &view)),
        false => page,
    };
    let all = table.rows.len() == READ;
    Ok(page
        .body(html! {
            (choices(visit))
            @if all { p.quiet { "These are the latest " (READ) " that fit; choose a severity or a time to see earlier ones." } }
            (table.show(&view))
        })
        .into())
}

/// Reports whether new events come in by themselves: at the beginning of the list, in its own
/// order, unless the reader stopped it.
fn is_live(visit: &Visit, view: &View) -> bool {
    view.offset == 0 && view.sort.is_empty() && visit.query.get("live") != "no"
}

/// Shows the choices of severity and time, as links that keep the other choices.
fn choices(visit: &Visit) -> Markup {
    let choice = |label, name, options: &[(&str, &str)]| {
        let choice = Choice {
            label,
            name,
            options,
            anchor: "",
        };
        choice.draw(visit)
    };
    let least = [
        ("", "all"),
        ("warning", "warning"),
        ("error", "error"),
        ("critical", "critical"),
    ];
    let since = [
        ("", "ever"),
        ("1h", "1 h"),
        ("24h", "24 h"),
        ("7d", "7 d"),
        ("30d", "30 d"),
    ];
    html! {
        nav.choices aria-label="Choice of events" {
            (choice("Severity at least", "severity", &least))
            (choice("Since", "since", &since))
            (choice("New events", "live", &[("", "come in"), ("no", "wait")]))
        }
    }
}

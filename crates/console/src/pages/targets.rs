//! Targets: their portal groups with portals and ALUA states, and who is logged in.

use config::change::{ModifyTarget, SetAluaState};
use control::answer::TargetView;
use control::endpoint::{map, target, target_group};
use maud::{Markup, html};
use model::Error;
use model::config::{AluaState, PortalGroupSpec, TargetSpec};

use super::list::stream;
use super::{chap, figures};
use crate::answer::Answer;
use crate::form::{Field, form, hidden, lead, submit};
use crate::format::escape;
use crate::frame::Page;
use crate::live::rates::Rates;
use crate::mark::State;
use crate::preview::{Asking, change};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/targets", &target::LIST, list)
        .act("/targets/state", &target::MODIFY, set_state)
        .act("/targets/alua", &target::SET_ALUA_STATE, set_alua_state)
}

/// Portal group of the list, with its target and present figures.
pub(super) struct Row {
    target: TargetView,
    group: PortalGroupSpec,
    rates: Option<Rates>,
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    let table = table(visit)?;
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let action = lead(
        visit,
        target::SET_ALUA_STATE.role,
        "/wizards/maintenance",
        "Maintenance",
    );
    let page = Page::new("Targets")
        .live(stream("targets", &view))
        .actions(action);
    Ok(page
        .body(html! { (table.show(&view)) (groups(visit)?) (secrets(visit, &table, &view)) (change_forms(visit, &table.rows)) })
        .into())
}

/// Returns the table of all portal groups.
pub(super) fn table(visit: &Visit) -> Result<Table<'static, Row>, Error> {
    let moment = visit.console.live.now();
    let rows = visit
        .call(&target::LIST, &[])?
        .into_iter()
        .flat_map(|view| {
            let groups = view.spec.portal_groups.clone();
            let moment = &moment;
            let rows: Vec<Row> = groups
                .into_iter()
                .map(|group| Row {
                    rates: moment.port_group(&view.spec.iqn, group.tag),
                    target: view.clone(),
                    group,
                })
                .collect();
            rows
        });
    let mut columns = vec![
        Column::text("target", "Target", |row: &Row| {
            let iqn = row.target.spec.iqn.as_str();
            Cell::text(iqn).link(format!("/sessions?q={}", escape(iqn)))
        }),
        Column::figure("tag", "Portal group", |row: &Row| {
            Cell::count(row.group.tag.into())
        }),
        Column::text("state", "State", state),
        Column::text("portals", "Portals", |row: &Row| {
            let portals: Vec<String> = row.group.portals.iter().map(ToString::to_string).collect();
            Cell::text(portals.join(", "))
        }),
        Column::figure("tpg", "Target port group", |row: &Row| {
            Cell::count(row.group.target_port_group.into())
        }),
        Column::text("alua", "ALUA", |row: &Row| {
            Cell::text(row.group.alua_state.as_str())
        }),
        Column::figure("sessions", "Sessions of the target", |row: &Row| {
            Cell::count(row.target.sessions as u64)
        }),
    ];
    columns.extend(figures::with_quantiles(|row: &Row| row.rates));
    Ok(Table {
        word: "portal group",
        columns,
        rows: rows.collect(),
        id: |row| format!("g:{}:{}", row.group.tag, row.target.spec.iqn),
        empty: html! {
            p { strong { "No target yet." } " Hosts log in at a target. It is made together with a first unit:" }
            p { (lead(visit, map::SHARE.role, "/wizards/volume", "Make a volume for a host")) }
        },
    })
}

fn state(row: &Row) -> Cell {
    let mut portals = row
        .target
        .portals
        .iter()
        .filter(|portal| portal.tag == row.group.tag);
    if row.target.spec.offline {
        return Cell::state(State::Quiet, "offline");
    }
    if let Some(error) = portals.find_map(|portal| portal.error.as_ref()) {
        return Cell::state(State::Bad, format!("not served: {error}"));
    }
    if let Some(redirect) = &row.target.spec.redirect {
        return Cell::state(State::Quiet, format!("redirects to {}", redirect.address));
    }
    match row.group.alua_state {
        AluaState::ActiveOptimized | AluaState::ActiveNonOptimized => {
            Cell::state(State::Good, "serving")
        }
        AluaState::Standby => Cell::state(State::Quiet, "standby"),
        state => Cell::state(State::Warn, state.as_str()),
    }
}

fn groups(visit: &Visit) -> Result<Markup, Error> {
    let groups = visit.call(&target_group::LIST, &[])?;
    Ok(html! {
        @if !groups.is_empty() {
            h2 { "Target groups" }
            dl.facts {
                @for group in &groups {
                    dt { (group.spec.name) }
                    dd { (group.spec.targets.join(", ")) @if group.spec.targets.is_empty() { "no target" } }
                }
            }
        }
    })
}

/// Shows what the targets in the window prove. A target has several rows.
fn secrets(visit: &Visit, table: &Table<'_, Row>, view: &View) -> Markup {
    let window = table.matching(view).into_iter();
    let window = window.skip(view.offset).take(view.limit);
    let mut targets: Vec<&TargetSpec> = window.map(|row| &row.target.spec).collect();
    targets.sort_by_key(|spec| &spec.iqn);
    targets.dedup_by_key(|spec| &spec.iqn);
    chap::of_targets(visit, &targets)
}

fn change_forms(visit: &Visit, rows: &[Row]) -> Markup {
    if !visit.may(&target::SET_ALUA_STATE) || rows.is_empty() {
        return html! {};
    }
    let mut groups: Vec<u16> = rows.iter().map(|row| row.group.target_port_group).collect();
    groups.sort_unstable();
    groups.dedup();
    let groups: Vec<(String, String)> = groups
        .iter()
        .map(|group| (group.to_string(), group.to_string()))
        .collect();
    let states: Vec<(String, String)> = AluaState::ALL
        .iter()
        .map(|it| (it.as_str().to_owned(), it.as_str().to_owned()))
        .collect();
    let mut targets: Vec<&TargetView> = rows.iter().map(|row| &row.target).collect();
    targets.dedup_by_key(|view| &view.spec.iqn);
    html! {
        details {
            summary { "Set the ALUA state of a target port group" }
            (form("/targets/alua", html! {
                (Field::new("group", "Target port group").choice(&groups))
                (Field::new("state", "State").hint("Hosts move their I/O to other groups before this one stops serving.").choice(&states))
                (submit("Preview"))
            }))
        }
        details {
            summary { "Take a target offline or online" }
            ul.tasks {
                @for view in targets {
                    @let (value, label) = if view.spec.offline { ("no", "Take online") } else { ("yes", "Take offline") };
                    li {
                        form.inline method="post" action="/targets/state" {
                            (hidden("iqn", &view.spec.iqn)) (hidden("offline", value))
                            span.name { (view.spec.iqn) } " " button type="submit" { (label) }
                        }
                    }
                }
            }
        }
    }
}

fn set_state(visit: &Visit) -> Result<Answer, Error> {
    let iqn = visit.form.get("iqn");
    let offline = visit.form.get("offline") == "yes";
    let word = if offline { "offline" } else { "online" };
    let asking = Asking {
        title: format!("Take target {iqn} {word}"),
        label: if offline {
            "Take offline"
        } else {
            "Take online"
        },
        back: "/targets".to_owned(),
        done: format!("Target {iqn} is {word}."),
    };
    let body = ModifyTarget {
        offline: Some(offline),
        ..ModifyTarget::default()
    };
    change(visit, &target::MODIFY, &[iqn], body, &asking)
}

fn set_alua_state(visit: &Visit) -> Result<Answer, Error> {
    let (group, word) = (visit.form.get("group"), visit.form.get("state"));
    let state = AluaState::ALL
        .into_iter()
        .find(|state| state.as_str() == word)
        .ok_or_else(|| {
            Error::invalid(
                format!("{word:?} is not an ALUA state"),
                "choose one of the list",
            )
        })?;
    let asking = Asking {
        title: format!("Set target port group {group} to {word}"),
        label: "Set the state",
        back: "/targets".to_owned(),
        done: format!("Target port group {group} is {word}."),
    };
    change(
        visit,
        &target::SET_ALUA_STATE,
        &[group],
        SetAluaState { state },
        &asking,
    )
}

//! The machine as an initiator: its sessions at other targets, the devices behind them, and their
//! paths.

use control::answer::DeviceView;
use control::endpoint::{initiator, rules};
use maud::{Markup, html};
use model::Error;
use model::initiator::view::{InitiatorSession, SessionState};

use crate::answer::Answer;
use crate::form::button;

use crate::frame::Page;
use crate::mark::State;
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes.page("/initiator", &initiator::ADAPTER, show).act(
        "/initiator/rescan",
        &initiator::RESCAN,
        rescan,
    )
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    let devices = devices(visit.call(&initiator::DEVICES, &[])?);
    if let Some(answer) = devices.exported(visit, &view) {
        return Ok(answer);
    }
    let adapter = visit.call(&initiator::ADAPTER, &[])?;
    let actions = button(
        visit,
        initiator::RESCAN.role,
        "/initiator/rescan",
        "Scan for units",
        &[],
    );
    let page = Page::new("Initiator").actions(actions);
    let dead = adapter.dead_paths;
    Ok(page.body(html! {
        p { "This machine as a client of other machines' storage." }
        dl.facts {
            dt { "Name" } dd { code { (adapter.name) } @if !adapter.is_chosen { span.quiet { " made from the host name" } } }
            dt { "Targets" } dd { (adapter.targets) }
            dt { "Sessions" } dd { (adapter.sessions_up) " of " (adapter.sessions) " up" }
            dt { "Paths" } dd { (adapter.paths) @if dead > 0 { ", " (State::Bad.show(&format!("{dead} dead"))) } }
        }
        h2 { "Devices" }
        (devices.show(&view))
        h2 { "Sessions at other targets" }
        (sessions(visit.call(&initiator::SESSIONS, &[])?).plain())
        (rules(visit)?)
    })
    .into())
}

fn devices(rows: Vec<DeviceView>) -> Table<'static, DeviceView> {
    Table {
        word: "device",
        columns: vec![
            Column::text("name", "Name", |it: &DeviceView| {
                Cell::text(it.state.nmp.name.as_str())
            }),
            Column::text("state", "State", device_state),
            Column::figure("size", "Size", |it: &DeviceView| Cell::size(it.state.size)),
            Column::text("model", "Vendor and model", |it: &DeviceView| {
                Cell::text(format!(
                    "{} {}",
                    it.state.vendor.trim(),
                    it.state.model.trim()
                ))
            }),
            Column::text("satp", "Array type", |it: &DeviceView| {
                Cell::text(it.state.nmp.satp.name())
            }),
            Column::text("psp", "Path selection", |it: &DeviceView| {
                Cell::text(it.state.nmp.psp.name())
            }),
            Column::figure("paths", "Paths", |it: &DeviceView| {
                Cell::count(it.state.nmp.paths.len() as u64)
            }),
            Column::figure("actv", "ACTV", |it: &DeviceView| {
                Cell::count(it.state.nmp.queue.actv.into())
            }),
            Column::figure("qued", "QUED", |it: &DeviceView| {
                Cell::count(it.state.nmp.queue.qued.into())
            }),
            Column::text("units", "Served as", |it: &DeviceView| {
                Cell::text(it.units.join(", "))
            }),
            Column::buttons("Each path", |it: &DeviceView| {
                Cell::text("").markup(paths(it))
            }),
        ],
        rows,
        id: |_| String::new(),
        empty: html! {
            p { "This machine uses no other machine's storage. To log in to a target:" }
            pre { "sandstone initiator login IQN --portal ADDRESS" }
        },
    }
}

fn is_dead(group_state: &str) -> bool {
    matches!(group_state, "dead" | "offline" | "unavailable")
}

fn device_state(device: &DeviceView) -> Cell {
    let paths = &device.state.nmp.paths;
    let dead = paths
        .iter()
        .filter(|path| is_dead(&path.group_state))
        .count();
    match (&device.state.fault, dead) {
        (Some(fault), _) => Cell::state(State::Bad, fault.as_str()),
        (None, 0) => Cell::state(State::Good, "usable"),
        (None, dead) => Cell::state(State::Warn, format!("{dead} paths dead")),
    }
}

fn paths(device: &DeviceView) -> Markup {
    let paths = device.state.nmp.paths.iter().zip(&device.state.ways);
    html! {
        details {
            summary { "Paths" }
            ul {
                @for (path, way) in paths {
                    @let state = if is_dead(&path.group_state) { State::Bad } else { State::Good };
                    li {
                        (state.show(&path.group_state)) " " (path.runtime_name) " to " (way.portal)
                        @if let Some(lun) = way.lun { " LUN " (lun) }
                        ", " (path.active) " in flight, " (format!("{:.3} ms", path.latency_us / 1000.0))
                        @if let Some(reason) = &way.reason { ": " (reason) }
                    }
                }
            }
        }
    }
}

fn sessions(rows: Vec<InitiatorSession>) -> Table<'static, InitiatorSession> {
    Table {
        word: "session",
        columns: vec![
            Column::text("", "Target", |it: &InitiatorSession| {
                Cell::text(it.target.as_str())
            }),
            Column::text("", "State", |it: &InitiatorSession| {
                let state = match it.state {
                    SessionState::LoggedIn => State::Good,
                    SessionState::Silent | SessionState::Connecting => State::Warn,
                    SessionState::LoggingOut => State::Quiet,
                    SessionState::Down => State::Bad,
                };
                Cell::state(state, it.state.name())
            }),
            Column::text("", "Portal", |it: &InitiatorSession| {
                Cell::text(it.portal.as_str())
            }),
            Column::text("", "From", |it: &InitiatorSession| {
                Cell::text(it.source.as_deref().unwrap_or_default())
            }),
            Column::figure("", "LUNs", |it: &InitiatorSession| {
                Cell::count(it.luns.len() as u64)
            }),
            Column::figure("", "In flight", |it: &InitiatorSession| {
                Cell::count(it.in_flight.into())
            }),
            Column::figure("", "Failures", |it: &InitiatorSession| {
                Cell::count(it.failures.into())
            }),
            Column::text("", "Last error", |it: &InitiatorSession| {
                Cell::text(it.last_error.as_deref().unwrap_or_default())
            }),
        ],
        rows,
        id: |_| String::new(),
        empty: html! { p { "This machine is logged in at no other target." } },
    }
}

fn rules(visit: &Visit) -> Result<Markup, Error> {
    let rules = visit.call(&rules::LIST, &[])?;
    Ok(html! {
        details {
            summary { "Claim rules" }
            div.scroll tabindex="0" role="region" aria-label="Claim rules" {
                table {
                    thead { tr { @for title in ["Array type", "Vendor", "Model", "Device", "Path selection", "Group"] { th scope="col" { (title) } } } }
                    tbody {
                        @for rule in &rules {
                            tr { th scope="row" { (rule.satp) } td { (rule.vendor) } td { (rule.model) } td { (rule.device) }
                                td { (rule.default_psp) } td { (rule.group) } }
                        }
                    }
                }
            }
        }
    })
}

fn rescan(visit: &Visit) -> Result<Answer, Error> {
    visit.ask(&initiator::RESCAN, &[], initiator::Rescan::default(), ())?;
    Ok(Answer::done("/initiator", "The targets are being scanned."))
}

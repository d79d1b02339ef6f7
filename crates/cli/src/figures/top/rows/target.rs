//! Rows of a machine that serves units.

use super::{Cell, Row, adapter, commands, device, ms};
use crate::figures::rates::hosts::{HostUse, name, of_hosts, together};
use crate::figures::rates::{self, Activity, Use};
use model::figures::{SessionSnapshot, Snapshot};

/// Returns a row for each port group, with its sessions beneath.
pub(super) fn adapters(before: &Snapshot, now: &Snapshot) -> Vec<Row> {
    let sessions = rates::of_whole_sessions(before, now);
    let groups = rates::of_port_groups(before, now).into_iter();
    let rows = groups.map(|(group, activity)| {
        let own = sessions.iter().filter(|(session, _)| {
            (&session.target, session.portal_group) == (&group.target, group.portal_group)
        });
        let children: Vec<Row> = own
            .map(|(session, of)| Row {
                key: format!("session {}", session.key),
                cells: adapter(
                    &activity.name,
                    Cell::Words(described(session)),
                    Cell::Unknown,
                    of,
                ),
                ..Row::default()
            })
            .collect();
        let paths = Cell::Count(children.len() as u64);
        Row {
            cells: adapter(&activity.name, Cell::Unknown, paths, &activity),
            key: activity.name,
            paths: children.clone(),
            children,
        }
    });
    rows.collect()
}

/// Returns a row for each unit, with the hosts that use it beneath, and the sessions as its paths.
pub(super) fn devices(before: &Snapshot, now: &Snapshot) -> Vec<Row> {
    let hosts = of_hosts(rates::uses(before, now));
    // Without names, no name can be missing.
    let units = rates::of_units(before, now, &[]).unwrap_or_default();
    let rows = units.into_iter().map(|activity| {
        let used = || hosts.iter().filter(|of| of.unit == activity.name);
        let children = used().map(|of| Row {
            key: format!("{} {} {}", of.host, of.lun, of.unit),
            cells: device(&activity.name, Some(of.host.clone()), &of.activity),
            ..Row::default()
        });
        let paths = used().flat_map(|of| &of.paths);
        let paths = paths.map(|path| Row {
            key: format!("session {} {}", path.session.key, path.lun.lun),
            cells: device(
                &activity.name,
                Some(described(path.session)),
                &path.activity,
            ),
            ..Row::default()
        });
        Row {
            cells: device(&activity.name, None, &activity),
            children: children.collect(),
            paths: paths.collect(),
            key: activity.name.clone(),
        }
    });
    rows.collect()
}

/// Returns a row for each host, with the units that it uses beneath.
pub(super) fn hosts(before: &Snapshot, now: &Snapshot) -> Vec<Row> {
    let used = of_hosts(rates::uses(before, now));
    let mut names: Vec<&str> = now.sessions.iter().map(name).collect();
    names.sort_unstable();
    names.dedup();
    let rows = names.into_iter().zip(1..).map(|(host, number)| {
        let own: Vec<&HostUse<'_>> = used.iter().filter(|of| of.host == host).collect();
        let whole = together(own.iter().map(|of| &of.activity));
        let children = own.iter().map(|of| Row {
            key: format!("{host} {} {}", of.lun, of.unit),
            cells: host_cells(
                number,
                host,
                Cell::Words(format!("scsi0:{} {}", of.lun, of.unit)),
                Cell::Unknown,
                &of.activity,
            ),
            paths: paths(number, host, &of.paths),
            ..Row::default()
        });
        let disks = Cell::Count(own.len() as u64);
        Row {
            key: host.to_owned(),
            cells: host_cells(number, host, Cell::Unknown, disks, &whole),
            children: children.collect(),
            paths: Vec::new(),
        }
    });
    rows.collect()
}

fn paths(number: u64, host: &str, paths: &[Use<'_>]) -> Vec<Row> {
    let rows = paths.iter().map(|path| Row {
        key: format!("session {} {}", path.session.key, path.lun.lun),
        cells: host_cells(
            number,
            host,
            Cell::Words(described(path.session)),
            Cell::Unknown,
            &path.activity,
        ),
        ..Row::default()
    });
    rows.collect()
}

fn host_cells(number: u64, host: &str, disk: Cell, disks: Cell, of: &Activity) -> Vec<Cell> {
    let mut cells = vec![
        Cell::Count(number),
        Cell::Words(host.to_owned()),
        disk,
        disks,
    ];
    cells.extend(commands(of));
    cells.extend([ms(of.reads.latency_ns), ms(of.writes.latency_ns)]);
    cells
}

/// Returns a session in words: its number, which `session list` shows, and its host.
fn described(session: &SessionSnapshot) -> String {
    format!("session {} {}", session.tsih, name(session))
}

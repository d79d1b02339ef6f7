//! Rows of a machine that uses devices of other machines.

use super::{Cell, Row, adapter, device};
use crate::figures::rates::Activity;
use crate::figures::rates::initiator::{of_devices, of_sessions};
use model::figures::Snapshot;
use model::figures::initiator::PathFigures;

/// Returns a row for each session, with the paths that lead through it beneath.
pub(super) fn adapters(before: &Snapshot, now: &Snapshot) -> Vec<Row> {
    let devices = of_devices(before, now);
    let rows = of_sessions(&devices).into_iter().map(|session| {
        let row = |(path, of): &(&PathFigures, Activity)| Row {
            key: path.runtime_name.clone(),
            cells: adapter(
                &session.name,
                Cell::Words(path.runtime_name.clone()),
                Cell::Unknown,
                of,
            ),
            ..Row::default()
        };
        let children: Vec<Row> = session.paths.iter().map(row).collect();
        let portal = session.paths.first();
        let portal = portal.map_or(Cell::Unknown, |(path, _)| Cell::Words(path.portal.clone()));
        let paths = Cell::Count(children.len() as u64);
        Row {
            cells: adapter(&session.name, portal, paths, &session.activity),
            paths: children.clone(),
            children,
            key: session.name,
        }
    });
    rows.collect()
}

/// Returns a row for each device, with its paths beneath.
pub(super) fn devices(before: &Snapshot, now: &Snapshot) -> Vec<Row> {
    let rows = of_devices(before, now).into_iter().map(|of| {
        let name = &of.device.name;
        let row = |(path, activity): &(&PathFigures, Activity)| {
            let part = format!("{} {}", path.runtime_name, path.portal);
            Row {
                key: path.runtime_name.clone(),
                cells: device(name, Some(part), activity),
                ..Row::default()
            }
        };
        let paths: Vec<Row> = of.paths.iter().map(row).collect();
        Row {
            key: name.clone(),
            cells: device(name, None, &of.activity),
            children: paths.clone(),
            paths,
        }
    });
    rows.collect()
}

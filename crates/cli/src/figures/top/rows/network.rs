//! Rows of the network interfaces of the daemon's machine.

use super::{Cell, Row};
use crate::figures::rates::network::of_interfaces;
use model::figures::Snapshot;

/// Returns a row for each interface.
pub(super) fn ports(before: &Snapshot, now: &Snapshot) -> Vec<Row> {
    let words = |of: &Option<String>| of.clone().map_or(Cell::Unknown, Cell::Words);
    let rows = of_interfaces(before, now).into_iter().map(|of| {
        let port = of.interface;
        let used_by = match port.portals.is_empty() {
            true => port.name.clone(),
            false => format!("{} ({})", port.name, port.portals.join(", ")),
        };
        Row {
            key: format!("{} {}", port.number, port.name),
            cells: vec![
                Cell::Count(port.number.into()),
                Cell::Words(used_by),
                words(&port.team),
                words(&port.bridge),
                Cell::Number(of.sent_packets),
                Cell::Number(of.sent_bits / 1e6),
                Cell::Number(of.received_packets),
                Cell::Number(of.received_bits / 1e6),
                Cell::Number(of.sent_dropped_percent),
                Cell::Number(of.received_dropped_percent),
            ],
            ..Row::default()
        }
    });
    rows.collect()
}

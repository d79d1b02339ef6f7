//! Rows of each view: from two snapshots to cells.

use crate::figures::rates::{Activity, Queue, Rates};
use model::figures::Snapshot;
use model::pool::status::PoolView;

use super::fields::View;

mod initiator;
mod network;
mod pools;
mod target;

/// End of the wire whose figures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Target: the machine serves units.
    Target,
    /// Initiator: the machine uses devices of other machines.
    Initiator,
}

impl Side {
    /// Returns the side that a machine is on: a machine that serves nothing and uses devices is an
    /// initiator.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        match snapshot.units.is_empty() && !snapshot.devices.is_empty() {
            true => Self::Initiator,
            false => Self::Target,
        }
    }

    /// Returns the name of the side.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Initiator => "initiator",
        }
    }
}

/// Figures at one moment, from the daemon.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Figures of everything that serves.
    pub(super) snapshot: Snapshot,
    /// Pools.
    pub(super) pools: Vec<PoolView>,
}

/// Cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// Words.
    Words(String),
    /// Whole number.
    Count(u64),
    /// Number with two decimals.
    Number(f64),
    /// Nothing that anybody knows, or nothing that makes sense here.
    Unknown,
}

impl Cell {
    /// Returns the text of the cell. A name comes from other machines, and must not reach the
    /// terminal as a command.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Words(words) => {
                let plain = |c: char| if c.is_control() { '?' } else { c };
                words.chars().map(plain).collect()
            }
            Self::Count(count) => count.to_string(),
            Self::Number(number) => format!("{number:.2}"),
            Self::Unknown => "-".to_owned(),
        }
    }

    /// Returns the number by which the cell is sorted.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            Self::Words(_) | Self::Unknown => None,
        }
    }
}

/// Row of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Identity of the row, which it keeps from sample to sample.
    pub(super) key: String,
    /// Cells, in the order of the view's columns.
    pub(super) cells: Vec<Cell>,
    /// Rows beneath it, which `e` shows.
    pub(super) children: Vec<Row>,
    /// Paths of the object, which `P` shows.
    pub(super) paths: Vec<Row>,
}

/// Returns the rows of a view, in their natural order.
pub(super) fn rows(view: View, side: Side, before: &Sample, now: &Sample) -> Vec<Row> {
    let (then, at) = (&before.snapshot, &now.snapshot);
    match (view, side) {
        (View::Adapters, Side::Target) => target::adapters(then, at),
        (View::Devices, Side::Target) => target::devices(then, at),
        (View::Hosts, Side::Target) => target::hosts(then, at),
        (View::Adapters, Side::Initiator) => initiator::adapters(then, at),
        (View::Devices, Side::Initiator) => initiator::devices(then, at),
        // An initiator has no hosts.
        (View::Hosts, Side::Initiator) => Vec::new(),
        (View::Network, _) => network::ports(then, at),
        (View::Pools, _) => pools::pools(&before.pools, &now.pools),
    }
}

/// Returns a time in milliseconds.
fn ms(ns: Option<f64>) -> Cell {
    ns.map_or(Cell::Unknown, |ns| Cell::Number(ns / 1e6))
}

/// Returns bytes in megabytes.
fn megabytes(bytes: f64) -> Cell {
    Cell::Number(bytes / f64::from(1 << 20))
}

/// Returns the cells of commands and bytes: CMDS/s to MBWRTN/s.
fn commands(of: &Activity) -> [Cell; 5] {
    [
        Cell::Number(of.all.per_s),
        Cell::Number(of.reads.per_s),
        Cell::Number(of.writes.per_s),
        megabytes(of.reads.bytes_per_s),
        megabytes(of.writes.bytes_per_s),
    ]
}

/// Returns the cells of times: DAVG, KAVG, GAVG, QAVG for each command, each read, each write; then
/// the quantiles.
fn times(of: &Activity) -> Vec<Cell> {
    let averages = |rates: &Rates| {
        [
            ms(rates.device_ns),
            ms(rates.kernel_ns()),
            ms(rates.latency_ns),
            ms(rates.queue_ns),
        ]
    };
    let mut cells = Vec::with_capacity(16);
    for rates in [&of.all, &of.reads, &of.writes] {
        cells.extend(averages(rates));
    }
    for rates in [&of.reads, &of.writes] {
        cells.extend([ms(rates.p50_ns), ms(rates.p99_ns)]);
    }
    cells
}

/// Returns the cells of a queue: ACTV, QUED, %USD, LOAD.
fn load(queue: Option<Queue>) -> [Cell; 4] {
    let Some(queue) = queue else {
        return [const { Cell::Unknown }; 4];
    };
    let number = |of: Option<f64>| of.map_or(Cell::Unknown, Cell::Number);
    [
        Cell::Count(queue.active.into()),
        Cell::Count(queue.queued.into()),
        number(queue.used_percent()),
        number(queue.load()),
    ]
}

/// Returns the cell of a queue depth.
fn depth(queue: Option<Queue>) -> Cell {
    let depth = queue.map(|queue| queue.depth).filter(|depth| *depth > 0);
    depth.map_or(Cell::Unknown, |depth| Cell::Count(depth.into()))
}

/// Returns the cells of a row of adapters.
fn adapter(name: &str, path: Cell, paths: Cell, of: &Activity) -> Vec<Cell> {
    let mut cells = vec![Cell::Words(name.to_owned()), path, paths, depth(of.queue)];
    cells.extend(commands(of));
    cells.extend(times(of));
    cells
}

/// Returns the cells of a row of devices. `is_part` says that the row is of a world or a path.
fn device(name: &str, part: Option<String>, of: &Activity) -> Vec<Cell> {
    let (whole, world) = match part {
        None => (depth(of.queue), Cell::Unknown),
        Some(_) => (Cell::Unknown, depth(of.queue)),
    };
    let mut cells = vec![
        Cell::Words(name.to_owned()),
        part.map_or(Cell::Unknown, Cell::Words),
        whole,
        world,
    ];
    cells.extend(load(of.queue));
    cells.extend(commands(of));
    cells.extend(times(of));
    cells
}

#[cfg(test)]
pub(super) mod tests;

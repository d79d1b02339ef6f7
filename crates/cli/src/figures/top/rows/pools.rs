//! Rows of pools, their vdevs and their disks, from the same figures as `pool iostat`.

use super::{Cell, Row, megabytes, ms};
use crate::pool::iostat::figures::{self, Rates, VdevFigures};
use model::pool::status::PoolView;
use model::quantity::format_size;

/// Returns a row for each pool, with its vdevs and disks beneath.
pub(super) fn pools(before: &[PoolView], now: &[PoolView]) -> Vec<Row> {
    let pools = figures::figures(now, before).into_iter();
    let rows = pools.map(|pool| {
        let sections = [
            ("", pool.vdevs),
            ("log ", pool.logs),
            ("cache ", pool.caches),
        ];
        let children = sections.into_iter().flat_map(|(kind, vdevs)| {
            let vdevs = vdevs.unwrap_or_default();
            let key = pool.whole.name.clone();
            let rows = vdevs.into_iter().map(move |vdev| row(&key, kind, 1, &vdev));
            rows.collect::<Vec<Row>>()
        });
        let children = children.collect();
        Row {
            children,
            ..row("", "", 0, &pool.whole)
        }
    });
    rows.collect()
}

fn row(above: &str, kind: &str, depth: usize, vdev: &VdevFigures) -> Row {
    let key = format!("{above}/{}", vdev.name);
    let size =
        |bytes: Option<u64>| bytes.map_or(Cell::Unknown, |bytes| Cell::Words(format_size(bytes)));
    let name = format!("{}{kind}{}", "  ".repeat(depth), vdev.name);
    let (read, write) = (vdev.read, vdev.write);
    let rate = |of: Option<Rates>| {
        let rate = of.map(|rates| Cell::Number(rates.operations));
        rate.unwrap_or(Cell::Unknown)
    };
    let bytes = |of: Option<Rates>| of.map_or(Cell::Unknown, |rates| megabytes(rates.bandwidth));
    let both = read.zip(write);
    let both = both.map(|(read, write)| Cell::Number(read.operations + write.operations));
    let disk = |of: Option<Rates>| ms(of.and_then(|it| it.disk_wait_ns).map(|ns| ns as f64));
    let total = |of: Option<Rates>| ms(of.and_then(|it| it.total_wait_ns).map(|ns| ns as f64));
    let children = vdev.children.iter();
    Row {
        cells: vec![
            Cell::Words(name),
            size(vdev.allocated),
            size(vdev.free),
            both.unwrap_or(Cell::Unknown),
            rate(read),
            rate(write),
            bytes(read),
            bytes(write),
            disk(read),
            disk(write),
            total(read),
            total(write),
        ],
        children: children
            .map(|child| row(&key, "", depth + 1, child))
            .collect(),
        paths: Vec::new(),
        key,
    }
}

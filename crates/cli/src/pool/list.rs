//! `pool list`: pools with their space, and with -v their vdevs and devices.

use clap::Args;

use super::super::{Connection, Done, Terminal};
use super::wanted;
use crate::grammar::completion::pool_names;
use crate::print::table::{Column, ListArgs, Numbers, extra, left, print, right};
use model::pool::status::{self, PoolView};
use model::pool::vdev::VdevView;

#[derive(Debug, Args)]
pub(in super::super) struct List {
    /// Show also their vdevs and devices
    #[arg(short = 'v')]
    verbose: bool,
    /// Pools to list [default: all]
    #[arg(add = pool_names())]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

pub(super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &List) -> Done {
    let mut pools = wanted(connection, &args.names)?;
    // In JSON each pool has its vdevs in any case.
    if args.verbose && !args.list.json {
        pools = pools.iter().flat_map(with_vdevs).collect();
    }
    let none = "no pools available; make one with `sandstone pool create NAME VDEV…`";
    print(t, &args.list, &COLUMNS, &pools, none)
}

const COLUMNS: [Column<PoolView>; 10] = [
    left("name", |p, _| p.name.clone()),
    right("size", |p, n| space(p, n, p.size)),
    right("alloc", |p, n| space(p, n, p.allocated)),
    right("free", |p, n| space(p, n, p.free)),
    right("freeing", |p, n| space(p, n, p.freeing)),
    right("frag", fragmentation),
    right("cap", |p, _| match p.open_for_us {
        Some(_) => format!("{}%", capacity(p)),
        None => "-".to_owned(),
    }),
    left("health", |p, _| match p.state.as_str() {
        "" => "-".to_owned(),
        state => state.to_owned(),
    }),
    extra(left("guid", |p, _| p.guid.clone())),
    extra(left("outlook", |p, _| {
        let outlook = p.outlook.as_ref();
        outlook.map_or("-".to_owned(), |outlook| outlook.text.clone())
    })),
];

/// Returns bytes as text. They are unknown while a pool is not open.
pub(super) fn space(pool: &PoolView, numbers: Numbers, bytes: u64) -> String {
    match pool.open_for_us {
        Some(_) => numbers.size(bytes),
        None => "-".to_owned(),
    }
}

/// Returns the share of space that is not free, in percent. Space that was freed and is not free
/// yet counts as used.
pub(super) fn capacity(pool: &PoolView) -> u64 {
    status::capacity(pool.size, pool.free)
}

pub(super) fn fragmentation(pool: &PoolView, numbers: Numbers) -> String {
    match (pool.fragmentation, numbers) {
        (None, _) => "-".to_owned(),
        (Some(percent), Numbers::Short) => format!("{percent}%"),
        (Some(percent), Numbers::Exact) => percent.to_string(),
    }
}

/// Returns a pool, its vdevs and its devices, all as lines of pools.
fn with_vdevs(pool: &PoolView) -> Vec<PoolView> {
    let mut lines = vec![pool.clone()];
    pool.vdevs.iter().for_each(|vdev| line(vdev, 1, &mut lines));
    let sections = [
        ("logs", &pool.logs),
        ("cache", &pool.caches),
        ("spare", &pool.spares),
    ];
    for (name, vdevs) in sections.into_iter().filter(|(_, vdevs)| !vdevs.is_empty()) {
        lines.push(PoolView {
            name: name.to_owned(),
            guid: "-".to_owned(),
            ..PoolView::default()
        });
        vdevs.iter().for_each(|vdev| line(vdev, 1, &mut lines));
    }
    lines
}

fn line(vdev: &VdevView, depth: usize, lines: &mut Vec<PoolView>) {
    let (allocated, free) = (vdev.allocated.unwrap_or(0), vdev.free.unwrap_or(0));
    lines.push(PoolView {
        name: format!("{}{}", "  ".repeat(depth), vdev.name),
        guid: "-".to_owned(),
        state: vdev.state.clone(),
        size: allocated + free,
        allocated,
        free,
        // The space of a device in a mirror or raidz is unknown.
        open_for_us: vdev.allocated.map(|_| 0),
        ..PoolView::default()
    });
    for child in &vdev.children {
        line(child, depth + 1, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vdevs_stand_below_their_pools_with_their_space() {
        let leaf = |name: &str| VdevView {
            name: name.to_owned(),
            state: "ONLINE".to_owned(),
            ..VdevView::default()
        };
        let pool = PoolView {
            name: "tank".to_owned(),
            size: 3 << 30,
            open_for_us: Some(1),
            vdevs: vec![VdevView {
                allocated: Some(1 << 30),
                free: Some(2 << 30),
                children: vec![leaf("/a"), leaf("/b")],
                ..leaf("mirror-0")
            }],
            spares: vec![leaf("/c")],
            ..PoolView::default()
        };
        let lines = with_vdevs(&pool);
        let told: Vec<(&str, String)> = lines
            .iter()
            .map(|line| (line.name.as_str(), space(line, Numbers::Short, line.size)))
            .collect();
        let expected = [
            ("tank", "3G"),
            ("  mirror-0", "3G"),
            ("    /a", "-"),
            ("    /b", "-"),
            ("spare", "-"),
            ("  /c", "-"),
        ];
        assert_eq!(told, expected.map(|(name, size)| (name, size.to_owned())));
        assert_eq!(capacity(&lines[1]), 33);
    }
}

//! A report of `pool iostat`, laid out as zpool does.

use super::super::count;
use super::figures::{PoolFigures, Rates, VdevFigures};
use model::quantity::format_size;

/// Form of the reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// Whether each vdev is shown too.
    pub(super) verbose: bool,
    /// Whether the report shows how long requests took.
    pub(super) latency: bool,
    /// Whether the report is for scripts.
    pub(super) scripted: bool,
    /// Whether numbers are exact.
    pub(super) exact: bool,
}

/// Line of a report: its depth, its name, its cells.
type Line = (usize, String, Vec<String>);

impl Layout {
    /// Returns a report. The first one and each with many lines have a header.
    pub(super) fn report(self, pools: &[PoolFigures], is_first: bool) -> String {
        let each: Vec<Vec<Line>> = pools.iter().map(|pool| self.lines(pool)).collect();
        if self.scripted {
            let lines = each.iter().flatten();
            let lines = lines.map(|(_, name, cells)| format!("{name}\t{}\n", cells.join("\t")));
            return lines.collect();
        }
        let all = || each.iter().flatten();
        let name = |(depth, name, _): &Line| 2 * depth + name.chars().count();
        let name = all().map(name).max().unwrap_or(0).max(10);
        let titles = self.titles();
        let cells = all().map(|(_, _, cells)| cells);
        let widths: Vec<usize> = (0..titles.len())
            .map(|at| {
                let cell = |cells: &Vec<String>| cells[at].chars().count();
                cells.clone().map(cell).max().unwrap_or(0).max(5)
            })
            .collect();
        let mut text = String::new();
        if is_first || self.verbose {
            text.push_str(&self.header(name, &widths, &titles));
        }
        for lines in &each {
            for (depth, label, cells) in lines {
                text.push_str(&row(
                    &format!("{}{label}", "  ".repeat(*depth)),
                    name,
                    cells,
                    &widths,
                ));
            }
            if self.verbose {
                text.push_str(&rule(name, &widths));
            }
        }
        if each.len() > 1 && !self.verbose {
            text.push_str(&rule(name, &widths));
        }
        text
    }

    fn titles(self) -> Vec<&'static str> {
        let mut titles = vec!["alloc", "free", "read", "write", "read", "write"];
        if self.latency {
            titles.extend(["read", "write", "read", "write"]);
        }
        titles
    }

    fn header(self, name: usize, widths: &[usize], titles: &[&str]) -> String {
        let groups = [
            "capacity",
            "operations",
            "bandwidth",
            "total_wait",
            "disk_wait",
        ];
        let mut text = " ".repeat(name);
        for (pair, group) in widths.chunks(2).zip(groups) {
            let width = pair.iter().sum::<usize>() + 2;
            text.push_str(&format!("  {group:^width$}"));
        }
        let mut text = text.trim_end().to_owned();
        text.push('\n');
        let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
        text.push_str(&row("pool", name, &titles, widths));
        text.push_str(&rule(name, widths));
        text
    }

    fn lines(self, pool: &PoolFigures) -> Vec<Line> {
        let mut lines = vec![(0, pool.whole.name.clone(), self.cells(&pool.whole))];
        if !self.verbose {
            return lines;
        }
        for vdev in pool.vdevs.iter().flatten() {
            self.tree(vdev, 1, &mut lines);
        }
        for (heading, vdevs) in [("logs", &pool.logs), ("cache", &pool.caches)] {
            let vdevs = vdevs.as_deref().unwrap_or_default();
            if !vdevs.is_empty() {
                let cells = self.cells(&VdevFigures::default());
                lines.push((0, heading.to_owned(), cells));
            }
            for vdev in vdevs {
                self.tree(vdev, 1, &mut lines);
            }
        }
        lines
    }

    fn tree(self, vdev: &VdevFigures, depth: usize, lines: &mut Vec<Line>) {
        lines.push((depth, vdev.name.clone(), self.cells(vdev)));
        for child in &vdev.children {
            self.tree(child, depth + 1, lines);
        }
    }

    fn cells(self, of: &VdevFigures) -> Vec<String> {
        let dash = || "-".to_owned();
        let both = |cell: &dyn Fn(&Rates) -> Option<String>| {
            [of.read, of.write].map(|rates| rates.as_ref().and_then(cell).unwrap_or_else(dash))
        };
        let size = |bytes: Option<u64>| bytes.map_or_else(dash, |bytes| self.size(bytes));
        let mut cells = vec![size(of.allocated), size(of.free)];
        // Rates are shown as whole numbers.
        cells.extend(both(&|rates| {
            Some(self.number(rates.operations.round() as u64))
        }));
        cells.extend(both(&|rates| {
            Some(self.size(rates.bandwidth.round() as u64))
        }));
        if self.latency {
            cells.extend(both(&|rates| rates.total_wait_ns.map(|ns| self.time(ns))));
            cells.extend(both(&|rates| rates.disk_wait_ns.map(|ns| self.time(ns))));
        }
        cells
    }

    fn size(self, bytes: u64) -> String {
        if self.exact {
            bytes.to_string()
        } else {
            format_size(bytes)
        }
    }

    fn number(self, number: u64) -> String {
        if self.exact {
            number.to_string()
        } else {
            count(number)
        }
    }

    fn time(self, ns: u64) -> String {
        if self.exact {
            ns.to_string()
        } else {
            short_time(ns)
        }
    }
}

/// Returns a time in three digits and a unit: `731us`, `1.25ms`, `12.5ms`, `3.00s`.
fn short_time(ns: u64) -> String {
    let us = ns as f64 / 1000.0;
    let (value, unit) = match us {
        us if us < 999.5 => return format!("{us:.0}us"),
        us if us < 999_500.0 => (us / 1000.0, "ms"),
        us => (us / 1_000_000.0, "s"),
    };
    match value {
        value if value < 9.995 => format!("{value:.2}{unit}"),
        value if value < 99.95 => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    }
}

fn row(label: &str, name: usize, cells: &[String], widths: &[usize]) -> String {
    let mut text = format!("{label:name$}");
    for (cell, width) in cells.iter().zip(widths) {
        text.push_str(&format!("  {cell:>width$}"));
    }
    text.push('\n');
    text
}

fn rule(name: usize, widths: &[usize]) -> String {
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    row(&"-".repeat(name), name, &dashes, widths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(operations: f64, bandwidth: f64, ns: u64) -> Option<Rates> {
        Some(Rates {
            operations,
            bandwidth,
            total_wait_ns: Some(2 * ns),
            disk_wait_ns: (ns > 0).then_some(ns),
        })
    }

    fn tank() -> PoolFigures {
        let leaf = |name: &str| VdevFigures {
            name: name.to_owned(),
            read: rates(0.4, 100.0, 0),
            write: rates(1234.0, 5_242_880.0, 731_000),
            ..VdevFigures::default()
        };
        let space = |figures: VdevFigures| VdevFigures {
            allocated: Some(1 << 30),
            free: Some(3 << 30),
            ..figures
        };
        PoolFigures {
            seconds: Some(1.0),
            whole: space(leaf("tank")),
            vdevs: Some(vec![VdevFigures {
                children: vec![leaf("/dev/a"), leaf("/dev/b")],
                ..space(leaf("mirror-0"))
            }]),
            logs: Some(vec![leaf("/dev/log")]),
            caches: Some(Vec::new()),
        }
    }

    #[test]
    fn a_pool_is_one_line_and_the_header_comes_once() {
        let layout = Layout::default();
        let line = "tank           1G     3G      0  1.23K    100     5M\n";
        let expected = "\x20             capacity     operations    bandwidth
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
";
        assert_eq!(layout.report(&[tank()], true), format!("{expected}{line}"));
        assert_eq!(layout.report(&[tank()], false), line);
        let rule = "----------  -----  -----  -----  -----  -----  -----\n";
        assert_eq!(
            layout.report(&[tank(), tank()], false),
            format!("{line}{line}{rule}")
        );
    }

    #[test]
    fn vdevs_are_below_their_pool_and_logs_below_their_heading() {
        let layout = Layout {
            verbose: true,
            latency: true,
            ..Layout::default()
        };
        let expected =
            "\x20             capacity     operations    bandwidth     total_wait     disk_wait
pool        alloc   free   read  write   read  write   read   write   read  write
----------  -----  -----  -----  -----  -----  -----  -----  ------  -----  -----
tank           1G     3G      0  1.23K    100     5M    0us  1.46ms      -  731us
  mirror-0     1G     3G      0  1.23K    100     5M    0us  1.46ms      -  731us
    /dev/a      -      -      0  1.23K    100     5M    0us  1.46ms      -  731us
    /dev/b      -      -      0  1.23K    100     5M    0us  1.46ms      -  731us
logs            -      -      -      -      -      -      -       -      -      -
  /dev/log      -      -      0  1.23K    100     5M    0us  1.46ms      -  731us
----------  -----  -----  -----  -----  -----  -----  -----  ------  -----  -----
";
        assert_eq!(layout.report(&[tank()], false), expected);
    }

    #[test]
    fn scripts_get_tabs_and_exact_numbers() {
        let layout = Layout {
            latency: true,
            scripted: true,
            exact: true,
            ..Layout::default()
        };
        let expected =
            "tank\t1073741824\t3221225472\t0\t1234\t100\t5242880\t0\t1462000\t-\t731000\n";
        assert_eq!(layout.report(&[tank()], true), expected);
    }

    #[test]
    fn times_have_three_digits() {
        let short = [
            0,
            1499,
            731_000,
            999_700,
            12_500_000,
            700_000_000,
            3_000_000_000,
        ];
        let short: Vec<String> = short.into_iter().map(short_time).collect();
        let expected = ["0us", "1us", "731us", "1.00ms", "12.5ms", "700ms", "3.00s"];
        assert_eq!(short, expected);
    }
}

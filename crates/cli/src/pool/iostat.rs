//! `pool iostat`: reads and writes of pools and their devices, once or again and again, in zpool's
//! manner.

use std::time::Duration;

use clap::Args;

use self::figures::{PoolFigures, figures};
use self::layout::Layout;
use super::super::{Connection, Done, Terminal};
use super::wanted;
use crate::grammar::completion::pool_names;
use crate::grammar::repeated::{Plan, Reporter};
use crate::print::table::{json, json_line};
use model::pool::status::PoolView;

pub(crate) mod figures;
mod layout;

#[derive(Debug, Args)]
pub(in super::super) struct Iostat {
    /// Show also each vdev and each device, logs and caches too
    #[arg(short = 'v')]
    verbose: bool,
    /// Show also how long a request took on average: total_wait with its time in the device's
    /// queue, disk_wait without
    #[arg(short = 'l')]
    latency: bool,
    /// No header, columns separated by one tab
    #[arg(short = 'H', long = "scripted")]
    scripted: bool,
    /// Exact numbers: bytes and nanoseconds
    #[arg(short = 'p', long = "exact")]
    exact: bool,
    /// Omit the report since the pool was opened
    #[arg(short = 'y')]
    without_first: bool,
    /// JSON: one array for each report, with an interval on a line of its own
    #[arg(long, conflicts_with_all = ["latency", "scripted", "exact"])]
    json: bool,
    /// Pools to show; then seconds from report to report, and the number of reports
    #[arg(value_name = "POOL… [INTERVAL [COUNT]]", add = pool_names())]
    words: Vec<String>,
}

const REPORTER: Reporter = Reporter {
    object: "a pool",
    since: "the pool was opened",
    // Names of pools begin with a letter.
    is_name: |word| word.starts_with(char::is_alphabetic),
    shortest: Duration::from_millis(10),
    usage: "sandstone pool iostat tank 5 12",
};

pub(in super::super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &Iostat) -> Done {
    let plan = REPORTER.plan(&args.words, args.without_first)?;
    let layout = Layout {
        verbose: args.verbose,
        latency: args.latency,
        scripted: args.scripted,
        exact: args.exact,
    };
    let mut before: Vec<PoolView> = Vec::new();
    plan.follow(|shown| {
        let pools = wanted(connection, &plan.names)?;
        if let Some(shown) = shown {
            let all = figures(&pools, &before);
            if args.json {
                tell_json(t, args, &plan, all)?;
            } else if all.is_empty() && !args.scripted {
                writeln!(t.err, "no pools available")?;
            } else {
                write!(t.out, "{}", layout.report(&all, shown == 0))?;
            }
            t.out.flush()?;
        }
        before = pools;
        Ok(())
    })
}

fn tell_json(t: &mut Terminal<'_>, args: &Iostat, plan: &Plan, mut all: Vec<PoolFigures>) -> Done {
    if !args.verbose {
        for pool in &mut all {
            pool.leave_out_vdevs();
        }
    }
    match plan.interval {
        None => json(t, &all),
        Some(_) => json_line(t, &all),
    }
}

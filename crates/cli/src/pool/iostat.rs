//! `pool iostat`: reads and writes of pools and their devices, once or again and again, in zpool's
//! manner.

use std::time::{Duration, Instant};

use clap::Args;

use self::figures::{PoolFigures, figures};
use self::layout::Layout;
use super::super::{Connection, Done, Terminal};
use super::wanted;
use crate::grammar::completion::pool_names;
use crate::grammar::repeated::Plan;
use crate::print::table::json;
use model::Error;
use model::pool::status::PoolView;

mod figures;
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

const USAGE: &str = "sandstone pool iostat tank 5 12";
/// Shortest interval from report to report.
const SHORTEST: Duration = Duration::from_millis(10);

pub(in super::super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &Iostat) -> Done {
    let plan = Plan::read(&args.words, "a pool", USAGE, SHORTEST)?;
    if args.without_first && plan.interval.is_none() {
        let message = "without an interval, the only report is the one since the pool was opened";
        return Err(Error::invalid(message, format!("omit -y, or: {USAGE}")).into());
    }
    let layout = Layout {
        verbose: args.verbose,
        latency: args.latency,
        scripted: args.scripted,
        exact: args.exact,
    };
    let mut before: Vec<PoolView> = Vec::new();
    let (mut due, mut printed) = (Instant::now(), 0);
    for number in 0_u64.. {
        let pools = wanted(connection, &plan.names)?;
        let is_left_out = number == 0 && args.without_first;
        if !is_left_out {
            let all = figures(&pools, &before);
            if args.json {
                tell_json(t, args, &plan, all)?;
            } else if all.is_empty() && !args.scripted {
                writeln!(t.err, "no pools available")?;
            } else {
                write!(t.out, "{}", layout.report(&all, printed == 0))?;
            }
            t.out.flush()?;
            printed += 1;
        }
        let Some(interval) = plan.interval.filter(|_| plan.count != Some(printed)) else {
            break;
        };
        before = pools;
        // The time that a report takes does not delay the next one.
        due = (due + interval).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn tell_json(t: &mut Terminal<'_>, args: &Iostat, plan: &Plan, mut all: Vec<PoolFigures>) -> Done {
    if !args.verbose {
        for pool in &mut all {
            pool.leave_out_vdevs();
        }
    }
    if plan.interval.is_none() {
        return json(t, &all);
    }
    let line = serde_json::to_string(&all).map_err(|error| {
        let message = format!("the answer cannot be written as JSON: {error}");
        Error::invalid(message, "report this as a defect")
    })?;
    Ok(writeln!(t.out, "{line}")?)
}

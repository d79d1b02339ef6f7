//! `pool iostat`: reads and writes of pools and their devices, once or again and again, in zpool's
//! manner.

use std::time::{Duration, Instant};

use clap::Args;

use self::figures::{PoolFigures, figures};
use self::layout::Layout;
use super::super::{Connection, Done, Terminal};
use super::wanted;
use crate::grammar::completion::pool_names;
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

/// Meaning of the words of a command line.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    pools: Vec<String>,
    interval: Option<Duration>,
    /// Number of reports; `None` is without end.
    count: Option<u64>,
}

const USAGE: &str = "sandstone pool iostat tank 5 12";
/// Longest interval in seconds: a year.
const LONGEST_S: f64 = 31_536_000.0;

impl Plan {
    /// Reads the words. Names of pools begin with a letter; every other word is a number, or wrong.
    fn read(words: &[String]) -> Result<Self, Error> {
        let is_number = |word: &&String| !word.starts_with(char::is_alphabetic);
        let names = words.iter().take_while(|word| !is_number(word)).count();
        let (pools, numbers) = words.split_at(names);
        if let Some(late) = numbers.iter().find(|word| !is_number(word)) {
            let message = format!("{late} comes after a number");
            let next = format!("name pools first, then the interval and the count: {USAGE}");
            return Err(Error::invalid(message, next));
        }
        let (interval, count) = match numbers {
            [] => (None, Some(1)),
            [interval] => (Some(seconds(interval)?), None),
            [interval, count] => (Some(seconds(interval)?), Some(reports(count)?)),
            [_, _, third, ..] => {
                let message = format!("{third} is one number too many");
                let next = format!("give an interval and a count at most: {USAGE}");
                return Err(Error::invalid(message, next));
            }
        };
        Ok(Self {
            pools: pools.to_vec(),
            interval,
            count,
        })
    }
}

fn seconds(word: &str) -> Result<Duration, Error> {
    let is_plain = word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number = word.parse::<f64>().ok().filter(|_| is_plain);
    let next = format!("give seconds, as in {USAGE}");
    match number {
        None => {
            let message = format!("{word:?} is neither a pool nor an interval");
            Err(Error::invalid(message, next))
        }
        Some(number) if number < 0.01 => {
            let message = format!("an interval of {word} seconds is too short");
            Err(Error::invalid(message, next))
        }
        Some(number) if number > LONGEST_S => {
            let message = format!("an interval of {word} seconds is too long");
            Err(Error::invalid(message, next))
        }
        Some(number) => Ok(Duration::from_secs_f64(number)),
    }
}

fn reports(word: &str) -> Result<u64, Error> {
    let number = word.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        let message = format!("{word:?} is not a number of reports");
        Error::invalid(message, format!("give a number from 1 on, as in {USAGE}"))
    })
}

pub(in super::super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &Iostat) -> Done {
    let plan = Plan::read(&args.words)?;
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
        let pools = wanted(connection, &plan.pools)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Plan, Error> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Plan::read(&words)
    }

    #[test]
    fn pools_come_first_then_interval_and_count() {
        let expected = |pools: &[&str], interval_ms: Option<u64>, count| Plan {
            pools: pools.iter().map(|name| (*name).to_owned()).collect(),
            interval: interval_ms.map(Duration::from_millis),
            count,
        };
        for (line, pools, interval_ms, count) in [
            ("", &[][..], None, Some(1)),
            ("tank", &["tank"], None, Some(1)),
            ("a b 2", &["a", "b"], Some(2000), None),
            ("0.5 3", &[], Some(500), Some(3)),
        ] {
            assert_eq!(
                plan(line),
                Ok(expected(pools, interval_ms, count)),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_number_or_in_no_order_is_refused_by_name() {
        for (line, said) in [
            ("tank 0", "an interval of 0 seconds is too short"),
            ("tank 99999999999", "is too long"),
            ("5x", "\"5x\" is neither a pool nor an interval"),
            ("1e3", "neither a pool nor an interval"),
            ("tank 1 0", "\"0\" is not a number of reports"),
            ("tank 1 2.5", "\"2.5\" is not a number of reports"),
            ("1 2 3", "3 is one number too many"),
            ("1 tank", "tank comes after a number"),
        ] {
            let error = plan(line).expect_err(line);
            assert!(error.message.contains(said), "{line}: {error}");
        }
    }
}

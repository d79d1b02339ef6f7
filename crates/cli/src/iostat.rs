//! `iostat`: commands of logical units, and where their time goes; in words of its own, or as the
//! system tools print it.

use std::time::{Duration, Instant};

use clap::Args;

use self::rates::{OfSession, UnitRates};
use super::{Connection, Done, Terminal};
use crate::grammar::completion::lu_names;
use crate::grammar::repeated::Plan;
use crate::print::table::{Column, ListArgs, Numbers, extra, left, print, right};
use control::Client;
use control::endpoint::status::FIGURES;
use model::Error;
use model::figures::Snapshot;

mod rates;
mod solaris;

const USAGE: &str = "sandstone iostat vm1 5 12";
/// Shortest interval from report to report: the daemon takes one snapshot a second.
const SHORTEST: Duration = Duration::from_secs(1);
/// Time between two looks for a snapshot that is due.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Longest wait for a snapshot that is due.
const OVERDUE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(
    after_help = "READ, WRITE: milliseconds of a command on average, from its arrival to the last byte of its \
                  answer. They are the sum of WIRE (its data arrives), QUEUE (it waits for others), DEVICE \
                  (the backend works) and REPLY (the answer leaves). P50, P99: half of all reads and writes, \
                  and 99 of 100, took no longer."
)]
pub(super) struct Iostat {
    /// Show each session that has used a unit on a line of its own
    #[arg(short = 's', long, conflicts_with = "extended")]
    sessions: bool,
    /// Extended statistics of Solaris: device first, one service time
    #[arg(short = 'x', conflicts_with_all = ["columns", "json"])]
    extended: bool,
    /// Device last, and service times of the wait queue and of the active queue (with -x)
    #[arg(short = 'n', requires = "extended")]
    names_last: bool,
    /// Megabytes instead of kilobytes (with -x)
    #[arg(short = 'M', requires = "extended")]
    megabytes: bool,
    /// Columns separated by commas (with -x)
    #[arg(short = 'r', requires = "extended")]
    raw: bool,
    /// Omit the report since the daemon began
    #[arg(short = 'y')]
    without_first: bool,
    #[command(flatten)]
    list: ListArgs,
    /// Logical units to show; then seconds from report to report, and the number of reports
    #[arg(value_name = "LU… [INTERVAL [COUNT]]", add = lu_names())]
    words: Vec<String>,
}

pub(super) fn run(args: &Iostat, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let plan = Plan::read(&args.words, "a logical unit", USAGE, SHORTEST)?;
    if args.without_first && plan.interval.is_none() {
        let message = "without an interval, the only report is the one since the daemon began";
        return Err(Error::invalid(message, format!("omit -y, or: {USAGE}")).into());
    }
    let client = connection.client();
    let mut before = Snapshot::default();
    let (mut due, mut printed) = (Instant::now(), 0);
    for number in 0_u64.. {
        let now = later_than(&client, before.at_us)?;
        let rates = match args.sessions {
            true => rates::of_sessions(&before, &now, &plan.names)?,
            false => rates::between(&before, &now, &plan.names)?,
        };
        if number > 0 || !args.without_first {
            report(args, &plan, &rates, t)?;
            t.out.flush()?;
            printed += 1;
        }
        let Some(interval) = plan.interval.filter(|_| plan.count != Some(printed)) else {
            break;
        };
        before = now;
        // The time that a report takes does not delay the next one.
        due = (due + interval).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Returns the first snapshot after a moment.
fn later_than(client: &Client, at_us: u64) -> Result<Snapshot, Error> {
    let give_up = Instant::now() + OVERDUE;
    loop {
        let snapshot = client.call(&FIGURES, &[])?;
        if snapshot.at_us > at_us {
            return Ok(snapshot);
        }
        if Instant::now() > give_up {
            let waited = OVERDUE.as_secs();
            return Err(Error::new(
                model::ErrorKind::Unavailable,
                format!("the daemon has taken no snapshot for {waited} seconds"),
                "see the daemon's log; if its machine is not overloaded, report this as a defect",
            ));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn report(args: &Iostat, plan: &Plan, rates: &[UnitRates], t: &mut Terminal<'_>) -> Done {
    if args.extended {
        let layout = solaris::Layout {
            names_last: args.names_last,
            megabytes: args.megabytes,
            raw: args.raw,
        };
        return Ok(write!(t.out, "{}", layout.report(rates))?);
    }
    if args.list.json && plan.interval.is_some() {
        // One report, one line.
        let line = serde_json::to_string(rates).map_err(|error| {
            let message = format!("the answer cannot be written as JSON: {error}");
            Error::invalid(message, "report this as a defect")
        })?;
        return Ok(writeln!(t.out, "{line}")?);
    }
    match args.sessions {
        true => print(t, &args.list, &SESSION_COLUMNS, rates, "no sessions"),
        false => print(t, &args.list, &COLUMNS, rates, "no logical units"),
    }
}

/// Returns milliseconds with three decimals, or nanoseconds if exact numbers are wanted.
fn ms(ns: Option<f64>, numbers: Numbers) -> String {
    match (ns, numbers) {
        (None, _) => "-".to_owned(),
        (Some(ns), Numbers::Short) => format!("{:.3}", ns / 1e6),
        (Some(ns), Numbers::Exact) => format!("{ns:.0}"),
    }
}

/// Returns a rate with one decimal.
fn rate(value: f64) -> String {
    format!("{value:.1}")
}

/// Returns bytes a second as a size.
fn bytes(value: f64, numbers: Numbers) -> String {
    numbers.size(value.round() as u64)
}

/// Returns a part of the session's description, or nothing if the row is of no session.
fn session(of: &UnitRates, part: fn(&OfSession) -> String) -> String {
    of.session.as_ref().map(part).unwrap_or_default()
}

const SESSION_COLUMNS: [Column<UnitRates>; 14] = [
    right("session", |of, _| session(of, |it| it.tsih.to_string())),
    left("initiator", |of, _| session(of, |it| it.initiator.clone())),
    right("lun", |of, _| session(of, |it| it.lun.to_string())),
    left("name", |of, _| of.name.clone()),
    right("reads/s", |of, _| rate(of.reads.per_s)),
    right("writes/s", |of, _| rate(of.writes.per_s)),
    right("read B/s", |of, n| bytes(of.reads.bytes_per_s, n)),
    right("written B/s", |of, n| bytes(of.writes.bytes_per_s, n)),
    right("read", |of, n| ms(of.reads.latency_ns, n)),
    right("write", |of, n| ms(of.writes.latency_ns, n)),
    right("wire", |of, n| ms(of.both.wire_in_ns, n)),
    right("queue", |of, n| ms(of.both.queue_ns, n)),
    right("device", |of, n| ms(of.both.device_ns, n)),
    right("reply", |of, n| ms(of.both.reply_ns, n)),
];

const COLUMNS: [Column<UnitRates>; 20] = [
    left("name", |of, _| of.name.clone()),
    right("reads/s", |of, _| rate(of.reads.per_s)),
    right("writes/s", |of, _| rate(of.writes.per_s)),
    right("read B/s", |of, n| bytes(of.reads.bytes_per_s, n)),
    right("written B/s", |of, n| bytes(of.writes.bytes_per_s, n)),
    right("read", |of, n| ms(of.reads.latency_ns, n)),
    right("write", |of, n| ms(of.writes.latency_ns, n)),
    right("wire", |of, n| ms(of.both.wire_in_ns, n)),
    right("queue", |of, n| ms(of.both.queue_ns, n)),
    right("device", |of, n| ms(of.both.device_ns, n)),
    right("reply", |of, n| ms(of.both.reply_ns, n)),
    right("p50", |of, n| ms(of.both.p50_ns, n)),
    right("p99", |of, n| ms(of.both.p99_ns, n)),
    extra(right("others/s", |of, _| rate(of.others_per_s))),
    extra(right("read p50", |of, n| ms(of.reads.p50_ns, n))),
    extra(right("read p99", |of, n| ms(of.reads.p99_ns, n))),
    extra(right("write p50", |of, n| ms(of.writes.p50_ns, n))),
    extra(right("write p99", |of, n| ms(of.writes.p99_ns, n))),
    extra(right("active", |of, _| format!("{:.2}", of.both.active))),
    extra(right("waiting", |of, _| format!("{:.2}", of.both.waiting))),
];

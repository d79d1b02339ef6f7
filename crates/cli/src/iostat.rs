//! `iostat`: commands of logical units, and where their time goes; in words of its own, or as the
//! system tools print it.

use std::time::{Duration, Instant};

use clap::Args;

use self::rates::{OfSession, UnitRates};
use super::{Connection, Done, Terminal};
use crate::grammar::completion::lu_names;
use crate::grammar::repeated::{Plan, Reporter};
use crate::print::table::{Column, ListArgs, Numbers, extra, json_line, left, print, right};
use control::Client;
use control::endpoint::status::FIGURES;
use model::figures::Snapshot;
use model::{Error, ErrorKind};

mod rates;
mod solaris;

const REPORTER: Reporter = Reporter {
    object: "a logical unit",
    since: "the daemon began",
    // Names of units may begin with a digit.
    is_name: |word| !word.chars().all(|c| c.is_ascii_digit() || c == '.'),
    // The daemon takes one snapshot a second.
    shortest: Duration::from_secs(1),
    usage: "sandstone iostat vm1 5 12",
};
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
    let plan = REPORTER.plan(&args.words, args.without_first)?;
    let client = connection.client();
    let mut before = Snapshot::default();
    plan.follow(|shown| {
        let now = after(&client, &before)?;
        if now.began_unix_ms != before.began_unix_ms {
            // Either this is the first report, or another daemon counts from zero.
            before = Snapshot::default();
        }
        let rates = match args.sessions {
            true => rates::of_sessions(&before, &now, &plan.names)?,
            false => rates::of_units(&before, &now, &plan.names)?,
        };
        if shown.is_some() {
            report(args, &plan, &rates, t)?;
            t.out.flush()?;
        }
        before = now;
        Ok(())
    })
}

/// Returns the first snapshot after another one.
fn after(client: &Client, before: &Snapshot) -> Result<Snapshot, Error> {
    let give_up = Instant::now() + OVERDUE;
    loop {
        let now = client.call(&FIGURES, &[])?;
        if now.began_unix_ms != before.began_unix_ms || now.at_us > before.at_us {
            return Ok(now);
        }
        if Instant::now() > give_up {
            let waited = OVERDUE.as_secs();
            return Err(Error::new(
                ErrorKind::Unavailable,
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
        return json_line(t, rates);
    }
    match args.sessions {
        true => print(t, &args.list, &of_session(), rates, "no sessions"),
        false => print(t, &args.list, &of_unit(), rates, "no logical units"),
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

/// Returns the columns of a unit as one session uses it.
fn of_session() -> Vec<Column<UnitRates>> {
    let which: [Column<UnitRates>; 4] = [
        right("session", |of, _| session(of, |it| it.tsih.to_string())),
        left("initiator", |of, _| session(of, |it| it.initiator.clone())),
        right("lun", |of, _| session(of, |it| it.lun.to_string())),
        left("name", |of, _| of.name.clone()),
    ];
    which.into_iter().chain(of_all()).collect()
}

/// Returns the columns of a unit.
fn of_unit() -> Vec<Column<UnitRates>> {
    let latencies: [Column<UnitRates>; 6] = [
        right("p50", |of, n| ms(of.both.p50_ns, n)),
        right("p99", |of, n| ms(of.both.p99_ns, n)),
        extra(right("read p50", |of, n| ms(of.reads.p50_ns, n))),
        extra(right("read p99", |of, n| ms(of.reads.p99_ns, n))),
        extra(right("write p50", |of, n| ms(of.writes.p50_ns, n))),
        extra(right("write p99", |of, n| ms(of.writes.p99_ns, n))),
    ];
    let name: [Column<UnitRates>; 1] = [left("name", |of, _| of.name.clone())];
    name.into_iter().chain(of_all()).chain(latencies).collect()
}

/// Returns the columns that all reports have.
fn of_all() -> [Column<UnitRates>; 13] {
    [
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
        extra(right("others/s", |of, _| rate(of.others_per_s))),
        extra(right("active", |of, _| format!("{:.2}", of.both.active))),
        extra(right("waiting", |of, _| format!("{:.2}", of.both.waiting))),
    ]
}

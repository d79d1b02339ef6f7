//! `iostat`: commands of logical units, and where their time goes; in words of its own, or as the
//! system tools print it. Also the disks of pools.

use std::time::Duration;

use clap::Args;

use self::dialect::Dialect;
use crate::figures::rates::{self, Activity, OfSession, RareRates, fetch};
use crate::grammar::completion::lu_names;
use crate::grammar::repeated::{Plan, Reporter};
use crate::pool;
use crate::print::table::{Column, ListArgs, Numbers, extra, json_line, left, print, right};
use crate::{Connection, Done, Terminal};
use control::Client;
use model::Error;
use model::figures::Snapshot;
use model::pool::status::PoolView;

mod dialect;
mod solaris;
mod sysstat;

const REPORTER: Reporter = Reporter {
    object: "a logical unit",
    since: "the daemon began",
    // Names of units may begin with a digit.
    is_name: |word| !word.chars().all(|c| c.is_ascii_digit() || c == '.'),
    // The daemon takes one snapshot a second.
    shortest: Duration::from_secs(1),
    usage: "sandstone iostat vm1 5 12",
};

#[derive(Debug, Args)]
#[command(
    after_help = "READ, WRITE: milliseconds of a command on average, from its arrival to the last byte of its \
                  answer. They are the sum of WIRE (its data arrives), QUEUE (it waits for others), DEVICE \
                  (the backend works) and REPLY (the answer leaves). P50, P99: half of all reads and writes, \
                  and 99 of 100, took no longer.\n\n\
                  With -x, await is the whole time of a command, aqu-sz the number of commands under way on \
                  average, and %util the time that they took at the device, at most 100: commands that overlap \
                  count once each. -x -o JSON has sysstat's keys."
)]
pub(crate) struct Iostat {
    /// Show each session that has used a unit on a line of its own; with -x: few columns, reads and
    /// writes together
    #[arg(short = 's', long)]
    sessions: bool,
    /// Show the disks of pools instead of logical units. Names are then names of pools
    #[arg(long)]
    disks: bool,
    /// Extended statistics as sysstat prints them; with -n, -M, -r or --solaris, as Solaris does
    #[arg(short = 'x')]
    extended: bool,
    /// Megabytes instead of kilobytes (with -x)
    #[arg(short = 'm', requires = "extended", conflicts_with_all = ["names_last", "solaris_megabytes", "raw", "solaris"])]
    megabytes: bool,
    /// Omit what had no command since the last report
    #[arg(short = 'z')]
    without_idle: bool,
    /// Solaris: device first, one service time (with -x)
    #[arg(long, requires = "extended")]
    solaris: bool,
    /// Solaris: device last, and service times of the wait queue and of the active queue (with -x)
    #[arg(short = 'n', requires = "extended")]
    names_last: bool,
    /// Solaris: megabytes instead of kilobytes (with -x)
    #[arg(short = 'M', requires = "extended")]
    solaris_megabytes: bool,
    /// Solaris: columns separated by commas (with -x)
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

pub(crate) fn run(args: &Iostat, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let plan = REPORTER.plan(&args.words, args.without_first)?;
    let dialect = args.dialect()?;
    let client = connection.client();
    let mut source = match args.disks {
        true => Source::Disks(Vec::new()),
        false => Source::Commands(Box::default()),
    };
    dialect.begin(t)?;
    plan.follow(|shown| {
        let mut rates = source.next(args, connection, &client, &plan)?;
        if args.without_idle {
            rates.retain(|of| of.all.per_s > 0.0);
        }
        if let Some(shown) = shown {
            match dialect {
                Dialect::Own => report(args, &plan, &rates, t)?,
                Dialect::Solaris(layout) => write!(t.out, "{}", layout.report(&rates))?,
                Dialect::Sysstat(layout) => write!(t.out, "{}", layout.report(&rates, shown))?,
            }
            t.out.flush()?;
        }
        Ok(())
    })?;
    dialect.end(t)
}

/// Earlier figures, of which the next report tells the difference.
enum Source {
    /// Figures of units and sessions.
    Commands(Box<Snapshot>),
    /// Figures of pools.
    Disks(Vec<PoolView>),
}

impl Source {
    /// Returns the rates since the last call.
    fn next(
        &mut self,
        args: &Iostat,
        connection: &Connection,
        client: &Client,
        plan: &Plan,
    ) -> Result<Vec<Activity>, Error> {
        match self {
            Self::Commands(before) => {
                let now = fetch::after(client, before)?;
                let earlier = fetch::comparable(std::mem::take(&mut **before), &now);
                let rates = match args.sessions && !args.extended {
                    true => rates::of_sessions(&earlier, &now, &plan.names)?,
                    false => rates::of_units(&earlier, &now, &plan.names)?,
                };
                **before = now;
                Ok(rates)
            }
            Self::Disks(before) => {
                let pools = pool::wanted(connection, &plan.names)?;
                let rates = rates::disks::of_disks(&pools, before);
                *before = pools;
                Ok(rates)
            }
        }
    }
}

fn report(args: &Iostat, plan: &Plan, rates: &[Activity], t: &mut Terminal<'_>) -> Done {
    if args.list.json && plan.interval.is_some() {
        return json_line(t, rates);
    }
    match (args.disks, args.sessions) {
        (true, _) => print(t, &args.list, &of_disk(), rates, "no disks of open pools"),
        (_, true) => print(t, &args.list, &of_session(), rates, "no sessions"),
        (_, false) => print(t, &args.list, &of_unit(), rates, "no logical units"),
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

/// Returns the rate of commands that not everything counts.
fn rare(of: Option<RareRates>) -> String {
    of.map_or_else(|| "-".to_owned(), |it| rate(it.per_s))
}

/// Returns bytes a second as a size.
fn bytes(value: f64, numbers: Numbers) -> String {
    numbers.size(value.round() as u64)
}

/// Returns a part of the session's description, or nothing if the row is of no session.
fn session(of: &Activity, part: fn(&OfSession) -> String) -> String {
    of.session.as_ref().map(part).unwrap_or_default()
}

/// Returns the columns of a unit as one session uses it.
fn of_session() -> Vec<Column<Activity>> {
    let which: [Column<Activity>; 4] = [
        right("session", |of, _| session(of, |it| it.tsih.to_string())),
        left("initiator", |of, _| session(of, |it| it.initiator.clone())),
        right("lun", |of, _| session(of, |it| it.lun.to_string())),
        left("name", |of, _| of.name.clone()),
    ];
    which.into_iter().chain(of_all()).collect()
}

/// Returns the columns of a unit.
fn of_unit() -> Vec<Column<Activity>> {
    let latencies: [Column<Activity>; 6] = [
        right("p50", |of, n| ms(of.both.p50_ns, n)),
        right("p99", |of, n| ms(of.both.p99_ns, n)),
        extra(right("read p50", |of, n| ms(of.reads.p50_ns, n))),
        extra(right("read p99", |of, n| ms(of.reads.p99_ns, n))),
        extra(right("write p50", |of, n| ms(of.writes.p50_ns, n))),
        extra(right("write p99", |of, n| ms(of.writes.p99_ns, n))),
    ];
    let name: [Column<Activity>; 1] = [left("name", |of, _| of.name.clone())];
    name.into_iter().chain(of_all()).chain(latencies).collect()
}

/// Returns the columns of a disk.
fn of_disk() -> [Column<Activity>; 11] {
    [
        left("name", |of, _| of.name.clone()),
        right("reads/s", |of, _| rate(of.reads.per_s)),
        right("writes/s", |of, _| rate(of.writes.per_s)),
        right("read B/s", |of, n| bytes(of.reads.bytes_per_s, n)),
        right("written B/s", |of, n| bytes(of.writes.bytes_per_s, n)),
        right("read", |of, n| ms(of.reads.latency_ns, n)),
        right("write", |of, n| ms(of.writes.latency_ns, n)),
        right("queue", |of, n| ms(of.both.queue_ns, n)),
        right("device", |of, n| ms(of.both.device_ns, n)),
        extra(right("active", |of, _| format!("{:.2}", of.both.active))),
        extra(right("waiting", |of, _| format!("{:.2}", of.both.waiting))),
    ]
}

/// Returns the columns that all reports have.
fn of_all() -> [Column<Activity>; 16] {
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
        extra(right("discards/s", |of, _| rare(of.discards))),
        extra(right("discarded B/s", |of, n| {
            let of = of.discards.map(|it| bytes(it.bytes_per_s, n));
            of.unwrap_or_else(|| "-".to_owned())
        })),
        extra(right("flushes/s", |of, _| rare(of.flushes))),
        extra(right("active", |of, _| format!("{:.2}", of.both.active))),
        extra(right("waiting", |of, _| format!("{:.2}", of.both.waiting))),
    ]
}

//! Reports as `iostat -x` of sysstat 12 prints them, to the letter: other programs read them.
//!
//! sysstat leaves out columns that the kernel does not count. Disks of pools count neither discards
//! nor flushes, so those columns are left out for them. Nothing is merged on the way to a unit or a
//! disk: `rrqm/s` and its like are 0.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use model::date;

use crate::figures::rates::{Activity, RareRates, Rates};

/// Form of the reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Whether amounts are in megabytes (`-m`).
    pub(super) megabytes: bool,
    /// Whether there are few columns (`-s`).
    pub(super) short: bool,
    /// Whether the reports are JSON (`-o JSON`).
    pub(super) json: bool,
    /// Whether discards and flushes are counted.
    pub(super) has_rare: bool,
}

/// Column of a report.
struct Field {
    /// Title in a table.
    title: &'static str,
    /// Key in JSON.
    key: &'static str,
    /// Width in a table.
    width: usize,
    value: f64,
}

fn field(title: &'static str, key: &'static str, width: usize, value: f64) -> Field {
    Field {
        title,
        key,
        width,
        value,
    }
}

impl Layout {
    /// Returns the text before the first report.
    pub(super) fn begin(self) -> String {
        let system = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let [sysname, nodename, release, machine] = [
            text(system.sysname()),
            text(system.nodename()),
            text(system.release()),
            text(system.machine()),
        ];
        let processors = std::thread::available_parallelism().map_or(1, Into::into);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let today = date::month_first(since_1970.unwrap_or_default().as_secs());
        let today = format!("{}{}", &today[..6], &today[8..10]);
        if !self.json {
            return format!(
                "{sysname} {release} ({nodename}) \t{today} \t_{machine}_\t({processors} CPU)\n\n"
            );
        }
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        format!(
            "{{\"sysstat\": {{\n\t\"hosts\": [\n\t\t{{\n\
             \t\t\t\"nodename\": {},\n\t\t\t\"sysname\": {},\n\t\t\t\"release\": {},\n\
             \t\t\t\"machine\": {},\n\t\t\t\"number-of-cpus\": {processors},\n\
             \t\t\t\"date\": \"{today}\",\n\t\t\t\"statistics\": [\n",
            quoted(&nodename),
            quoted(&sysname),
            quoted(&release),
            quoted(&machine),
        )
    }

    /// Returns the text after the last report.
    pub(super) fn end(self) -> &'static str {
        match self.json {
            true => "\n\t\t\t]\n\t\t}\n\t]\n}}\n",
            false => "",
        }
    }

    /// Returns a report. `shown` is the number of reports before it.
    pub(super) fn report(self, rates: &[Activity], shown: u64) -> String {
        match self.json {
            true => self.json_report(rates, shown),
            false => self.table(rates),
        }
    }

    fn table(self, rates: &[Activity]) -> String {
        let mut out = format!("{:<13}", "Device");
        for field in self.fields(&Activity::default()) {
            // Writing to a String cannot fail.
            let _ = write!(out, "{:>1$}", field.title, field.width);
        }
        out.push('\n');
        for of in rates {
            let _ = write!(out, "{:<13}", of.name);
            for field in self.fields(of) {
                let _ = write!(out, " {:>1$.2}", field.value, field.width - 1);
            }
            out.push('\n');
        }
        out + "\n\n"
    }

    fn json_report(self, rates: &[Activity], shown: u64) -> String {
        let comma = if shown > 0 { ",\n" } else { "" };
        let rows = rates.iter().map(|of| {
            let name = serde_json::Value::from(of.name.as_str());
            let mut row = format!("\t\t\t\t\t\t{{\"disk_device\": {name}");
            let mut fields = self.fields(of);
            fields.sort_by_key(|field| place(field.key));
            for field in fields {
                let _ = write!(row, ", \"{}\": {:.2}", field.key, field.value);
            }
            row + "}"
        });
        let rows: Vec<String> = rows.collect();
        format!(
            "{comma}\t\t\t\t{{\n\t\t\t\t\t\"disk\": [\n{}\n\t\t\t\t\t]\n\t\t\t\t}}",
            rows.join(",\n")
        )
    }

    fn fields(self, of: &Activity) -> Vec<Field> {
        match self.short {
            true => self.few_fields(of),
            false => self.all_fields(of),
        }
    }

    fn all_fields(self, of: &Activity) -> Vec<Field> {
        let (reads, writes) = (Line::of(&of.reads), Line::of(&of.writes));
        let mut fields = Vec::new();
        fields.extend(match self.megabytes {
            true => self.group(&reads, &READS_MB),
            false => self.group(&reads, &READS),
        });
        fields.extend(match self.megabytes {
            true => self.group(&writes, &WRITES_MB),
            false => self.group(&writes, &WRITES),
        });
        if self.has_rare {
            let discards = Line::of_rare(of.discards);
            fields.extend(match self.megabytes {
                true => self.group(&discards, &DISCARDS_MB),
                false => self.group(&discards, &DISCARDS),
            });
            let flushes = Line::of_rare(of.flushes);
            fields.push(field("f/s", "f/s", 8, flushes.per_s));
            fields.push(field("f_await", "f_await", 8, flushes.await_ms));
        }
        fields.extend(tail(of));
        fields
    }

    fn few_fields(self, of: &Activity) -> Vec<Field> {
        let rare = [of.discards, of.flushes].map(Line::of_rare);
        let [discards, flushes] = rare;
        let (reads, writes) = (Line::of(&of.reads), Line::of(&of.writes));
        let per_s = reads.per_s + writes.per_s + discards.per_s + flushes.per_s;
        let bytes = reads.bytes + writes.bytes + discards.bytes;
        let sum = |line: &Line| line.per_s * line.await_ms;
        let await_ms = sum(&reads) + sum(&writes) + sum(&discards) + sum(&flushes);
        let mean = |sum: f64| if per_s > 0.0 { sum / per_s } else { 0.0 };
        let (title, scale) = self.scale();
        let mut fields = vec![
            field("tps", "tps", 9, per_s),
            field(title, title, 10, bytes / scale),
            field("rqm/s", "rqm/s", 9, 0.0),
            field("await", "await", 8, mean(await_ms)),
            field("areq-sz", "areq-sz", 9, mean(bytes / 1024.0)),
        ];
        fields.extend(tail(of));
        fields
    }

    fn scale(self) -> (&'static str, f64) {
        match self.megabytes {
            true => ("MB/s", f64::from(1 << 20)),
            false => ("kB/s", 1024.0),
        }
    }

    /// Returns the six columns of one kind of command.
    fn group(self, line: &Line, names: &[(&'static str, &'static str); 6]) -> [Field; 6] {
        let (_, scale) = self.scale();
        let values = [
            (8, line.per_s),
            (10, line.bytes / scale),
            (9, 0.0),
            (7, 0.0),
            (8, line.await_ms),
            (9, line.size_kb()),
        ];
        std::array::from_fn(|at| {
            let ((title, key), (width, value)) = (names[at], values[at]);
            field(title, key, width, value)
        })
    }
}

type Names = [(&'static str, &'static str); 6];

const READS: Names = [
    ("r/s", "r/s"),
    ("rkB/s", "rkB/s"),
    ("rrqm/s", "rrqm/s"),
    ("%rrqm", "rrqm"),
    ("r_await", "r_await"),
    ("rareq-sz", "rareq-sz"),
];
const WRITES: Names = [
    ("w/s", "w/s"),
    ("wkB/s", "wkB/s"),
    ("wrqm/s", "wrqm/s"),
    ("%wrqm", "wrqm"),
    ("w_await", "w_await"),
    ("wareq-sz", "wareq-sz"),
];
const DISCARDS: Names = [
    ("d/s", "d/s"),
    ("dkB/s", "dkB/s"),
    ("drqm/s", "drqm/s"),
    ("%drqm", "drqm"),
    ("d_await", "d_await"),
    ("dareq-sz", "dareq-sz"),
];
const READS_MB: Names = in_megabytes(READS, "rMB/s");
const WRITES_MB: Names = in_megabytes(WRITES, "wMB/s");
const DISCARDS_MB: Names = in_megabytes(DISCARDS, "dMB/s");

const fn in_megabytes(mut names: Names, amount: &'static str) -> Names {
    names[1] = (amount, amount);
    names
}

/// Returns the last columns of each report.
fn tail(of: &Activity) -> [Field; 2] {
    let rare = |rates: Option<RareRates>| {
        let line = Line::of_rare(rates);
        line.per_s * line.await_ms / 1e3
    };
    let under_way = of.both.waiting + of.both.active + rare(of.discards) + rare(of.flushes);
    let busy = 100.0 * (of.both.active + rare(of.discards) + rare(of.flushes)).min(1.0);
    [
        field("aqu-sz", "aqu-sz", 8, under_way),
        field("%util", "util", 7, busy),
    ]
}

/// Returns the place of a key in JSON, whose order is not that of the table.
fn place(key: &str) -> usize {
    let kind = "rwdf".find(key.chars().next().unwrap_or(' ')).unwrap_or(0);
    let group = match key {
        "r/s" | "w/s" | "d/s" | "f/s" => 0,
        "rkB/s" | "wkB/s" | "dkB/s" | "rMB/s" | "wMB/s" | "dMB/s" => 1,
        "rrqm/s" | "wrqm/s" | "drqm/s" => 2,
        "rrqm" | "wrqm" | "drqm" => 3,
        "r_await" | "w_await" | "d_await" | "f_await" => 4,
        "rareq-sz" | "wareq-sz" | "dareq-sz" => 5,
        // Keys of the short form keep their order.
        _ => return 100,
    };
    group * 10 + kind
}

/// Figures of one kind of command.
struct Line {
    per_s: f64,
    bytes: f64,
    await_ms: f64,
}

impl Line {
    fn of(rates: &Rates) -> Self {
        Self {
            per_s: rates.per_s,
            bytes: rates.bytes_per_s,
            await_ms: rates.latency_ns.unwrap_or(0.0) / 1e6,
        }
    }

    fn of_rare(rates: Option<RareRates>) -> Self {
        let rates = rates.unwrap_or_default();
        Self {
            per_s: rates.per_s,
            bytes: rates.bytes_per_s,
            await_ms: rates.latency_ns.unwrap_or(0.0) / 1e6,
        }
    }

    /// Returns the kilobytes of a command on average.
    fn size_kb(&self) -> f64 {
        match self.per_s > 0.0 {
            true => self.bytes / 1024.0 / self.per_s,
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests;

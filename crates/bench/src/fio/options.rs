//! Translates a workload into the words of fio's job files.
//!
//! A job of fio has one share of reads. For each direction it has one random share, and sizes with
//! their shares (`bssplit`). The lines of a specification are added up to these shares. A note
//! tells if they say more.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::data::DataPattern;
use crate::parameters::{Pace, Parameters};
use crate::workload::Workload;
use ::iometer::access::AccessLine;

/// Most sizes in a `bssplit`: fio stops at its 64th.
const MAX_SIZES: usize = 63;

/// Factor from milliseconds to fio's microseconds of thinking time.
const US_PER_MS: u64 = 1000;

/// Job of fio.
pub(super) struct Job<'a> {
    pub(super) name: String,
    /// Lines, each with the weight of its specification.
    pub(super) lines: Vec<(f64, &'a AccessLine)>,
    pub(super) outstanding: u32,
    pub(super) workers: u32,
    /// Bytes of the region; `None` if they are not known.
    pub(super) region: Option<u64>,
}

/// Accesses of one direction.
#[derive(Default)]
struct Mix {
    total: f64,
    random: f64,
    sizes: BTreeMap<u32, f64>,
    /// Random share of each line, in percent.
    random_shares: Vec<u8>,
}

impl Mix {
    fn of(lines: &[(f64, &AccessLine)], share: impl Fn(&AccessLine) -> u8) -> Self {
        let mut mix = Self::default();
        for (weight, line) in lines {
            let accesses = weight * f64::from(line.of_size_percent) * f64::from(share(line));
            if accesses > 0.0 {
                mix.total += accesses;
                mix.random += accesses * f64::from(line.random_percent);
                *mix.sizes.entry(line.size).or_default() += accesses;
                mix.random_shares.push(line.random_percent);
            }
        }
        mix.random_shares.sort_unstable();
        mix.random_shares.dedup();
        mix
    }

    fn random_percent(&self) -> u64 {
        (self.random / self.total.max(f64::MIN_POSITIVE)).round() as u64
    }

    /// Returns the size of most accesses.
    fn commonest(&self) -> Option<u32> {
        let most = self.sizes.iter().max_by(|a, b| a.1.total_cmp(b.1));
        most.map(|(size, _)| *size)
    }

    /// Returns sizes with whole percents that add up to 100, each at least 1. fio knows no
    /// fractions, and takes 0 to mean the rest.
    fn split(&self) -> Vec<(u32, u64)> {
        let shares = self.sizes.iter();
        let mut sizes: Vec<(u32, f64)> = shares
            .map(|(size, accesses)| (*size, accesses * 100.0 / self.total))
            .collect();
        while sizes.len() > MAX_SIZES {
            // The two rarest neighbours become one.
            let together = |at: &usize| sizes[at - 1].1 + sizes[*at].1;
            let pairs = 1..sizes.len();
            let Some(at) = pairs.min_by(|a, b| together(a).total_cmp(&together(b))) else {
                break;
            };
            let (_, share) = sizes.remove(at - 1);
            sizes[at - 1].1 += share;
        }
        let mut split: Vec<(u32, u64, f64)> = sizes
            .into_iter()
            .map(|(size, share)| (size, (share as u64).max(1), share))
            .collect();
        // The last percents go to the sizes that are farthest from their true share, or are taken
        // from them.
        let mut sum: u64 = split.iter().map(|(_, percent, _)| percent).sum();
        while sum != 100 {
            let lack = |(_, percent, share): &&mut (u32, u64, f64)| share - *percent as f64;
            let order =
                |a: &&mut (u32, u64, f64), b: &&mut (u32, u64, f64)| lack(a).total_cmp(&lack(b));
            if sum < 100 {
                let Some(least) = split.iter_mut().max_by(order) else {
                    break;
                };
                (least.1, sum) = (least.1 + 1, sum + 1);
            } else {
                let many = split.iter_mut().filter(|(_, percent, _)| *percent > 1);
                let Some(most) = many.min_by(order) else {
                    break;
                };
                (most.1, sum) = (most.1 - 1, sum - 1);
            }
        }
        split
            .into_iter()
            .map(|(size, percent, _)| (size, percent))
            .collect()
    }

    fn is_whole(&self, split: &[(u32, u64)]) -> bool {
        let share = |size: &u32| self.sizes.get(size).copied().unwrap_or(0.0) * 100.0 / self.total;
        let close = |(size, percent): &(u32, u64)| (share(size) - *percent as f64).abs() < 1e-6;
        split.len() == self.sizes.len() && split.iter().all(close)
    }
}

/// Returns the options of a job. Facts that fio cannot express are added to the notes.
pub(super) fn options(
    job: &Job<'_>,
    workload: &Workload,
    parameters: &Parameters,
    granularity: u32,
    notes: &mut Vec<String>,
) -> Value {
    let read = Mix::of(&job.lines, |line| line.reads_percent);
    let write = Mix::of(&job.lines, |line| 100 - line.reads_percent.min(100));
    let mut options = Map::new();
    let mut set = |name: &str, value: String| {
        options.insert(name.to_owned(), Value::String(value));
    };
    let mut note = |what: String| notes.push(format!("{}: {what}", job.name));
    set("name", job.name.clone());
    set("iodepth", job.outstanding.to_string());
    set("numjobs", job.workers.to_string());
    pattern(&read, &write, &mut set, &mut note);
    sizes(&read, &write, &mut set, &mut note);
    alignment(job, &read, &write, granularity, &mut set, &mut note);
    thinking(job, &mut set, &mut note);
    duration(job, workload, parameters, &mut set);
    pace(job, &read, &write, parameters, &mut set, &mut note);
    if let Some(region) = job.region {
        set("offset", parameters.start.to_string());
        set("size", region.to_string());
        if job.workers > 1 {
            set("offset_increment", region.to_string());
        }
    }
    match workload.data.unwrap_or(parameters.data) {
        DataPattern::Zeros => set("zero_buffers", "1".to_owned()),
        DataPattern::Random => set("refill_buffers", "1".to_owned()),
        DataPattern::Repeating | DataPattern::Mixed { .. } => {}
    }
    Value::Object(options)
}

/// Returns the pattern: reads or writes, in order or at random.
fn pattern(
    read: &Mix,
    write: &Mix,
    set: &mut impl FnMut(&str, String),
    note: &mut impl FnMut(String),
) {
    let all = read.total + write.total;
    let reads = read.total * 100.0 / all.max(f64::MIN_POSITIVE);
    // A direction that exists must not vanish.
    let (least, most) = (
        u64::from(read.total > 0.0),
        100 - u64::from(write.total > 0.0),
    );
    let whole = (reads.round() as u64).clamp(least.min(most), most);
    let random = read.random + write.random > 0.0;
    let rw = match (read.total > 0.0, write.total > 0.0, random) {
        (_, false, false) => "read",
        (_, false, true) => "randread",
        (false, true, false) => "write",
        (false, true, true) => "randwrite",
        (true, true, false) => "rw",
        (true, true, true) => "randrw",
    };
    set("rw", rw.to_owned());
    set("rwmixread", whole.to_string());
    if (whole as f64 - reads).abs() > 1e-6 {
        note(format!(
            "{reads:.2} % are reads, and fio takes whole percents: {whole}"
        ));
    }
    let (reads, writes) = (read.random_percent(), write.random_percent());
    if random && (reads, writes) != (100, 100) {
        let shares = match (read.total > 0.0, write.total > 0.0) {
            (true, true) if reads != writes => format!("{reads},{writes}"),
            (true, _) => reads.to_string(),
            (false, _) => writes.to_string(),
        };
        if shares != "100" {
            set("percentage_random", shares);
        }
    }
    if read.random_shares.len() > 1 || write.random_shares.len() > 1 {
        note("its lines have several random shares, and fio has one for all sizes".to_owned());
    }
}

fn sizes(
    read: &Mix,
    write: &Mix,
    set: &mut impl FnMut(&str, String),
    note: &mut impl FnMut(String),
) {
    let all = Mix {
        sizes: [read, write].iter().flat_map(|mix| &mix.sizes).fold(
            BTreeMap::new(),
            |mut all, (size, accesses)| {
                *all.entry(*size).or_default() += accesses;
                all
            },
        ),
        ..Mix::default()
    };
    // Programs that draw fio's results look for one size. If there is a bssplit, fio ignores the
    // size.
    let Some(commonest) = all.commonest() else {
        return;
    };
    set("bs", commonest.to_string());
    if all.sizes.len() == 1 {
        return;
    }
    let there = [read, write].into_iter().filter(|mix| mix.total > 0.0);
    let splits: Vec<(&Mix, Vec<(u32, u64)>)> = there.map(|mix| (mix, mix.split())).collect();
    if splits.iter().any(|(mix, split)| !mix.is_whole(split)) {
        note("the shares of its sizes are rounded: fio takes whole percents, from 1 on".to_owned());
    }
    let mut texts: Vec<String> = splits
        .iter()
        .map(|(_, split)| {
            let parts = split
                .iter()
                .map(|(size, percent)| format!("{size}/{percent}"));
            parts.collect::<Vec<_>>().join(":")
        })
        .collect();
    // A single list applies to both directions.
    texts.dedup();
    set("bssplit", texts.join(","));
}

/// Sets the alignment. fio chooses random places as this benchmark does: anew each time, at
/// multiples of the alignment.
fn alignment(
    job: &Job<'_>,
    read: &Mix,
    write: &Mix,
    granularity: u32,
    set: &mut impl FnMut(&str, String),
    note: &mut impl FnMut(String),
) {
    if read.random + write.random == 0.0 {
        return;
    }
    set("norandommap", "1".to_owned());
    let aligned = job
        .lines
        .iter()
        .filter(|(_, line)| line.of_size_percent > 0);
    let aligned = aligned.map(|(_, line)| match line.align {
        0 => granularity,
        align => align,
    });
    let mut aligned: Vec<u32> = aligned.collect();
    aligned.sort_unstable();
    aligned.dedup();
    if let Some(least) = aligned.first() {
        set("blockalign", least.to_string());
    }
    if aligned.len() > 1 {
        note(
            "its lines are aligned differently, and fio has one alignment: the smallest".to_owned(),
        );
    }
}

/// Sets pauses after bursts.
fn thinking(job: &Job<'_>, set: &mut impl FnMut(&str, String), note: &mut impl FnMut(String)) {
    let lines = job
        .lines
        .iter()
        .filter(|(_, line)| line.of_size_percent > 0);
    let mut pauses: Vec<(u32, u32)> = lines
        .map(|(_, line)| match line.delay_ms {
            0 => (0, 0),
            delay_ms => (delay_ms, line.burst),
        })
        .collect();
    pauses.sort_unstable();
    pauses.dedup();
    match pauses.as_slice() {
        [] | [(0, _)] => {}
        [(delay_ms, burst)] => {
            set("thinktime", (u64::from(*delay_ms) * US_PER_MS).to_string());
            set("thinktime_blocks", burst.to_string());
        }
        _ => {
            note("its lines pause differently, and fio has one pause: none was written".to_owned())
        }
    }
}

fn duration(
    job: &Job<'_>,
    workload: &Workload,
    parameters: &Parameters,
    set: &mut impl FnMut(&str, String),
) {
    // fio reads a number without a unit as seconds, and a time of zero as no end.
    let time = |ms: u64| match ms % 1000 {
        0 => (ms / 1000).to_string(),
        _ => format!("{ms}ms"),
    };
    set("ramp_time", time(parameters.ramp_up_ms));
    if parameters.run_time_ms > 0 {
        set("runtime", time(parameters.run_time_ms));
    }
    match parameters.amount.or(workload.amount) {
        Some(amount) => set(
            "io_size",
            (amount / u64::from(job.workers.max(1))).max(1).to_string(),
        ),
        None if parameters.run_time_ms > 0 => set("time_based", "1".to_owned()),
        None => {}
    }
}

/// Sets the pace. fio's rates apply to each job and direction.
fn pace(
    job: &Job<'_>,
    read: &Mix,
    write: &Mix,
    parameters: &Parameters,
    set: &mut impl FnMut(&str, String),
    note: &mut impl FnMut(String),
) {
    let iops = match parameters.pace {
        Pace::Closed => return,
        Pace::Limited(iops) => iops,
        Pace::Open(iops) => {
            note(
                "accesses began at their appointed times; fio waits for earlier accesses"
                    .to_owned(),
            );
            iops
        }
    };
    let all = (read.total + write.total).max(f64::MIN_POSITIVE);
    let of = |mix: &Mix| {
        let rate = iops * mix.total / all / f64::from(job.workers.max(1));
        (rate.round() as u64).max(1).to_string()
    };
    let rates = match (read.total > 0.0, write.total > 0.0) {
        (true, true) => format!("{},{}", of(read), of(write)),
        (false, true) => of(write),
        _ => of(read),
    };
    set("rate_iops", rates);
}

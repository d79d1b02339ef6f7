//! Orders for benchmarks, and their bounds. The daemon serves hosts meanwhile, so an order takes
//! bounded time and memory.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use bench::parameters::{Pace, Parameters};
use bench::profile;
use bench::sweep::knob::{Registry, Setup};
use bench::sweep::plan::{self, Design, Settings};
use bench::workload::{Profile, Workload};
use block::BlockDevice;
use model::quantity::{format_size, parse_size};
use model::{Error, ErrorKind};

/// Most measured time of one workload, in milliseconds: an hour.
const MOST_TIME_MS: u64 = 3_600_000;
/// Most time before a measurement, in milliseconds.
const MOST_RAMP_UP_MS: u64 = 60_000;
/// Most time of a whole benchmark, in milliseconds: a day.
const MOST_TOTAL_MS: u64 = 86_400_000;
/// Most rounds.
const MOST_ROUNDS: u32 = 20;
/// Most settings of a sweep.
const MOST_SETTINGS: usize = 100;
/// Most accesses in flight of one worker.
const MOST_OUTSTANDING: u32 = 256;
/// Most threads that make load.
const MOST_WORKERS: u32 = 16;
/// Most bytes in flight, which are memory of the daemon.
const MOST_IN_FLIGHT: u64 = 256 << 20;
/// Least and most bytes of an access.
const BLOCKS: (u32, u32) = (512, 16 << 20);
/// Most letters of a remark.
const MOST_LETTERS: usize = 200;

/// Rounds of an order that names none: three tell a difference from noise.
pub const ROUNDS: u32 = 3;
/// Measured time of an order that names none, in milliseconds.
pub const TIME_MS: u64 = 10_000;
/// Most time before the measurement of an order that names none, in milliseconds. It is a tenth of
/// the measured time otherwise.
const RAMP_UP_MS: u64 = 1_000;
/// Accesses in flight of an order that names none.
pub const OUTSTANDING: u32 = 16;

/// Block sizes and queue depths of a sweep: each is combined with each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepOrder {
    /// Sizes of accesses in bytes.
    pub blocks: Vec<u32>,
    /// Numbers of accesses in flight.
    pub outstanding: Vec<u32>,
}

/// Order for a benchmark of a logical unit. It says what to measure by exactly one of `profile`,
/// `block` and `sweep`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartBenchmark {
    /// Name of the logical unit.
    pub unit: String,
    /// Remark for people, such as what was changed since the last benchmark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Name of a built-in profile, as `sandstone bench profiles` lists them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Text in the names of those workloads of the profile that are run; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// Size of all accesses in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Block sizes and queue depths to try, each combined with each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepOrder>,
    /// Share of reads in percent, with `block` or `sweep`. The default is 100, which writes
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<u8>,
    /// Share of random accesses in percent, with `block` or `sweep`. The default is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<u8>,
    /// Accesses in flight for each worker. The default is 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// Threads, each with its own part of the unit. The default is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Accesses that start each second, however slow the unit is; absent for as many as it
    /// completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Measured time of each workload in milliseconds. The default is 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Time before each measurement in milliseconds. The default is a tenth of the measured time,
    /// and at most 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_up_ms: Option<u64>,
    /// Rounds of the whole. The default is 3: one round does not tell a difference from noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Bytes at the start of the unit that are used; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// Name of the unit, typed once more by a user who gives up the data on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<String>,
}

/// Kind of a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BenchmarkKind {
    /// Workloads under one setting.
    #[default]
    Run,
    /// One workload under many settings.
    Sweep,
}

impl BenchmarkKind {
    /// Returns the word for the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Sweep => "sweep",
        }
    }
}

/// Outcome of an order: settings in the order of their comparison, with the setup of each.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Kind of the benchmark.
    pub kind: BenchmarkKind,
    /// Description of the load, in a few words.
    pub about: String,
    /// Settings of a sweep, or one empty setting.
    pub settings: Vec<Settings>,
    /// Setup under each setting.
    pub setups: Vec<Setup>,
    /// Number of rounds.
    pub rounds: u32,
}

impl Plan {
    /// Returns what an order comes to.
    ///
    /// # Errors
    /// The order contradicts itself, or is out of bounds.
    pub fn of(order: &StartBenchmark) -> Result<Self, Error> {
        let rounds = bounded("rounds", order.rounds.unwrap_or(ROUNDS), 1, MOST_ROUNDS)?;
        check_text(order.comment.as_deref().unwrap_or_default())?;
        let parameters = parameters(order)?;
        let (kind, profile) = profile_of(order)?;
        let about = match kind {
            BenchmarkKind::Run => profile.name.clone(),
            BenchmarkKind::Sweep => format!("sweep, {}", profile.name),
        };
        let start = Setup {
            profile,
            parameters,
            target_options: Default::default(),
            write_cache: None,
            volume: Default::default(),
        };
        let (settings, setups) = match &order.sweep {
            None => (vec![Settings::new()], vec![start]),
            Some(sweep) => swept(sweep, &start)?,
        };
        let plan = Self {
            kind,
            about,
            settings,
            setups,
            rounds,
        };
        plan.check_bounds()?;
        Ok(plan)
    }

    /// Reports whether any access may write.
    pub fn writes(&self) -> bool {
        let mut setups = self.setups.iter();
        setups.any(|setup| setup.profile.workloads.iter().any(Workload::writes))
    }

    /// Returns the number of measurements.
    pub fn runs(&self) -> u32 {
        let workloads: usize = self
            .setups
            .iter()
            .map(|it| it.profile.workloads.len())
            .sum();
        // Both are bounded.
        workloads as u32 * self.rounds
    }

    /// Returns the most time that it takes, in milliseconds. A workload with an amount may end
    /// earlier.
    pub fn total_ms(&self) -> u64 {
        let of = |setup: &Setup| {
            let each = setup.profile.workloads.iter();
            each.map(|workload| run_ms(setup, workload)).sum::<u64>()
        };
        self.setups.iter().map(of).sum::<u64>() * u64::from(self.rounds)
    }

    /// Returns the bytes that are used, of a unit of this size.
    pub fn working_set(&self, len: u64) -> u64 {
        let set = self.setups.first().and_then(|it| it.parameters.working_set);
        set.map_or(len, |set| set.min(len))
    }

    /// Checks that all workloads fit a device.
    ///
    /// # Errors
    /// The size of an access does not fit its blocks, or the working set is too small or too large.
    pub fn check(&self, device: &dyn BlockDevice) -> Result<(), Error> {
        for setup in &self.setups {
            for workload in &setup.profile.workloads {
                bench::run::measure::check(workload, &setup.parameters, device).map_err(
                    |error| {
                        Error::invalid(
                            error.to_string(),
                            "choose another block size, fewer workers, or another part of the unit",
                        )
                    },
                )?;
            }
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), Error> {
        let total_ms = self.total_ms();
        if total_ms > MOST_TOTAL_MS {
            return Err(Error::invalid(
                format!(
                    "the benchmark would take {} h, and may take {} h",
                    total_ms.div_ceil(3_600_000),
                    MOST_TOTAL_MS / 3_600_000
                ),
                "choose a shorter time, fewer rounds, or fewer settings",
            ));
        }
        let in_flight = self.setups.iter().map(in_flight).max().unwrap_or(0);
        if in_flight > MOST_IN_FLIGHT {
            return Err(Error::invalid(
                format!(
                    "the accesses in flight would take {} of the daemon's memory, and may take {}",
                    format_size(in_flight),
                    format_size(MOST_IN_FLIGHT)
                ),
                "choose smaller accesses, fewer in flight, or fewer workers",
            ));
        }
        Ok(())
    }
}

/// Returns the most time of one measurement, in milliseconds.
pub(crate) fn run_ms(setup: &Setup, workload: &Workload) -> u64 {
    let parameters = &setup.parameters;
    let is_bound = parameters.amount.or(workload.amount).is_some();
    // A workload with an amount has no ramp-up.
    let ramp_up_ms = if is_bound { 0 } else { parameters.ramp_up_ms };
    parameters.run_time_ms + ramp_up_ms
}

/// Returns the most bytes in flight of one setup.
fn in_flight(setup: &Setup) -> u64 {
    let of = |workload: &Workload| {
        let streams = workload.streams.iter().map(|stream| {
            let outstanding = stream.outstanding.unwrap_or(setup.parameters.outstanding);
            let workers = stream.workers.unwrap_or(setup.parameters.workers);
            u64::from(outstanding) * u64::from(workers) * u64::from(stream.specification.largest())
        });
        streams.sum::<u64>()
    };
    setup.profile.workloads.iter().map(of).max().unwrap_or(0)
}

fn parameters(order: &StartBenchmark) -> Result<Parameters, Error> {
    let time_ms = order.time_ms.unwrap_or(TIME_MS);
    let ramp_up_ms = order.ramp_up_ms.unwrap_or((time_ms / 10).min(RAMP_UP_MS));
    let pace = match order.rate {
        None => Pace::Closed,
        Some(rate) if (1.0..=1e7).contains(&rate) => Pace::Open(rate),
        Some(rate) => {
            return Err(Error::invalid(
                format!("{rate} is not a rate"),
                "choose a number of accesses per second from 1 to 10,000,000, or none",
            ));
        }
    };
    let outstanding = order.outstanding.unwrap_or(OUTSTANDING);
    if order.working_set == Some(0) {
        return Err(Error::invalid(
            "a working set of 0 bytes measures nothing",
            "choose a larger part of the unit, or leave it out for all of it",
        ));
    }
    Ok(Parameters {
        run_time_ms: bounded("time_ms", time_ms, 100, MOST_TIME_MS)?,
        ramp_up_ms: bounded("ramp_up_ms", ramp_up_ms, 0, MOST_RAMP_UP_MS)?,
        outstanding: bounded("outstanding", outstanding, 1, MOST_OUTSTANDING)?,
        workers: bounded("workers", order.workers.unwrap_or(1), 1, MOST_WORKERS)?,
        working_set: order.working_set,
        pace,
        ..Parameters::default()
    })
}

/// Returns a number within its bounds, or says what they are.
fn bounded<N: PartialOrd + std::fmt::Display>(
    name: &str,
    number: N,
    least: N,
    most: N,
) -> Result<N, Error> {
    if number >= least && number <= most {
        return Ok(number);
    }
    Err(Error::invalid(
        format!("{name} is {number}, which is out of bounds"),
        format!("choose a number from {least} to {most}"),
    ))
}

/// Checks a remark, which is shown in lists.
fn check_text(text: &str) -> Result<(), Error> {
    if text.chars().count() <= MOST_LETTERS && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(
        "the comment has a control character, or is too long",
        format!("write one line of at most {MOST_LETTERS} letters"),
    ))
}

/// Returns the workloads that an order names.
fn profile_of(order: &StartBenchmark) -> Result<(BenchmarkKind, Profile), Error> {
    let reads = bounded("reads", order.reads.unwrap_or(100), 0, 100)?;
    let random = bounded("random", order.random.unwrap_or(0), 0, 100)?;
    let has_mix = order.reads.is_some() || order.random.is_some();
    match (&order.profile, order.block, &order.sweep) {
        (Some(_), None, None) if has_mix => Err(Error::invalid(
            "reads and random belong to block or sweep: a profile has its own mix",
            "leave them out, or name a block size in place of the profile",
        )),
        (Some(name), None, None) => {
            let profile = named(name, order.only.as_deref())?;
            Ok((BenchmarkKind::Run, profile))
        }
        (None, ..) if order.only.is_some() => Err(Error::invalid(
            "only belongs to a profile",
            "leave it out, or name a profile",
        )),
        (None, Some(block), None) => {
            bounded("block", block, BLOCKS.0, BLOCKS.1)?;
            let profile = profile::of_one_size(block, reads, random);
            Ok((BenchmarkKind::Run, profile))
        }
        (None, None, Some(sweep)) => {
            let first = sweep.blocks.first().copied().unwrap_or(4096);
            let mut profile = profile::of_one_size(first, reads, random);
            profile.name = profile::mix(reads, random);
            for workload in &mut profile.workloads {
                workload.name.clone_from(&profile.name);
                for stream in &mut workload.streams {
                    stream.specification.name.clone_from(&profile.name);
                }
            }
            Ok((BenchmarkKind::Sweep, profile))
        }
        _ => Err(Error::invalid(
            "the order must name exactly one of profile, block and sweep",
            "name a profile for usual loads, a block size for one, or a sweep for the best setting",
        )),
    }
}

/// Returns a built-in profile, with those of its workloads whose names have this text.
fn named(name: &str, only: Option<&str>) -> Result<Profile, Error> {
    let found = profile::find(name);
    let mut profile = found.ok_or_else(|| {
        let names: Vec<String> = profile::built_in().into_iter().map(|it| it.name).collect();
        Error::new(
            ErrorKind::Invalid,
            format!("there is no profile {name:?}"),
            format!("choose one of {}", names.join(", ")),
        )
    })?;
    if let Some(only) = only {
        let names: Vec<&str> = profile
            .workloads
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        let next = format!("choose a part of one of these names: {}", names.join(", "));
        let wanted = only.to_lowercase();
        let mut workloads = profile.workloads.clone();
        workloads.retain(|workload| workload.name.to_lowercase().contains(&wanted));
        if workloads.is_empty() {
            let message = format!("no workload of the profile {name} has {only:?} in its name");
            return Err(Error::invalid(message, next));
        }
        profile.workloads = workloads;
        profile.name = format!("{}, only {only}", profile.name);
    }
    Ok(profile)
}

/// Returns the settings of a sweep, and the setup of each.
fn swept(sweep: &SweepOrder, start: &Setup) -> Result<(Vec<Settings>, Vec<Setup>), Error> {
    for depth in &sweep.outstanding {
        bounded("outstanding", *depth, 1, MOST_OUTSTANDING)?;
    }
    for block in &sweep.blocks {
        bounded("block", *block, BLOCKS.0, BLOCKS.1)?;
    }
    let blocks: Vec<String> = sweep.blocks.iter().map(|it| exact_size(*it)).collect();
    let depths: Vec<String> = sweep.outstanding.iter().map(u32::to_string).collect();
    let knobs = [(BLOCK.to_owned(), blocks), (DEPTH.to_owned(), depths)];
    if knobs.iter().any(|(_, values)| values.is_empty()) {
        return Err(Error::invalid(
            "the sweep has no block size or no number of accesses in flight",
            "name at least one of each",
        ));
    }
    if sweep.blocks.len().saturating_mul(sweep.outstanding.len()) > MOST_SETTINGS {
        return Err(Error::invalid(
            format!("the sweep has more than {MOST_SETTINGS} settings"),
            "name fewer block sizes or numbers of accesses in flight",
        ));
    }
    let settings = plan::settings(&knobs, Design::Cross, |_| None);
    let registry = Registry::of_every_target();
    let setup = |settings: &Settings| {
        let mut setup = start.clone();
        for (name, value) in settings {
            let knob = registry
                .find(name)
                .ok_or_else(|| format!("there is no knob {name}"))?;
            knob.apply(value, &mut setup)?;
        }
        Ok(setup)
    };
    let setups: Result<Vec<Setup>, String> = settings.iter().map(setup).collect();
    let setups = setups.map_err(|error| Error::invalid(error, "choose another value"))?;
    Ok((settings, setups))
}

/// Writes a size with a letter, if it is whole in that unit, and in bytes otherwise.
pub(crate) fn exact_size(bytes: u32) -> String {
    let bytes = u64::from(bytes);
    let text = format_size(bytes);
    match parse_size(&text) == Ok(bytes) {
        true => text,
        false => bytes.to_string(),
    }
}

/// Name of the setting of the size of accesses.
pub(crate) const BLOCK: &str = "block";
/// Name of the setting of the accesses in flight.
pub(crate) const DEPTH: &str = "outstanding";

#[cfg(test)]
mod tests {
    use super::*;

    fn block(block: u32) -> StartBenchmark {
        StartBenchmark {
            unit: "db".to_owned(),
            block: Some(block),
            ..StartBenchmark::default()
        }
    }

    fn sweep(blocks: &[u32], outstanding: &[u32]) -> StartBenchmark {
        StartBenchmark {
            sweep: Some(SweepOrder {
                blocks: blocks.to_vec(),
                outstanding: outstanding.to_vec(),
            }),
            ..StartBenchmark::default()
        }
    }

    #[test]
    fn a_block_size_reads_unless_another_mix_is_ordered() {
        let plan = Plan::of(&block(4096)).expect("an order");
        assert_eq!(
            (plan.kind, plan.runs(), plan.writes()),
            (BenchmarkKind::Run, 3, false)
        );
        assert_eq!(plan.total_ms(), 3 * 11_000);
        assert_eq!(plan.about, "4K 100% read 0% random");
        let mixed = StartBenchmark {
            reads: Some(99),
            ..block(4096)
        };
        assert!(Plan::of(&mixed).expect("an order").writes());
    }

    #[test]
    fn a_sweep_has_each_combination_and_one_name() {
        let order = sweep(&[4096, 5000, 4096], &[1, 16]);
        let plan = Plan::of(&order).expect("an order");
        assert_eq!((plan.kind, plan.settings.len()), (BenchmarkKind::Sweep, 4));
        let words: Vec<String> = plan.settings.iter().map(plan::words).collect();
        let expected = [
            "block=4K outstanding=1",
            "block=5000 outstanding=1",
            "block=4K outstanding=16",
            "block=5000 outstanding=16",
        ];
        assert_eq!(words, expected);
        for (setup, size) in plan.setups.iter().zip([4096, 5000, 4096, 5000]) {
            let workload = &setup.profile.workloads[0];
            assert_eq!(workload.streams[0].specification.lines[0].size, size);
            assert_eq!(workload.name, "100% read 0% random");
        }
    }

    #[test]
    fn a_profile_may_be_run_in_part() {
        let order = |only: Option<&str>| StartBenchmark {
            profile: Some("crystal".to_owned()),
            only: only.map(str::to_owned),
            ..StartBenchmark::default()
        };
        let whole = Plan::of(&order(None)).expect("an order");
        let reads = Plan::of(&order(Some("READ"))).expect("an order");
        assert_eq!((whole.runs(), whole.writes()), (24, true));
        assert_eq!((reads.runs(), reads.writes()), (12, false));
        let none = Plan::of(&order(Some("trim"))).expect_err("no such part");
        assert!(none.next.contains("SEQ1M Q8T1 read"), "{none}");
    }

    #[test]
    fn what_is_out_of_bounds_or_contradicts_itself_is_refused() {
        let of = |change: fn(&mut StartBenchmark)| {
            let mut order = block(4096);
            change(&mut order);
            order
        };
        let wrong = [
            StartBenchmark::default(),
            sweep(&[], &[1]),
            sweep(&[4096], &[]),
            sweep(&[4096], &[0]),
            sweep(&[1], &[1]),
            sweep(&[4096; 11], &[1; 10]),
            block(0),
            block(32 << 20),
            of(|it| it.profile = Some("oltp".to_owned())),
            of(|it| it.only = Some("read".to_owned())),
            of(|it| it.reads = Some(101)),
            of(|it| it.rounds = Some(0)),
            of(|it| it.rate = Some(f64::NAN)),
            of(|it| it.rate = Some(0.0)),
            of(|it| it.time_ms = Some(1)),
            of(|it| it.workers = Some(17)),
            of(|it| it.outstanding = Some(257)),
            of(|it| it.working_set = Some(0)),
            of(|it| it.comment = Some("a\nb".to_owned())),
            of(|it| (it.time_ms, it.rounds, it.profile) = (Some(3_600_000), Some(20), None)),
        ];
        // The last one takes 20 hours, which is allowed.
        let last = wrong.len() - 1;
        for (at, order) in wrong.iter().enumerate() {
            let plan = Plan::of(order);
            assert_eq!(plan.is_ok(), at == last, "{order:?}: {plan:?}");
        }
        let long = StartBenchmark {
            time_ms: Some(3_600_000),
            rounds: Some(20),
            profile: Some("vmktree".to_owned()),
            ..StartBenchmark::default()
        };
        assert!(
            Plan::of(&long)
                .expect_err("too long")
                .message
                .contains("81 h")
        );
        let wide = StartBenchmark {
            outstanding: Some(256),
            ..block(2 << 20)
        };
        let error = Plan::of(&wide).expect_err("512 MiB in flight");
        assert!(
            error.message.contains("512M of the daemon's memory"),
            "{error}"
        );
    }
}

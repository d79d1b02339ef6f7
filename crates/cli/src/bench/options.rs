//! The options of a run: how to run, from the command line to [`Parameters`], and what to run, from
//! a name or a file to workloads.

use std::path::{Path, PathBuf};

use clap::Args;

use super::saved;
use crate::Terminal;
use crate::grammar::completion::{profiles, size};
use crate::grammar::whole_file;
use crate::print::table::ListArgs;
use bench::data::DataPattern;
use bench::iometer::conversion::{self, Imported};
use bench::parameters::{Pace, Parameters};
use bench::profile;
use bench::results::Results;
use bench::workload::{Profile, Workload};
use hint::Place;
use model::Error;
use model::quantity::parse_time;

/// Options that choose the workloads to run.
#[derive(Clone, Debug, Args)]
pub(super) struct What {
    /// A built-in profile (`bench profiles` lists them), an IOmeter .icf file, or a profile in JSON
    #[arg(
        long,
        value_name = "NAME|FILE",
        default_value = "vmktree",
        conflicts_with = "block",
        add = profiles()
    )]
    profile: String,
    /// Run only workloads whose names contain this text
    #[arg(long, value_name = "TEXT", conflicts_with = "block")]
    only: Option<String>,
    /// Run accesses of this size instead of a profile
    #[arg(long, value_name = "SIZE", value_parser = block)]
    block: Option<u32>,
    /// Share of reads, with --block
    #[arg(long, value_name = "PERCENT", default_value_t = 100, requires = "block", value_parser = percent())]
    reads: u8,
    /// Share of random accesses, with --block
    #[arg(long, value_name = "PERCENT", default_value_t = 0, requires = "block", value_parser = percent())]
    random: u8,
}

/// Options that choose how to run the workloads.
#[derive(Clone, Debug, Args)]
pub(super) struct How {
    /// Measured time of each workload, as in 30s, 5m, 500ms [default: 30s, or until the amount is
    /// done]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    time: Option<u64>,
    /// Time before the measurement that is not measured
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    ramp_up: Option<u64>,
    /// Accesses in flight per worker
    #[arg(short = 'q', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    outstanding: Option<u32>,
    /// Threads, each with its own part of the working set
    #[arg(short = 'w', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Size of the part of the target to use
    #[arg(long, value_name = "SIZE", value_parser = size)]
    working_set: Option<u64>,
    /// Size of the start of the target to leave alone
    #[arg(long, value_name = "SIZE", value_parser = size)]
    start: Option<u64>,
    /// Amount of bytes after which the run ends
    #[arg(long, value_name = "SIZE", value_parser = size)]
    amount: Option<u64>,
    /// Bytes written: zeros, repeating, random, compressible:P, duplicated:P, mixed:C:D
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<DataPattern>,
    /// Start this many accesses per second, however slow the target is. Latency counts from the
    /// time at which each access is due
    #[arg(long, value_name = "IOPS", conflicts_with = "limit")]
    rate: Option<f64>,
    /// Start at most this many accesses per second
    #[arg(long, value_name = "IOPS")]
    limit: Option<f64>,
    /// Split larger accesses, as an initiator with this largest I/O does
    #[arg(long, value_name = "SIZE", value_parser = block)]
    max_io: Option<u32>,
    /// Write the whole working set once before the measurement
    #[arg(long)]
    fill: bool,
    /// Mark every block that is written and check every block that is read; read all blocks back at
    /// the end
    #[arg(long)]
    verify: bool,
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// Options that choose whether to run at all, and what to do with the results.
#[derive(Clone, Debug, Args)]
pub(super) struct Output {
    /// Save the results to this file, for bench compare, export and report
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Show only what would be run
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) list: ListArgs,
}

impl Output {
    /// Saves the results, if the user asked for that. Called once without a run, before time is
    /// spent, then after each round, and at the end.
    pub(super) fn save(&self, results: &Results) -> Result<(), Error> {
        match &self.save {
            Some(path) => saved::write(path, results),
            None => Ok(()),
        }
    }

    /// Returns, in words, where results that are not whole were kept.
    pub(super) fn kept(&self, results: &Results) -> String {
        let runs = match results.runs.len() {
            1 => "1 run was".to_owned(),
            count => format!("{count} runs were"),
        };
        match &self.save {
            Some(path) => format!(
                "{runs} measured before the error, and saved in {}",
                path.display()
            ),
            None => format!(
                "{runs} measured before the error, and not saved; --save FILE saves results"
            ),
        }
    }
}

fn percent() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..=100)
}

/// Reads the size of an access, for clap.
pub(super) fn block(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| format!("{text} is too large for one access"))
}

/// Reads a time such as `30s`, for clap. A number without a unit is in seconds.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    parse_time(text, Some(1000))
}

/// Profile, with the parameters that its file names.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) profile: Profile,
    pub(super) parameters: Parameters,
    /// Whether the parameters, with the time to run, came with the profile.
    says_time: bool,
    /// Parts of the file that this program does not carry out.
    pub(super) notes: Vec<String>,
}

impl Chosen {
    /// Reports the parts of the file that are not carried out.
    pub(super) fn say_notes(&self, t: &mut Terminal<'_>) -> std::io::Result<()> {
        self.notes
            .iter()
            .try_for_each(|note| writeln!(t.err, "note: {note}"))
    }

    /// Returns the clock of the profile's workloads. A workload with an amount runs to its amount,
    /// unless the user named a time.
    pub(super) fn clock(&self, how: &How) -> Clock {
        Clock {
            is_said: self.says_time || how.time.is_some(),
        }
    }
}

/// Clock of a run: it tells whether the user named the run's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    is_said: bool,
}

impl Clock {
    /// Returns the parameters of one workload.
    pub(super) fn of(self, parameters: &Parameters, workload: &Workload) -> Parameters {
        let mut parameters = parameters.clone();
        let is_bound = parameters.amount.or(workload.amount).is_some();
        if is_bound && !self.is_said {
            parameters.run_time_ms = 0;
        }
        parameters
    }

    /// Returns the time that workloads will take, as far as it is known before.
    pub(super) fn preview(self, parameters: &Parameters, workloads: &[Workload]) -> Preview {
        let each = workloads
            .iter()
            .map(|workload| self.of(parameters, workload));
        let (by_time, by_amount): (Vec<_>, Vec<_>) =
            each.partition(|parameters| parameters.run_time_ms > 0);
        let ms = |parameters: &Parameters| parameters.run_time_ms + parameters.ramp_up_ms;
        Preview {
            ms: by_time.iter().map(ms).sum(),
            by_amount: by_amount.len(),
        }
    }
}

/// Time that a run will take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preview {
    /// Milliseconds of the workloads that end by time.
    pub(super) ms: u64,
    /// Number of workloads that end by their amount instead.
    pub(super) by_amount: usize,
}

impl Preview {
    /// Returns the time in words, for a number of rounds.
    pub(super) fn words(self, rounds: u32) -> String {
        let total = duration(self.ms.saturating_mul(u64::from(rounds)));
        match (self.ms, self.by_amount) {
            (_, 0) => format!("about {total}"),
            (0, _) => "until the amounts are transferred".to_owned(),
            _ => format!("about {total}, and until the other amounts are transferred"),
        }
    }
}

/// Returns a time in words for people who decide whether to wait: in seconds, in minutes, then in
/// hours and minutes.
fn duration(ms: u64) -> String {
    let (seconds, minutes) = (ms.div_ceil(1000), ms.div_ceil(60_000));
    match seconds {
        0..=180 => format!("{seconds} s"),
        181..=7200 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

impl What {
    /// Returns the workloads, and the parameters that came with them.
    pub(super) fn choose(&self) -> Result<Chosen, Error> {
        let mut chosen = match self.block {
            Some(block) => plain(profile::of_one_size(block, self.reads, self.random)),
            None => load(&self.profile)?,
        };
        if let Some(only) = &self.only {
            let wanted = only.to_lowercase();
            let workloads = &mut chosen.profile.workloads;
            workloads.retain(|workload| workload.name.to_lowercase().contains(&wanted));
        }
        if chosen.profile.workloads.is_empty() {
            return Err(Error::not_found(
                "no workload is left to run",
                "list the profiles and their workloads: sandstone bench profiles",
            ));
        }
        Ok(chosen)
    }
}

fn plain(profile: Profile) -> Chosen {
    Chosen {
        profile,
        parameters: Parameters::default(),
        says_time: false,
        notes: Vec::new(),
    }
}

/// Loads a built-in profile, an `.icf` file or a profile in JSON.
pub(super) fn load(name: &str) -> Result<Chosen, Error> {
    if let Some(profile) = profile::find(name) {
        return Ok(plain(profile));
    }
    let path = Path::new(name);
    if !path.exists() {
        return Err(Error::not_found(
            format!("there is no profile and no file {name}"),
            "list the built-in profiles: sandstone bench profiles",
        ));
    }
    let bytes = whole_file::bytes(path, whole_file::DOCUMENT)
        .map_err(|error| Error::system(Place::File(path), format!("read {name}"), error))?;
    let text = ::iometer::text::decode(&bytes);
    if text.trim_start().starts_with('{') {
        let profile: Profile = serde_json::from_slice(text.as_bytes()).map_err(|error| {
            Error::invalid(
                format!("{name} is not a profile: {error}"),
                "correct the file",
            )
        })?;
        return Ok(match profile.parameters.clone() {
            None => plain(profile),
            Some(parameters) => Chosen {
                profile,
                parameters,
                says_time: true,
                notes: Vec::new(),
            },
        });
    }
    let Imported {
        profile,
        parameters,
        notes,
    } = conversion::read(&text, name)
        .map_err(|error| Error::invalid(format!("{name}, {error}"), "correct that line"))?;
    Ok(Chosen {
        profile,
        parameters,
        says_time: true,
        notes,
    })
}

impl How {
    /// Returns the parameters. The command line takes precedence over those that came with the
    /// profile.
    pub(super) fn over(&self, base: Parameters) -> Parameters {
        let pace = match (self.rate, self.limit) {
            (Some(rate), _) => Pace::Open(rate),
            (None, Some(limit)) => Pace::Limited(limit),
            (None, None) => base.pace,
        };
        Parameters {
            run_time_ms: self.time.unwrap_or(base.run_time_ms),
            ramp_up_ms: self.ramp_up.unwrap_or(base.ramp_up_ms),
            outstanding: self.outstanding.unwrap_or(base.outstanding),
            workers: self.workers.unwrap_or(base.workers),
            start: self.start.unwrap_or(base.start),
            working_set: self.working_set.or(base.working_set),
            amount: self.amount.or(base.amount),
            data: self.pattern.unwrap_or(base.data),
            pace,
            max_io: self.max_io.or(base.max_io),
            fill: self.fill || base.fill,
            verify: self.verify || base.verify,
            seed: self.seed.unwrap_or(base.seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn a_long_sweep_is_told_in_hours() {
        let told = [900, 128_000, 180_001, 3_600_000, 14_720_000].map(duration);
        assert_eq!(told, ["1 s", "128 s", "4 min", "60 min", "4 h 6 min"]);
    }
}

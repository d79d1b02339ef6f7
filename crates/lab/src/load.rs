//! One run of one variant, and its figures.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::{Running, inside, pause};
use super::error::LabError;
use super::experiments::{Disturbance, Load, Unit, Variant};
use super::network::{Network, target_address};
use super::target::Target;
use bench::network::survey::Survey;
use bench::results::{Measurement, Results};

/// Time before the measurement that is not recorded: TCP finds its window.
const RAMP_UP: Duration = Duration::from_millis(500);
/// Time by which a run may exceed its load: logging in, failing over, ending.
const GRACE: Duration = Duration::from_secs(60);
const NETWORK_PORT: u16 = 5201;

/// Figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Accesses per second; 0 for a TCP stream.
    pub iops: f64,
    /// Mean latency in milliseconds; 0 for a TCP stream.
    pub mean_ms: f64,
    /// Latency that one of a hundred accesses exceeds, in milliseconds; 0 for a TCP stream.
    pub p99_ms: f64,
    /// esxtop's KAVG, on this side of the wire, in milliseconds; 0 for a TCP stream.
    pub kavg_ms: f64,
    /// esxtop's DAVG, from the wire to the answer, in milliseconds; 0 for a TCP stream.
    pub davg_ms: f64,
    /// Longest time without a completion in milliseconds; 0 for a TCP stream.
    pub gap_ms: f64,
}

impl Figures {
    fn of(measurement: &Measurement) -> Self {
        let latency = &measurement.latency;
        let p99_ns = latency
            .distribution
            .as_ref()
            .map_or(0, |spread| spread.p99_ns);
        Self {
            bytes_per_s: measurement.bytes_per_s(),
            iops: measurement.iops(),
            mean_ms: latency.mean_ns / 1e6,
            p99_ms: p99_ns as f64 / 1e6,
            kavg_ms: measurement.esxtop.map_or(0.0, |split| split.kavg_us / 1e3),
            davg_ms: measurement.esxtop.map_or(0.0, |split| split.davg_us / 1e3),
            gap_ms: measurement.longest_gap_ns as f64 / 1e6,
        }
    }

    /// Returns the mean of several runs.
    pub fn mean(all: &[Self]) -> Self {
        let mean = |figure: fn(&Self) -> f64| {
            all.iter().map(figure).sum::<f64>() / all.len().max(1) as f64
        };
        Self {
            bytes_per_s: mean(|one| one.bytes_per_s),
            iops: mean(|one| one.iops),
            mean_ms: mean(|one| one.mean_ms),
            p99_ms: mean(|one| one.p99_ms),
            kavg_ms: mean(|one| one.kavg_ms),
            davg_ms: mean(|one| one.davg_ms),
            gap_ms: mean(|one| one.gap_ms),
        }
    }
}

/// Place in which runs happen.
pub(super) struct Site<'a> {
    pub(super) network: &'a Network,
    pub(super) target: &'a Target,
    pub(super) stop: &'a AtomicBool,
    /// Folder for temporary results.
    pub(super) scratch: &'a Path,
}

impl Site<'_> {
    /// Runs a variant once. The links have been shaped.
    pub(super) fn run(&self, variant: &Variant, time: Duration) -> Result<Figures, LabError> {
        match variant.load {
            Load::Tcp { receive } => self.tcp(receive, time),
            Load::Storage { .. } => self.storage(variant, time),
        }
    }

    fn tcp(&self, receive: bool, time: Duration) -> Result<Figures, LabError> {
        let address = target_address(0);
        let listen = format!("{address}:{NETWORK_PORT}");
        let words = ["bench", "network", "--serve", "--listen", &listen].map(str::to_owned);
        let _server = Running::start(inside(&self.network.target, &words)?)?;
        pause(Duration::from_millis(300), self.stop)?;
        // The first second is not counted, as with the ramp-up of storage.
        let seconds = (time.as_secs().max(1) + 1).to_string();
        let way = if receive { "--reverse" } else { "--forward" };
        let words = [
            "bench",
            "network",
            &listen,
            way,
            "--seconds",
            &seconds,
            "--json",
        ]
        .map(str::to_owned);
        let client = Running::start(inside(&self.network.initiator, &words)?)?;
        let text = client.finish(time + GRACE, self.stop)?;
        let wrong = |error| LabError::Invalid(format!("bench network printed no result: {error}"));
        #[derive(Deserialize)]
        struct Printed {
            survey: Survey,
        }
        let printed: Printed = serde_json::from_slice(text.as_bytes()).map_err(wrong)?;
        let counted = printed.survey.throughput.iter();
        let counted = counted.flat_map(|one| one.intervals.iter().skip(1));
        let (bytes, seconds) = counted.fold((0, 0.0), |(bytes, seconds), interval| {
            (bytes + interval.bytes, seconds + interval.seconds)
        });
        if bytes == 0 {
            return Err(LabError::Invalid("no data came over the link".to_owned()));
        }
        Ok(Figures {
            bytes_per_s: bytes as f64 / seconds,
            ..Figures::default()
        })
    }

    fn storage(&self, variant: &Variant, time: Duration) -> Result<Figures, LabError> {
        let results = self.scratch.join("results.json");
        let words = self.words(variant, time, &results);
        let load = Running::start(inside(&self.network.initiator, &words)?)?;
        let happened = self.disturb(variant.disturbance, time);
        let printed = load.finish(time + GRACE, self.stop);
        happened?;
        let swallowed = match variant.disturbance {
            Disturbance::Silence => Some(self.network.swallowed(0)?),
            Disturbance::Reset | Disturbance::None => None,
        };
        printed?;
        if swallowed == Some(0) {
            return Err(LabError::Invalid(
                "no data was in flight on the silenced link".to_owned(),
            ));
        }
        read(&results)
    }

    fn words(&self, variant: &Variant, time: Duration, results: &Path) -> Vec<String> {
        let Load::Storage {
            block,
            reads,
            random,
            outstanding,
        } = variant.load
        else {
            return Vec::new();
        };
        let url = self
            .target
            .url(variant.unit, variant.paths, variant.options);
        let mut words = vec!["bench".to_owned(), "run".to_owned(), url];
        let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        option("block", block.to_string());
        option("reads", reads.to_string());
        option("random", random.to_string());
        option("outstanding", outstanding.to_string());
        option("time", format!("{}ms", time.as_millis()));
        option("ramp-up", format!("{}ms", RAMP_UP.as_millis()));
        option("save", results.to_string_lossy().into_owned());
        words.extend(["--destroy-data", "--json"].map(str::to_owned));
        if matches!(variant.unit, Unit::Volume(_)) {
            // Blocks that were never written are not read from anywhere, and overwriting is the
            // common case.
            words.push("--fill".to_owned());
        }
        words
    }

    /// Cuts the first link in the middle of the measured time.
    fn disturb(&self, disturbance: Disturbance, time: Duration) -> Result<(), LabError> {
        if disturbance == Disturbance::None {
            return Ok(());
        }
        pause(RAMP_UP + time / 2, self.stop)?;
        match disturbance {
            Disturbance::Silence => self.network.silence(0),
            Disturbance::Reset => match self.network.reset(0)? {
                0 => Err(LabError::Missing(
                    "no connection could be reset: the kernel does not destroy sockets (CONFIG_INET_DIAG_DESTROY)"
                        .to_owned(),
                )),
                _ => Ok(()),
            },
            Disturbance::None => Ok(()),
        }
    }
}

fn read(path: &Path) -> Result<Figures, LabError> {
    let text = fs::read_to_string(path).map_err(LabError::system("read the results"))?;
    // The next run must not find these results.
    let _ = fs::remove_file(path);
    let results: Results = serde_json::from_slice(text.as_bytes())
        .map_err(|error| LabError::Invalid(format!("the results cannot be understood: {error}")))?;
    let run = results.runs.first();
    let measurement = run
        .map(|run| &run.measurement)
        .ok_or(LabError::Interrupted)?;
    if measurement.errors() > 0 {
        let first = measurement
            .failures
            .first()
            .map_or("", |failures| &failures.first);
        return Err(LabError::Invalid(format!(
            "{} accesses failed, and none may fail: {first}",
            measurement.errors()
        )));
    }
    Ok(Figures::of(measurement))
}

//! Results as they are shown, saved, compared and reported: plain data with stable names.
//!
//! One file holds the results of one target on one machine. Rates are not saved, because they
//! follow from the saved figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::esxtop_queue::EsxtopQueue;
use super::measure::latency::{Latencies, LatencySummary};
use super::measure::window::{Direction, Second};
use super::parameters::Parameters;
use super::reached::{Reached, Unit};
use super::verify::VerifyReport;
use super::workload::Workload;
use block::LatencySplit;

/// Version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// File of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format: [`FORMAT`].
    pub format: u32,
    /// Measuring tool: `sandstone 0.1.0`, or the tool whose results were imported.
    pub tool: String,
    /// Time of the start, in seconds since 1970; 0 if unknown.
    pub started_unix_s: u64,
    /// Machine that made the load.
    pub machine: Machine,
    /// Measured target.
    pub target: Target,
    /// Settings of a sweep; the others are compared with the first. Empty if nothing was varied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<BTreeMap<String, String>>,
    /// Runs in the order in which they were done.
    pub runs: Vec<Run>,
    /// Runs that did not come to their end, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRun>,
}

/// Run that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRun {
    /// Round of the run.
    pub round: u32,
    /// Sweep settings that the run was to have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Workload of the run; `None` if the target did not even open with these settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Reason of the failure.
    pub reason: String,
    /// Whether the sweep left this setting out of its remaining work and went on with all others.
    #[serde(default)]
    pub left_out: bool,
}

/// Machine that made the load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the machine.
    pub host: String,
    /// Operating system and kernel version.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Number of processors that may be used.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
}

/// Measured target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Name as the user gave it, without secrets.
    pub name: String,
    /// Capacity in bytes.
    pub len: u64,
    /// Bytes of a block.
    pub granularity: u32,
    /// Bytes of a physical block.
    pub physical: u32,
    /// Whether unwritten parts take no space, so that reading them measures no disk.
    pub thin: bool,
    /// Whether acknowledged writes may be lost without a flush.
    pub volatile_cache: bool,
    /// Options of an `iscsi://` URL, without secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// Identity, if the target is a logical unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

/// One run of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Round of a repeated run, counted from 0.
    pub round: u32,
    /// Sweep settings in force, by the name of the knob.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Workload of the run.
    pub workload: Workload,
    /// Parameters of the run.
    pub parameters: Parameters,
    /// State in which the logical unit was reached at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// Figures of the run.
    pub measurement: Measurement,
}

/// Accesses of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// Accesses that succeeded within the measured time.
    pub accesses: u64,
    /// Bytes of these accesses.
    pub bytes: u64,
    /// Number of accesses that failed.
    pub errors: u64,
    /// Latencies of these accesses, and of those that came late (see [`Measurement::late`]).
    pub latency: LatencySummary,
}

impl DirectionResult {
    /// Combines the counts of the measured time with the late accesses.
    pub fn of(counted: &Direction, late: &Direction) -> Self {
        let mut latencies = counted.latencies.clone();
        latencies.add(&late.latencies);
        Self {
            accesses: counted.latencies.count(),
            bytes: counted.bytes,
            errors: counted.errors + late.errors,
            latency: latencies.summary(),
        }
    }
}

/// Processor time that the load took on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Time in the program.
    pub user_ns: u64,
    /// Time in the kernel on the program's behalf.
    pub system_ns: u64,
    /// Time over which both were counted.
    pub elapsed_ns: u64,
}

/// Parts of the latency in esxtop's terms; mean microseconds of a command. GAVG, the time that the
/// requester has waited, is KAVG plus DAVG; QAVG is a part of KAVG.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EsxtopLatency {
    /// Commands that ended in the measured time.
    pub commands: u64,
    /// Time from submission to the end.
    pub gavg_us: f64,
    /// Time on this side of the wire.
    pub kavg_us: f64,
    /// Time from the wire to the response.
    pub davg_us: f64,
    /// Time in the queue before the first sending.
    pub qavg_us: f64,
}

impl EsxtopLatency {
    /// Computes the latency between two readings of a device; `None` if no command ended.
    pub(super) fn between(begun: LatencySplit, ended: LatencySplit) -> Option<Self> {
        let commands = ended
            .commands
            .checked_sub(begun.commands)
            .filter(|count| *count > 0)?;
        let mean = |begun: u64, ended: u64| ended.saturating_sub(begun) as f64 / commands as f64;
        let gavg_us = mean(begun.guest_us, ended.guest_us);
        let davg_us = mean(begun.device_us, ended.device_us);
        Some(Self {
            commands,
            gavg_us,
            kavg_us: (gavg_us - davg_us).max(0.0),
            davg_us,
            qavg_us: mean(begun.queue_us, ended.queue_us),
        })
    }
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Stable word: `medium`, `write`, `no-space`, `read-only`, `gone`, `invalid`.
    pub kind: String,
    /// Number of requests that failed in this way.
    pub count: u64,
    /// Message of the first failure.
    pub first: String,
}

/// Result of one of several streams of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Name of the access specification.
    pub name: String,
    /// Reads of the stream.
    pub read: DirectionResult,
    /// Writes of the stream.
    pub write: DirectionResult,
}

/// Figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Measured time.
    pub elapsed_ns: u64,
    /// Number of threads that made load.
    pub workers: u32,
    /// Most accesses in flight, of all workers together.
    pub outstanding: u32,
    /// Reads.
    pub read: DirectionResult,
    /// Writes.
    pub write: DirectionResult,
    /// Latencies of reads and writes together.
    pub latency: LatencySummary,
    /// Streams one by one, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamResult>,
    /// Seconds one by one; the last may be shorter than a second.
    pub series: Vec<Second>,
    /// Processor time; `None` if it was not measured.
    pub cpu: Option<CpuTime>,
    /// Parts of the latency, for a device at the end of a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub esxtop: Option<EsxtopLatency>,
    /// Queue of a device at the end of a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<EsxtopQueue>,
    /// Longest time between two completions of one worker: the duration of a failover, say.
    pub longest_gap_ns: u64,
    /// Accesses that were in flight when the time was over. They count in the latencies, but in no
    /// rate.
    pub late: u64,
    /// Accesses of an open pace that never started. The rate was not reached then, and the
    /// latencies are those of the accesses that did start.
    pub unstarted: u64,
    /// Failures by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failures>,
    /// Whether the user ended the run before its time.
    #[serde(default)]
    pub interrupted: bool,
    /// Accesses without an answer when the run was interrupted, for which nobody waited. They are
    /// in no figure, and their writes may still reach the target.
    #[serde(default)]
    pub abandoned: u64,
    /// Whether the run ended because everything failed.
    #[serde(default)]
    pub gave_up: bool,
    /// Result of the verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyReport>,
}

impl Measurement {
    fn per_second(&self, count: u64) -> f64 {
        match self.elapsed_ns {
            0 => 0.0,
            elapsed_ns => count as f64 * 1e9 / elapsed_ns as f64,
        }
    }

    /// Returns the accesses per second.
    pub fn iops(&self) -> f64 {
        self.per_second(self.read.accesses + self.write.accesses)
    }

    /// Returns the reads per second.
    pub fn read_iops(&self) -> f64 {
        self.per_second(self.read.accesses)
    }

    /// Returns the writes per second.
    pub fn write_iops(&self) -> f64 {
        self.per_second(self.write.accesses)
    }

    /// Returns the bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_second(self.read.bytes + self.write.bytes)
    }

    /// Returns the bytes read per second.
    pub fn read_bytes_per_s(&self) -> f64 {
        self.per_second(self.read.bytes)
    }

    /// Returns the bytes written per second.
    pub fn write_bytes_per_s(&self) -> f64 {
        self.per_second(self.write.bytes)
    }

    /// Returns the number of accesses that failed.
    pub fn errors(&self) -> u64 {
        self.read.errors + self.write.errors
    }

    /// Returns the processor time of an access, in nanoseconds; `None` if it is not known.
    pub fn cpu_ns_per_access(&self) -> Option<f64> {
        let accesses = self.read.accesses + self.write.accesses;
        let cpu = self.cpu.filter(|_| accesses > 0)?;
        Some((cpu.user_ns + cpu.system_ns) as f64 / accesses as f64)
    }

    /// Returns the processor time as a share of one core (1 for all of it); `None` if it is not
    /// known.
    pub fn cpu_cores(&self) -> Option<f64> {
        let cpu = self.cpu.filter(|cpu| cpu.elapsed_ns > 0)?;
        Some((cpu.user_ns + cpu.system_ns) as f64 / cpu.elapsed_ns as f64)
    }

    /// Reports whether data was found to be wrong.
    pub fn data_is_wrong(&self) -> bool {
        self.verify
            .as_ref()
            .is_some_and(|report| report.mismatches > 0)
    }

    /// Reports whether verification was requested and proved nothing, or proved an error.
    pub fn is_unproven(&self) -> bool {
        self.verify
            .as_ref()
            .is_some_and(|report| !report.is_proof())
    }
}

/// Combines the latencies of reads and writes.
pub(super) fn together(directions: [&Direction; 4]) -> LatencySummary {
    let mut all = Latencies::default();
    directions
        .iter()
        .for_each(|direction| all.add(&direction.latencies));
    all.summary()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_is_that_of_the_measured_time() {
        let begun = LatencySplit {
            commands: 10,
            guest_us: 1000,
            device_us: 900,
            queue_us: 50,
            ..LatencySplit::default()
        };
        let ended = LatencySplit {
            commands: 14,
            guest_us: 1400,
            device_us: 1100,
            queue_us: 90,
            ..LatencySplit::default()
        };
        let expected = EsxtopLatency {
            commands: 4,
            gavg_us: 100.0,
            kavg_us: 50.0,
            davg_us: 50.0,
            qavg_us: 10.0,
        };
        assert_eq!(EsxtopLatency::between(begun, ended), Some(expected));
        assert_eq!(EsxtopLatency::between(begun, begun), None);
    }
}

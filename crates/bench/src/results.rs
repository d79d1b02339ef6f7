//! What was measured, as it is shown, saved, compared and reported: plain data with stable names.
//!
//! One file holds the results of one target on one machine. Rates are not saved; they follow from
//! what is.

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

/// The version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// A file of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// What measured: `sandstone 0.1.0`, or the tool whose results were imported.
    pub tool: String,
    /// When it began, in seconds since 1970; 0 where unknown.
    pub started_unix_s: u64,
    /// What it ran on.
    pub machine: Machine,
    /// What was measured.
    pub target: Target,
    /// The settings of a sweep; the others are compared with the first. Empty where nothing was
    /// turned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<BTreeMap<String, String>>,
    /// The runs in the order in which they were done.
    pub runs: Vec<Run>,
    /// What did not come to its end, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRun>,
}

/// A run that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRun {
    /// Its round.
    pub round: u32,
    /// Settings of a sweep that it was to have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Its workload; `None` where the target did not even open like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Why.
    pub reason: String,
    /// Whether its setting was left out of what remained to be done, and everything else went on.
    #[serde(default)]
    pub left_out: bool,
}

/// The machine that made the load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// Operating system and kernel version.
    pub kernel: String,
    /// The processor's model.
    pub processor: String,
    /// Processors that may be used.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// As the user named it, without secrets.
    pub name: String,
    /// Bytes.
    pub len: u64,
    /// Bytes per block.
    pub granularity: u32,
    /// Bytes that lie beneath as one.
    pub physical: u32,
    /// Whether unwritten parts take no space: reading them measures no disk.
    pub thin: bool,
    /// Whether acknowledged writes may be lost without a flush.
    pub volatile_cache: bool,
    /// Options of an `iscsi://` URL, without secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// Who it is, where it is a logical unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

/// One workload run once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which round of a repeated run, from 0 on.
    pub round: u32,
    /// Settings of a sweep that were in force, by the name of the knob.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// What was asked for.
    pub workload: Workload,
    /// How.
    pub parameters: Parameters,
    /// How the logical unit was reached at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// What came of it.
    pub measurement: Measurement,
}

/// Accesses of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// Accesses that succeeded within the measured time.
    pub accesses: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Accesses that failed.
    pub errors: u64,
    /// Their latencies, and of those that came late (see [`Measurement::late`]).
    pub latency: LatencySummary,
}

impl DirectionResult {
    /// From what was counted within the measured time, and what came late.
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
    /// In the program.
    pub user_ns: u64,
    /// In the kernel on its behalf.
    pub system_ns: u64,
    /// The time over which both were counted.
    pub elapsed_ns: u64,
}

/// Where the time of commands went, in esxtop's terms; mean microseconds per command. GAVG, what
/// whoever asked has waited, is KAVG and DAVG together; QAVG is a part of KAVG.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EsxtopLatency {
    /// Commands that ended in the measured time.
    pub commands: u64,
    /// From submission to the end.
    pub gavg_us: f64,
    /// On this side of the wire.
    pub kavg_us: f64,
    /// From the wire to the response.
    pub davg_us: f64,
    /// In the queue before the first sending.
    pub qavg_us: f64,
}

impl EsxtopLatency {
    /// What came between two readings of a device; `None` where no command ended.
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
    /// A stable word: `medium`, `write`, `no-space`, `read-only`, `gone`, `invalid`.
    pub kind: String,
    /// How many requests failed so.
    pub count: u64,
    /// What the first one said.
    pub first: String,
}

/// One of several streams of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Its access specification.
    pub name: String,
    /// Its reads.
    pub read: DirectionResult,
    /// Its writes.
    pub write: DirectionResult,
}

/// What came of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The measured time.
    pub elapsed_ns: u64,
    /// Threads that made load.
    pub workers: u32,
    /// Most accesses in flight, of all workers together.
    pub outstanding: u32,
    /// Reads.
    pub read: DirectionResult,
    /// Writes.
    pub write: DirectionResult,
    /// Latencies of reads and writes together.
    pub latency: LatencySummary,
    /// The streams one by one, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamResult>,
    /// Second by second; the last may be shorter than one.
    pub series: Vec<Second>,
    /// Processor time; `None` where it was not measured.
    pub cpu: Option<CpuTime>,
    /// Where the time went, for a device at the end of a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub esxtop: Option<EsxtopLatency>,
    /// The queue of such a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<EsxtopQueue>,
    /// Longest time between two completions of one worker: how long a failover took.
    pub longest_gap_ns: u64,
    /// Accesses that were in flight when the time was over. They are in the latencies, in no rate.
    pub late: u64,
    /// Accesses of an open pace that never started: the rate was not reached, and the latencies are
    /// those of the ones that did.
    pub unstarted: u64,
    /// What failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failures>,
    /// Whether the user ended it before its time.
    #[serde(default)]
    pub interrupted: bool,
    /// Accesses without an answer when it was interrupted, which nobody waited for: they are in no
    /// figure, and writes among them may still reach the target.
    #[serde(default)]
    pub abandoned: u64,
    /// Whether it ended because everything failed.
    #[serde(default)]
    pub gave_up: bool,
    /// What verification found.
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

    /// Accesses per second.
    pub fn iops(&self) -> f64 {
        self.per_second(self.read.accesses + self.write.accesses)
    }

    /// Reads per second.
    pub fn read_iops(&self) -> f64 {
        self.per_second(self.read.accesses)
    }

    /// Writes per second.
    pub fn write_iops(&self) -> f64 {
        self.per_second(self.write.accesses)
    }

    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_second(self.read.bytes + self.write.bytes)
    }

    /// Bytes read per second.
    pub fn read_bytes_per_s(&self) -> f64 {
        self.per_second(self.read.bytes)
    }

    /// Bytes written per second.
    pub fn write_bytes_per_s(&self) -> f64 {
        self.per_second(self.write.bytes)
    }

    /// Accesses that failed.
    pub fn errors(&self) -> u64 {
        self.read.errors + self.write.errors
    }

    /// Processor time per access, in nanoseconds; `None` where it is not known.
    pub fn cpu_ns_per_access(&self) -> Option<f64> {
        let accesses = self.read.accesses + self.write.accesses;
        let cpu = self.cpu.filter(|_| accesses > 0)?;
        Some((cpu.user_ns + cpu.system_ns) as f64 / accesses as f64)
    }

    /// Processor time as a share of one core, 1 for all of it; `None` where it is not known.
    pub fn cpu_cores(&self) -> Option<f64> {
        let cpu = self.cpu.filter(|cpu| cpu.elapsed_ns > 0)?;
        Some((cpu.user_ns + cpu.system_ns) as f64 / cpu.elapsed_ns as f64)
    }

    /// Whether data was found to be wrong.
    pub fn data_is_wrong(&self) -> bool {
        self.verify
            .as_ref()
            .is_some_and(|report| report.mismatches > 0)
    }

    /// Whether verification was asked for and has proven nothing, or the contrary.
    pub fn is_unproven(&self) -> bool {
        self.verify
            .as_ref()
            .is_some_and(|report| !report.is_proof())
    }
}

/// Latencies of reads and writes together.
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

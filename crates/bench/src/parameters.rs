//! Parameters of a run that the workload does not state: duration, depth, place, pace.

use serde::{Deserialize, Serialize};

use super::data::DataPattern;

/// Time at which accesses start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "iops")]
pub enum Pace {
    /// A new access starts as soon as one has ended: as many as the device completes with this many
    /// in flight.
    #[default]
    Closed,
    /// A new access starts as in `Closed`, but at most this many start each second.
    Limited(f64),
    /// Open loop: this many accesses start each second, each at its appointed time, whatever the
    /// device does. Latency counts from the appointed time: an access that could not start because
    /// the device was stuck has waited all the same.
    Open(f64),
}

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Measured time in milliseconds. A workload with an amount ends earlier when the amount is
    /// done.
    pub run_time_ms: u64,
    /// Time before the measurement that is not recorded, in milliseconds.
    pub ramp_up_ms: u64,
    /// Accesses in flight for each worker, if the workload does not say. With an open pace, the
    /// most that there may be.
    pub outstanding: u32,
    /// Threads, each with its own part of the working set, if the workload does not say.
    pub workers: u32,
    /// First byte of the working set.
    #[serde(default)]
    pub start: u64,
    /// Bytes of the working set; `None` for the rest of the device.
    #[serde(default)]
    pub working_set: Option<u64>,
    /// Bytes after which the run ends; `None` for the workload's amount.
    #[serde(default)]
    pub amount: Option<u64>,
    /// Pattern of the written bytes, if the workload does not say.
    #[serde(default)]
    pub data: DataPattern,
    /// Time at which accesses start.
    #[serde(default)]
    pub pace: Pace,
    /// Size of the pieces into which larger accesses are split, as an initiator with this limit
    /// does.
    #[serde(default)]
    pub max_io: Option<u32>,
    /// Whether the working set is written once before the run.
    #[serde(default)]
    pub fill: bool,
    /// Whether every block carries its identity, and is checked when it is read.
    #[serde(default)]
    pub verify: bool,
    /// Seed of the random numbers.
    #[serde(default)]
    pub seed: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            run_time_ms: 30_000,
            ramp_up_ms: 2_000,
            outstanding: 16,
            workers: 1,
            start: 0,
            working_set: None,
            amount: None,
            data: DataPattern::default(),
            pace: Pace::Closed,
            max_io: None,
            fill: false,
            verify: false,
            seed: 1,
        }
    }
}

/// Growth of a cycled number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Growth by adding the step.
    Linear,
    /// Growth by multiplying with the step.
    Exponential,
}

/// Lists the numbers from `start` to at most `end`, growing by `step`, as IOmeter cycles
/// outstanding I/Os and workers. A step that does not grow gives the start alone.
pub fn cycle(start: u32, end: u32, step: u32, growth: Growth) -> Vec<u32> {
    let next = |number: &u32| match growth {
        Growth::Linear if step > 0 => number.checked_add(step),
        Growth::Exponential if step > 1 && *number > 0 => number.checked_mul(step),
        _ => None,
    };
    let numbers = std::iter::successors(Some(start), next);
    numbers
        .take_while(|number| *number <= end.max(start))
        .take(1000)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_those_of_iometer() {
        assert_eq!(
            cycle(1, 64, 2, Growth::Exponential),
            [1, 2, 4, 8, 16, 32, 64]
        );
        assert_eq!(cycle(1, 10, 4, Growth::Linear), [1, 5, 9]);
        assert_eq!(cycle(16, 4, 1, Growth::Linear), [16]);
        assert_eq!(cycle(3, 9, 0, Growth::Linear), [3]);
        assert_eq!(cycle(3, 9, 1, Growth::Exponential), [3]);
        assert_eq!(cycle(0, 9, 2, Growth::Exponential), [0]);
        assert_eq!(cycle(u32::MAX, u32::MAX, 1, Growth::Linear), [u32::MAX]);
    }
}

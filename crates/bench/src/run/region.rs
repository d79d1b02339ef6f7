//! Assigns parts of the device to workers.
//!
//! The parts are disjoint. So workers need no lock against each other, and each can verify its own
//! part. A sequential worker meets no other on its way; IOmeter's workers do, and then read from
//! caches what others have just read. Random accesses of all workers together still go everywhere.

use std::fmt;

use crate::generator::{Generator, Part};
use crate::parameters::Parameters;
use crate::workload::Workload;
use model::quantity::format_size;

/// Alignment of parts, if they are large enough.
const UNIT: u64 = 1 << 20;

/// Part of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Index of the stream in the workload.
    pub stream: usize,
    /// Number of the worker within the stream.
    pub worker: u32,
    /// Number of workers of the stream.
    pub workers: u32,
    /// Number of accesses in flight.
    pub outstanding: u32,
    /// Part of the device.
    pub part: Part,
}

/// Reason why a workload does not fit the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// The working set goes beyond the device.
    Beyond {
        /// End of the working set: one past its last byte.
        end: u64,
        /// Bytes of the device.
        len: u64,
    },
    /// The parts are too small for the accesses.
    TooSmall {
        /// Name of the stream.
        stream: String,
        /// Bytes that each part has.
        part: u64,
        /// Bytes that each part needs.
        needed: u64,
    },
    /// The workload has no workers, or no accesses in flight.
    Idle,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beyond { end, len } => write!(
                f,
                "the working set ends at {}, beyond the device of {}",
                format_size(*end),
                format_size(*len)
            ),
            Self::TooSmall {
                stream,
                part,
                needed,
            } => write!(
                f,
                "each worker of {stream:?} has {} of the working set and needs {}",
                format_size(*part),
                format_size(*needed)
            ),
            Self::Idle => {
                f.write_str("there must be at least one worker with one access in flight")
            }
        }
    }
}

impl std::error::Error for RegionError {}

/// Returns the working set on a device of `len` bytes.
pub fn working_set(
    parameters: &Parameters,
    len: u64,
    granularity: u32,
) -> Result<Part, RegionError> {
    let unit = u64::from(granularity);
    let start = parameters.start.next_multiple_of(unit);
    let wanted = parameters.working_set.unwrap_or(len.saturating_sub(start)) / unit * unit;
    let end = start.saturating_add(wanted);
    if wanted == 0 || end > len {
        return Err(RegionError::Beyond { end, len });
    }
    Ok(Part { start, len: wanted })
}

/// Gives every worker its part of the working set.
pub fn assign(
    workload: &Workload,
    parameters: &Parameters,
    set: Part,
    granularity: u32,
) -> Result<Vec<Assignment>, RegionError> {
    let weights: u64 = workload
        .streams
        .iter()
        .map(|stream| u64::from(stream.weight.max(1)))
        .sum();
    let mut assignments = Vec::new();
    let mut start = set.start;
    for (index, stream) in workload.streams.iter().enumerate() {
        let workers = stream.workers.unwrap_or(parameters.workers);
        let outstanding = stream.outstanding.unwrap_or(parameters.outstanding);
        if workers == 0 || outstanding == 0 {
            return Err(RegionError::Idle);
        }
        let share = set.len / weights.max(1) * u64::from(stream.weight.max(1));
        let unit = if share / u64::from(workers) >= 16 * UNIT {
            UNIT
        } else {
            u64::from(granularity)
        };
        let share = if workload.streams.len() == 1 {
            set.len
        } else {
            share / unit * unit
        };
        let region = Part { start, len: share };
        start += share;
        let needed =
            Generator::least_part(&stream.specification) * u64::from(stream.sequences.max(1));
        for (worker, part) in region.divide(u64::from(workers), unit).enumerate() {
            if part.len < needed.max(u64::from(granularity)) {
                return Err(RegionError::TooSmall {
                    stream: stream.specification.name.clone(),
                    part: part.len,
                    needed,
                });
            }
            assignments.push(Assignment {
                stream: index,
                worker: worker as u32,
                workers,
                outstanding,
                part,
            });
        }
    }
    if assignments.is_empty() {
        return Err(RegionError::Idle);
    }
    Ok(assignments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    #[test]
    fn all_workers_of_all_streams_have_parts_of_their_own() {
        let oltp = &profile::find("oltp").expect("built in").workloads[0];
        let parameters = Parameters {
            workers: 3,
            ..Parameters::default()
        };
        let set = Part {
            start: 1 << 20,
            len: 1 << 30,
        };
        let all = assign(oltp, &parameters, set, 512).expect("it fits");
        assert_eq!(
            all.iter().map(|one| one.stream).collect::<Vec<_>>(),
            [0, 0, 0, 1]
        );
        for pair in all.windows(2) {
            assert!(pair[0].part.end() <= pair[1].part.start, "{pair:?}");
        }
        assert_eq!(all[3].outstanding, 1);
        assert_eq!((all[0].part.len, all[3].part.len), (320 << 20, 64 << 20));
        assert!(all[3].part.end() <= set.end());
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let dd = &profile::find("dd").expect("built in").workloads[0];
        let parameters = Parameters::default();
        let small = Part {
            start: 0,
            len: 1 << 20,
        };
        let error = assign(dd, &parameters, small, 512).expect_err("too small");
        assert!(
            error.to_string().contains("has 1M of the working set"),
            "{error}"
        );
        let nobody = Parameters {
            outstanding: 0,
            ..Parameters::default()
        };
        let vmktree = &profile::find("vmktree").expect("built in").workloads[0];
        assert_eq!(assign(vmktree, &nobody, small, 512), Err(RegionError::Idle));
    }

    #[test]
    fn the_working_set_lies_on_the_device() {
        let parameters = |start, working_set| Parameters {
            start,
            working_set,
            ..Parameters::default()
        };
        let set = |start, size| working_set(&parameters(start, size), 1 << 20, 4096);
        assert_eq!(
            set(0, None),
            Ok(Part {
                start: 0,
                len: 1 << 20
            })
        );
        assert_eq!(
            set(1, None),
            Ok(Part {
                start: 4096,
                len: (1 << 20) - 4096
            })
        );
        assert_eq!(
            set(0, Some(5000)),
            Ok(Part {
                start: 0,
                len: 4096
            })
        );
        assert!(set(1 << 20, None).is_err());
        assert!(set(4096, Some(1 << 20)).is_err());
        assert!(set(u64::MAX - 8191, Some(u64::MAX)).is_err());
    }
}

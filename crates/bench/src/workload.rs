//! A workload: access specifications that run side by side, with their depth and their bytes.
//!
//! Most workloads have one stream. A database has two: random accesses to its data, while its log
//! is written.

use serde::{Deserialize, Serialize};

use super::data::DataPattern;
use super::parameters::Parameters;
use ::iometer::access::{AccessSpecification, SpecificationError};

/// Accesses of one or more threads that run at the same time in one region of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Specification of the accesses.
    pub specification: AccessSpecification,
    /// Accesses in flight for each worker; `None` for the run's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// Number of worker threads; `None` for the run's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Number of places in each worker's region that are accessed in turn, like the files of a
    /// program.
    #[serde(default = "one")]
    pub sequences: u32,
    /// Weight of the region's share of the working set, in relation to the other streams.
    #[serde(default = "one")]
    pub weight: u32,
}

const fn one() -> u32 {
    1
}

impl Stream {
    /// Creates a stream that takes all its values from the run.
    pub fn new(specification: AccessSpecification) -> Self {
        Self {
            specification,
            outstanding: None,
            workers: None,
            sequences: 1,
            weight: 1,
        }
    }
}

/// Streams that run at the same time. A result is about one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name of the profile.
    pub name: String,
    /// Streams that run side by side.
    pub streams: Vec<Stream>,
    /// Pattern of the written bytes; `None` for the run's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataPattern>,
    /// Number of bytes after which the workload ends, if it does not end by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
}

impl Workload {
    /// Creates a workload of one stream, named after its specification.
    pub fn single(stream: Stream) -> Self {
        Self {
            name: stream.specification.name.clone(),
            streams: vec![stream],
            data: None,
            amount: None,
        }
    }

    /// Checks that the workload makes sense on a device with blocks of `granularity` bytes.
    pub fn check(&self, granularity: u32) -> Result<(), SpecificationError> {
        self.streams.iter().try_for_each(|stream| {
            stream.specification.check()?;
            stream.specification.check_granularity(granularity)
        })
    }

    /// Reports whether any access may write.
    pub fn writes(&self) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.specification.writes())
    }

    /// Returns the bytes of the largest access.
    pub fn largest(&self) -> u32 {
        let sizes = self
            .streams
            .iter()
            .map(|stream| stream.specification.largest());
        sizes.max().unwrap_or(0)
    }
}

/// Workloads that are run one after the other under one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name of the profile.
    pub name: String,
    /// Purpose of the profile, in one line.
    #[serde(default)]
    pub about: String,
    /// Workloads, in the order of their runs.
    pub workloads: Vec<Workload>,
    /// Parameters of the runs; `None` for the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Parameters>,
}

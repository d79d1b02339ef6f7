//! A workload: access specifications that run side by side, how deep, and with which bytes.
//!
//! Most have one stream. A database has two: random accesses to its data while its log is written.

use serde::{Deserialize, Serialize};

use super::data::DataPattern;
use super::parameters::Parameters;
use ::iometer::access::{AccessSpecification, SpecificationError};

/// What one or more threads do at the same time in one region of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// The accesses.
    pub specification: AccessSpecification,
    /// Accesses in flight per worker; `None` for what the run says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// Worker threads; `None` for what the run says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Places in each worker's region that are accessed in turn, as a program with that many files
    /// does.
    #[serde(default = "one")]
    pub sequences: u32,
    /// Its region's share of the working set, in relation to those of the other streams.
    #[serde(default = "one")]
    pub weight: u32,
}

const fn one() -> u32 {
    1
}

impl Stream {
    /// A stream that takes everything from the run.
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

/// Streams that run at the same time; what a result is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What people call it.
    pub name: String,
    /// What runs side by side.
    pub streams: Vec<Stream>,
    /// The bytes that are written; `None` for what the run says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataPattern>,
    /// Ends after this many bytes, where it does not end by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
}

impl Workload {
    /// A workload of one stream, named as its specification.
    pub fn single(stream: Stream) -> Self {
        Self {
            name: stream.specification.name.clone(),
            streams: vec![stream],
            data: None,
            amount: None,
        }
    }

    /// Whether it makes sense on a device with blocks of `granularity` bytes.
    pub fn check(&self, granularity: u32) -> Result<(), SpecificationError> {
        self.streams.iter().try_for_each(|stream| {
            stream.specification.check()?;
            stream.specification.check_granularity(granularity)
        })
    }

    /// Whether any access may write.
    pub fn writes(&self) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.specification.writes())
    }

    /// Bytes of the largest access.
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
    /// What people call it.
    pub name: String,
    /// What it is for, in one line.
    #[serde(default)]
    pub about: String,
    /// In this order.
    pub workloads: Vec<Workload>,
    /// How they are run; `None` for what the run says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Parameters>,
}

//! Results about a path as they are printed, saved and reported: plain data with stable names.

use serde::{Deserialize, Serialize};

use super::survey::{Finding, Survey};
use crate::results::Machine;

/// Version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// File of `bench network`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkResult {
    /// Version of the format: [`FORMAT`].
    pub format: u32,
    /// Measuring tool: `sandstone 0.1.0`.
    pub tool: String,
    /// Time of the start, in seconds since 1970; 0 if unknown.
    pub started_unix_s: u64,
    /// Machine at this end.
    pub machine: Machine,
    /// Measurements of the path.
    pub survey: Survey,
    /// Payload that the interface's nominal speed allows, in bytes per second; `None` if it has no
    /// nominal speed.
    pub wire_bytes_per_s: Option<f64>,
    /// Findings that a user should know.
    pub findings: Vec<Finding>,
}

impl NetworkResult {
    /// Creates the result of a survey that `machine` made.
    pub fn of(survey: Survey, machine: Machine, started_unix_s: u64) -> Self {
        Self {
            format: FORMAT,
            tool: concat!("sandstone ", env!("CARGO_PKG_VERSION")).to_owned(),
            started_unix_s,
            machine,
            wire_bytes_per_s: survey.wire_bytes_per_s(),
            findings: survey.findings(),
            survey,
        }
    }
}

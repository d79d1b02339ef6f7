//! What was found of a path, as it is printed, saved and reported: plain data with stable names.

use serde::{Deserialize, Serialize};

use super::survey::{Finding, Survey};
use crate::results::Machine;

/// The version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// A file of `bench network`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkResult {
    /// [`FORMAT`].
    pub format: u32,
    /// What measured: `sandstone 0.1.0`.
    pub tool: String,
    /// When it began, in seconds since 1970; 0 where unknown.
    pub started_unix_s: u64,
    /// This end.
    pub machine: Machine,
    /// What the path is.
    pub survey: Survey,
    /// What the interface's nominal speed leaves for payload, in bytes per second; `None` where it
    /// has none.
    pub wire_bytes_per_s: Option<f64>,
    /// What a user should know.
    pub findings: Vec<Finding>,
}

impl NetworkResult {
    /// Of a survey that `machine` made.
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

//! Trims: the request, the view of their state, and its text.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::date::utc;

/// Action that a trim is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrimAction {
    /// Begin, or go on where it was paused.
    Start,
    /// Rest until it is started again.
    Pause,
    /// Stop before all free space was trimmed.
    Cancel,
}

/// Request of `pool trim`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Trim {
    /// Action to take.
    pub action: TrimAction,
    /// Devices to trim, by path, last part of the path, or number. An empty list means all devices
    /// that can trim.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Most bytes to trim per second, for each device.
    #[serde(default)]
    pub rate: Option<u64>,
}

/// State of a device's trim, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrimView {
    /// State: running, suspended, finished, canceled, or unsupported.
    pub state: String,
    /// Percentage of the device's space that was examined.
    pub percent: u8,
    /// Bytes that the device was asked to trim.
    pub bytes: u64,
    /// Number of steps that the device failed.
    pub failed: u64,
    /// Most bytes to trim per second. `None` means as fast as other I/O is left undisturbed.
    pub rate: Option<u64>,
    /// Time of the start, in seconds since 1970.
    pub started_s: u64,
    /// Time of the end or pause, in seconds since 1970. 0 means neither has happened.
    pub ended_s: u64,
}

/// Describes a trim in zpool's words. A device without a trim is described as untrimmed.
pub fn text(trim: Option<&TrimView>) -> String {
    let Some(trim) = trim else {
        return "(untrimmed)".to_owned();
    };
    let percent = trim.percent;
    let failed = match trim.failed {
        0 => String::new(),
        failed => format!(", {failed} times refused by the device"),
    };
    let (began, ended) = (utc(trim.started_s), utc(trim.ended_s));
    match trim.state.as_str() {
        "unsupported" => "(trim unsupported)".to_owned(),
        "running" => format!("({percent}% trimmed, started at {began}{failed})"),
        "suspended" => format!("({percent}% trimmed, suspended, started at {began}{failed})"),
        "canceled" => format!("({percent}% trimmed, canceled at {ended}{failed})"),
        _ => format!("(100% trimmed, completed at {ended}{failed})"),
    }
}

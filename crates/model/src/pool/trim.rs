//! Trims: the order, the state that is shown, and its words.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::date::utc;

/// An order for trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrimAction {
    /// Begin, or go on where it was paused.
    Start,
    /// Rest until it is started again.
    Pause,
    /// End before all was seen.
    Cancel,
}

/// `pool trim`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Trim {
    /// The order.
    pub action: TrimAction,
    /// Which devices, by path, last part of the path, or number; none are all that can trim.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Bytes a second of each device at most.
    #[serde(default)]
    pub rate: Option<u64>,
}

/// A trim of a device, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrimView {
    /// running, suspended, finished, canceled, or unsupported.
    pub state: String,
    /// How much of the device's space was looked at, per cent.
    pub percent: u8,
    /// Bytes that the device was told of.
    pub bytes: u64,
    /// Steps that the device failed.
    pub failed: u64,
    /// Bytes a second at most; `None`: as fast as leaves others alone.
    pub rate: Option<u64>,
    /// When it began, in seconds since 1970.
    pub started_s: u64,
    /// When it ended or was paused; 0 while it has not.
    pub ended_s: u64,
}

/// Describes a trim in zpool's words. A device that was never trimmed is described as untrimmed.
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

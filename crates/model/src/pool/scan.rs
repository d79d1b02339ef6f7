//! Scrubs and resilvers: the request, and the view of their state.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Action that a scrub is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScrubAction {
    /// Begin, or go on where it was paused.
    Start,
    /// Rest until it is started again.
    Pause,
    /// Stop before the whole pool was checked.
    Stop,
}

/// Request of `pool scrub`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Scrub {
    /// Action to take.
    pub action: ScrubAction,
}

/// State of a scrub or resilver, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScanView {
    /// Kind of scan: scrub or resilver.
    pub kind: String,
    /// State: running, paused, finished or canceled.
    pub state: String,
    /// Time of the start, in seconds since 1970.
    pub started_s: u64,
    /// Time of the end, in seconds since 1970. 0 means that the scan has not ended.
    pub ended_s: u64,
    /// Bytes of found blocks, as they take space on the devices.
    pub scanned: u64,
    /// Bytes of processed blocks, as they take space on the devices.
    pub issued: u64,
    /// Bytes in use on the devices when the scan began.
    pub total: u64,
    /// Bytes that were rewritten because they were bad or missing.
    pub repaired: u64,
    /// Number of copies and columns that were bad.
    pub bad: u64,
    /// Number of blocks without a right copy.
    pub errors: u64,
    /// Bytes processed per second.
    pub rate: u64,
    /// Seconds left. `None` means that the time is unknown.
    pub left_s: Option<u64>,
    /// Whether a scrub waits for the end of this resilver, to begin again then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_scrub_waiting: bool,
}

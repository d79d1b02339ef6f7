//! Scrubs and resilvers: the order, and the state that is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a scrub is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScrubAction {
    /// Begin, or go on where it was paused.
    Start,
    /// Rest until it is started again.
    Pause,
    /// End before all was seen.
    Stop,
}

/// `pool scrub`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Scrub {
    /// What to do.
    pub action: ScrubAction,
}

/// A scrub or resilver, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScanView {
    /// scrub or resilver.
    pub kind: String,
    /// running, paused, finished or canceled.
    pub state: String,
    /// When it began, in seconds since 1970.
    pub started_s: u64,
    /// When it ended; 0 while it has not.
    pub ended_s: u64,
    /// Bytes on the devices of blocks that were found.
    pub scanned: u64,
    /// Bytes on the devices of blocks that were worked off.
    pub issued: u64,
    /// Bytes on the devices that were in use when it began.
    pub total: u64,
    /// Bytes that were rewritten because they were bad or missing.
    pub repaired: u64,
    /// Copies and columns that were bad.
    pub bad: u64,
    /// Blocks of which there is no right copy.
    pub errors: u64,
    /// Bytes worked off in a second.
    pub rate: u64,
    /// Seconds that it will take yet; `None` where nobody knows.
    pub left_s: Option<u64>,
    /// Of a resilver: a scrub waits for its end, and begins again then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_scrub_waiting: bool,
}

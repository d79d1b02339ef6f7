//! Settings of a device, with ESXi's default where ESXi has one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::fence_settle;
use super::path_selection::Psp;
use super::round_robin::RoundRobin;
use super::satp::Satp;

/// All settings of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Storage array type that claimed the device.
    pub satp: Satp,
    /// Path selection policy.
    pub psp: Psp,
    /// Limits of VMW_PSP_RR.
    pub round_robin: RoundRobin,
    /// Path that VMW_PSP_FIXED prefers, by runtime name. `None`: the best one found first.
    pub preferred_path: Option<String>,
    /// DQLEN: most I/Os that may be at the device at once (iscsivmk_LunQDepth, 128).
    pub queue_depth: u32,
    /// Number of answers BUSY or TASK SET FULL after which a path's share of the queue is halved
    /// (QFullSampleSize). 0 turns this off. The default here is 4; ESXi's default is 0.
    pub queue_full_sample_size: u32,
    /// Number of good answers after which the share grows by one again (QFullThreshold).
    pub queue_full_threshold: u32,
    /// Time for which an unconfirmed write of a lost session counts as able to land: the time for
    /// which all paths may be down. `None`: until its end is confirmed.
    pub fence_timeout_us: Option<u64>,
    /// Time for which a write of a lost session may still land after the session's end was
    /// confirmed. No write should (RFC 7143 §6.3.5: tasks are ended before the LOGIN is answered).
    /// A target may, however, answer while one of its threads is still at a write. Overlapping
    /// requests wait for this time, and so do requests that promise durability. The default is the
    /// claim rules' time for the vendor.
    pub fence_settle_us: u64,
    /// Time for which I/O waits while all paths are down (Misc.APDTimeout, 140 s).
    pub apd_timeout_us: u64,
    /// Time for which one I/O is repeated, or waits for an active path, while paths live. The
    /// default, 180 s, is the disk timeout that VMware Tools set in guests.
    pub command_time_limit_us: u64,
    /// Whether a standby group may be activated (SET TARGET PORT GROUPS) if no path is active and
    /// the target allows it (explicit_allow).
    pub explicit_allow: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            satp: Satp::DefaultAa,
            psp: Psp::Fixed,
            round_robin: RoundRobin::default(),
            preferred_path: None,
            queue_depth: 128,
            queue_full_sample_size: 4,
            queue_full_threshold: 8,
            fence_timeout_us: Some(140_000_000),
            fence_settle_us: fence_settle::of_vendor(""),
            apd_timeout_us: 140_000_000,
            command_time_limit_us: 180_000_000,
            explicit_allow: true,
        }
    }
}

impl Settings {
    /// Returns the queue depth in use: at least one I/O, because otherwise no I/O would ever move.
    pub(super) fn depth(&self) -> u32 {
        self.queue_depth.max(1)
    }
}

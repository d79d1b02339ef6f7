//! What can be set for a device, with ESXi's defaults where it has one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::fence_settle;
use super::path_selection::Psp;
use super::round_robin::RoundRobin;
use super::satp::Satp;

/// Everything that governs one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The storage array type that claimed the device.
    pub satp: Satp,
    /// How paths are selected.
    pub psp: Psp,
    /// Limits of VMW_PSP_RR.
    pub round_robin: RoundRobin,
    /// The path that VMW_PSP_FIXED prefers, by runtime name; none: the best one found first.
    pub preferred_path: Option<String>,
    /// DQLEN: how many I/Os may be at the device at once (iscsivmk_LunQDepth, 128).
    pub queue_depth: u32,
    /// After how many BUSY or TASK SET FULL a path's share of the queue is halved
    /// (QFullSampleSize; 0 turns it off as in ESXi, whose default that is; ours is 4).
    pub queue_full_sample_size: u32,
    /// After how many good answers it grows by one again (QFullThreshold).
    pub queue_full_threshold: u32,
    /// How long a write of a lost session counts as able to land although nobody confirmed its
    /// end: as long as all paths may be down. `None`: until someone does.
    pub fence_timeout_us: Option<u64>,
    /// How long a write of a lost session may still land after the session's end was confirmed.
    /// None should (RFC 7143 §6.3.5: tasks are ended before the LOGIN is answered), but a target
    /// may answer while a thread of it is still at a write. What overlaps it waits so long, and
    /// what promises to be durable. By default as long as claim rules say for the vendor.
    pub fence_settle_us: u64,
    /// How long I/O waits while all paths are down (Misc.APDTimeout, 140 s).
    pub apd_timeout_us: u64,
    /// How long one I/O is repeated or waits for an active path while paths live. 180 s, the disk
    /// timeout that VMware Tools set in guests.
    pub command_time_limit_us: u64,
    /// Whether a standby group may be activated (SET TARGET PORT GROUPS) where no path is active
    /// and the target allows it (explicit_allow).
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
    /// The queue depth that is used: at least one I/O, or nothing would ever move.
    pub(super) fn depth(&self) -> u32 {
        self.queue_depth.max(1)
    }
}

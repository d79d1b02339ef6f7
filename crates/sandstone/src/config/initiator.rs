//! What an administrator configured of this machine as a client: targets to log in to, devices, claim
//! rules.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::model::ChapSecret;
use crate::multipath::{ClaimRules, Psp, RoundRobin};

/// This machine as an initiator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InitiatorSpec {
    /// Its iSCSI name; empty: made of the host name.
    #[serde(default)]
    pub name: String,
    /// Targets that it is logged in to.
    #[serde(default)]
    pub targets: Vec<LoginSpec>,
    /// What was chosen for single devices.
    #[serde(default)]
    pub devices: Vec<DeviceSpec>,
    /// User rules and default path selections of array types.
    #[serde(default)]
    pub rules: ClaimRules,
}

impl InitiatorSpec {
    /// Whether nothing was ever said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The login of that target (its IQN in normal form).
    pub fn target(&self, iqn: &str) -> Option<&LoginSpec> {
        self.targets.iter().find(|target| target.iqn == iqn)
    }
}

/// A target of another machine that this one is logged in to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginSpec {
    /// Its iSCSI name.
    pub iqn: String,
    /// Its portals, `host:port`.
    pub portals: Vec<String>,
    /// Source addresses or network interfaces: every portal is reached from each. Empty: wherever the
    /// kernel routes.
    #[serde(default)]
    pub binds: Vec<String>,
    /// Sessions for each portal and bind.
    #[serde(default = "one")]
    pub sessions: u32,
    /// Our CHAP name and secret.
    #[serde(default)]
    pub chap: Option<ChapSecret>,
    /// What the target must prove (mutual CHAP).
    #[serde(default)]
    pub mutual_chap: Option<ChapSecret>,
    /// Each `None` is the default.
    #[serde(default)]
    pub parameters: LoginParameters,
}

fn one() -> u32 {
    1
}

/// How sessions are made and kept; each `None` is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginParameters {
    /// Header digest: required, forbidden, or as the target likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_digest: Option<bool>,
    /// Data digest: required, forbidden, or as the target likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_digest: Option<bool>,
    /// MaxOutstandingR2T, default 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_outstanding_r2t: Option<u16>,
    /// FirstBurstLength in bytes, default 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_burst_length: Option<u32>,
    /// MaxBurstLength in bytes, default 1048576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_burst_length: Option<u32>,
    /// MaxRecvDataSegmentLength in bytes, default 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_recv_data_segment_length: Option<u32>,
    /// ImmediateData, default yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immediate_data: Option<bool>,
    /// InitialR2T, default no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_r2t: Option<bool>,
    /// Send and receive buffers of the sockets in bytes; the kernel tunes them where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_window: Option<u32>,
    /// Acknowledge at once instead of delayed (TCP_QUICKACK), default no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_ack: Option<bool>,
    /// Milliseconds of silence with commands outstanding before a NOP-Out, default 250.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_after_ms: Option<u32>,
    /// Milliseconds of silence after that before the session is given up, default 450.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_after_ms: Option<u32>,
    /// The most seconds that a login may take, default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_timeout_s: Option<u16>,
}

/// What was chosen for one device; each `None` is left to claim rules and defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Its name: `naa.…`, `eui.…`, `t10.…` or `mpx.…`.
    pub name: String,
    /// Its path selection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psp: Option<Psp>,
    /// The path that VMW_PSP_FIXED prefers, by runtime name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_path: Option<String>,
    /// DQLEN: commands at the device at once, default 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// The most bytes of one command (DiskMaxIOSize); what the device names, or 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_io: Option<u32>,
    /// Limits of VMW_PSP_RR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_robin: Option<RoundRobin>,
}

impl DeviceSpec {
    /// Whether nothing was chosen.
    pub fn is_empty(&self) -> bool {
        let nothing = Self {
            name: self.name.clone(),
            ..Self::default()
        };
        *self == nothing
    }
}

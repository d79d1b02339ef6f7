//! What an administrator configured of this machine as a client: times, targets to log in to,
//! devices, claim rules.

pub mod configured;
pub mod options;
pub mod settings;
pub mod url;
pub mod view;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::ChapSecret;
use multipath::{ClaimRules, Psp, RoundRobin};

/// This machine as an initiator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InitiatorSpec {
    /// Its iSCSI name; empty: made of the host name.
    #[serde(default)]
    pub name: String,
    /// How long it waits, for whatever.
    #[serde(default, skip_serializing_if = "AdapterTimes::is_default")]
    pub times: AdapterTimes,
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

    /// The login of that target, whose name is told byte for byte.
    pub fn target(&self, iqn: &str) -> Option<&LoginSpec> {
        self.targets.iter().find(|target| target.iqn == iqn)
    }
}

/// Times of the whole adapter; each `None` is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterTimes {
    /// Seconds that I/O waits while all paths are down (Misc.APDTimeout), default 140.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apd_timeout_s: Option<u32>,
    /// How long a lost session's writes count as able to land although nobody confirmed its end,
    /// default 140000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_timeout_ms: Option<FenceTimeout>,
    /// Milliseconds that they still count so after its end was confirmed; default: by the vendor of
    /// the device, 0 for Sandstone, 5000 for IET and tgt, 1000 for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_settle_ms: Option<u32>,
    /// Milliseconds of silence with commands outstanding before a NOP-Out, default 250.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_after_ms: Option<u32>,
    /// Milliseconds of silence after that before a session is given up, default 450.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_after_ms: Option<u32>,
    /// Milliseconds of silence of an idle session before a NOP-Out, default 5000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ping_after_ms: Option<u32>,
    /// As `dead_after_ms`, where no other path lives, default 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_after_alone_ms: Option<u32>,
    /// Milliseconds after a first failed login before the next one, twice as many after each
    /// further one, default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_first_ms: Option<u32>,
    /// The most milliseconds between two logins, default 5000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_most_ms: Option<u32>,
}

impl AdapterTimes {
    /// Whether nothing was ever said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// These, and those of `old` where nothing is said.
    pub fn or(&self, old: &Self) -> Self {
        Self {
            apd_timeout_s: self.apd_timeout_s.or(old.apd_timeout_s),
            fence_timeout_ms: self.fence_timeout_ms.or(old.fence_timeout_ms),
            fence_settle_ms: self.fence_settle_ms.or(old.fence_settle_ms),
            ping_after_ms: self.ping_after_ms.or(old.ping_after_ms),
            dead_after_ms: self.dead_after_ms.or(old.dead_after_ms),
            idle_ping_after_ms: self.idle_ping_after_ms.or(old.idle_ping_after_ms),
            dead_after_alone_ms: self.dead_after_alone_ms.or(old.dead_after_alone_ms),
            retry_first_ms: self.retry_first_ms.or(old.retry_first_ms),
            retry_most_ms: self.retry_most_ms.or(old.retry_most_ms),
        }
    }
}

/// How long a write of a lost session that nobody confirmed to be over holds back what overlaps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "write the fence timeout in milliseconds, or \"never\""
)]
pub enum FenceTimeout {
    /// So many milliseconds.
    After(u32),
    /// Until somebody confirms it.
    Never(Never),
}

/// The word `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Never {
    /// `never`
    Never,
}

impl FenceTimeout {
    /// Until somebody confirms it.
    pub const NEVER: Self = Self::Never(Never::Never);

    /// Milliseconds; `None` for never.
    pub fn milliseconds(self) -> Option<u32> {
        match self {
            Self::After(ms) => Some(ms),
            Self::Never(_) => None,
        }
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
    /// Source addresses or network interfaces: every portal is reached from each. Empty: wherever
    /// the kernel routes.
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
    /// CHAP_A to offer: of `sha3-256`, `sha256`, `sha1` and `md5`, the preferred one first; all of
    /// them where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_algorithms: Option<Vec<String>>,
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
    /// Milliseconds of silence with commands outstanding before a NOP-Out; default: the adapter's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_after_ms: Option<u32>,
    /// Milliseconds of silence after that before the session is given up; default: the adapter's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_after_ms: Option<u32>,
    /// The most seconds that a login may take, default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_timeout_s: Option<u16>,
    /// The most seconds that a command may take before it is aborted and repeated, default 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_timeout_s: Option<u16>,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As daemons wrote it that knew no times.
    const OLD: &str = r#"
        name = "iqn.2026-01.x:gateway"
        [[targets]]
        iqn = "iqn.2026-01.x:array"
        portals = ["192.0.2.1:3260"]
        binds = []
        sessions = 2
        [targets.parameters]
        ping_after_ms = 100
        login_timeout_s = 9
        [rules]
        user = []
    "#;

    #[test]
    fn what_was_written_without_times_has_the_defaults() {
        let old: InitiatorSpec = toml::from_str(OLD).expect("an old file");
        assert!(old.times.is_default());
        let parameters = &old.targets[0].parameters;
        assert_eq!(parameters.ping_after_ms, Some(100));
        assert_eq!(parameters.command_timeout_s, None);
        let again = toml::to_string(&old).expect("text");
        assert!(!again.contains("times"), "{again}");
        assert_eq!(toml::from_str(&again), Ok(old));
    }

    #[test]
    fn times_are_read_as_they_were_written() {
        let mut spec: InitiatorSpec = toml::from_str(OLD).expect("a file");
        spec.targets[0].parameters.command_timeout_s = Some(60);
        for fence in [FenceTimeout::NEVER, FenceTimeout::After(90_000)] {
            spec.times = AdapterTimes {
                apd_timeout_s: Some(300),
                fence_timeout_ms: Some(fence),
                fence_settle_ms: Some(3_000),
                ping_after_ms: Some(300),
                dead_after_ms: Some(600),
                idle_ping_after_ms: Some(7_000),
                dead_after_alone_ms: Some(30_000),
                retry_first_ms: Some(50),
                retry_most_ms: Some(10_000),
            };
            let text = toml::to_string(&spec).expect("text");
            assert_eq!(toml::from_str(&text), Ok(spec.clone()), "{text}");
            assert_eq!(AdapterTimes::default().or(&spec.times), spec.times);
            let other = AdapterTimes {
                apd_timeout_s: Some(5),
                ..AdapterTimes::default()
            };
            assert_eq!(
                other.or(&spec.times),
                AdapterTimes {
                    apd_timeout_s: Some(5),
                    ..spec.times.clone()
                }
            );
        }
    }

    #[test]
    fn a_fence_timeout_is_a_number_or_never() {
        let error = toml::from_str::<AdapterTimes>("fence_timeout_ms = \"later\"")
            .expect_err("another word");
        assert!(error.to_string().contains("or \"never\""), "{error}");
    }
}

//! The configuration of this machine as an initiator: times, targets to log in to, devices, and
//! claim rules.

pub mod configured;
pub mod options;
pub mod settings;
pub mod url;
pub mod view;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::ChapSecret;
use multipath::{ClaimRules, Psp, RoundRobin};

/// Configuration of this machine as an initiator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InitiatorSpec {
    /// iSCSI name of this machine. An empty name is made from the host name.
    #[serde(default)]
    pub name: String,
    /// Times for which the adapter waits.
    #[serde(default, skip_serializing_if = "AdapterTimes::is_default")]
    pub times: AdapterTimes,
    /// Targets that the initiator logs in to.
    #[serde(default)]
    pub targets: Vec<LoginSpec>,
    /// Choices of the user for single devices.
    #[serde(default)]
    pub devices: Vec<DeviceSpec>,
    /// User rules, and default path selections of array types.
    #[serde(default)]
    pub rules: ClaimRules,
}

impl InitiatorSpec {
    /// Reports whether no time was ever configured.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the login of the target `iqn`. The name must match byte for byte.
    pub fn target(&self, iqn: &str) -> Option<&LoginSpec> {
        self.targets.iter().find(|target| target.iqn == iqn)
    }
}

/// Times of the whole adapter. Each `None` means the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterTimes {
    /// Seconds that I/O waits while all paths are down (Misc.APDTimeout). The default is 140.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apd_timeout_s: Option<u32>,
    /// Time for which a lost session's writes may still land, although nothing has confirmed the
    /// session's end. The default is 140000 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_timeout_ms: Option<FenceTimeout>,
    /// Milliseconds for which a lost session's writes may still land after its end was confirmed.
    /// The default depends on the device's vendor: 0 for Sandstone, 5000 for IET and tgt, and 1000
    /// for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_settle_ms: Option<u32>,
    /// Milliseconds of silence with commands outstanding before a NOP-Out. The default is 250.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_after_ms: Option<u32>,
    /// Milliseconds of silence after a NOP-Out before a session is given up. The default is 450.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_after_ms: Option<u32>,
    /// Milliseconds of silence of an idle session before a NOP-Out. The default is 5000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ping_after_ms: Option<u32>,
    /// Value of `dead_after_ms` while no other path lives. The default is 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_after_alone_ms: Option<u32>,
    /// Milliseconds from a first failed login to the next try. Each further failure doubles the
    /// time. The default is 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_first_ms: Option<u32>,
    /// Most milliseconds between two logins. The default is 5000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_most_ms: Option<u32>,
}

impl AdapterTimes {
    /// Reports whether no time was ever configured.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these times, with the values of `old` where a time is not set.
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

/// Time for which a lost session's writes hold back overlapping I/O, unless its end is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "write the fence timeout in milliseconds, or \"never\""
)]
pub enum FenceTimeout {
    /// Number of milliseconds.
    After(u32),
    /// No limit: the write holds back overlapping I/O until the session's end is confirmed.
    Never(Never),
}

/// The word `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Never {
    /// The word `never` in a configuration.
    Never,
}

impl FenceTimeout {
    /// No limit: the write holds back overlapping I/O until the session's end is confirmed.
    pub const NEVER: Self = Self::Never(Never::Never);

    /// Returns the time in milliseconds, or `None` for never.
    pub fn milliseconds(self) -> Option<u32> {
        match self {
            Self::After(ms) => Some(ms),
            Self::Never(_) => None,
        }
    }
}

/// A target of another machine that this machine logs in to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginSpec {
    /// iSCSI name of the target.
    pub iqn: String,
    /// Portals of the target, as `host:port`.
    pub portals: Vec<String>,
    /// Source addresses or network interfaces. Every portal is reached from each of them. If the
    /// list is empty, the kernel chooses the route.
    #[serde(default)]
    pub binds: Vec<String>,
    /// Number of sessions for each portal and bind.
    #[serde(default = "one")]
    pub sessions: u32,
    /// CHAP name and secret of this machine.
    #[serde(default)]
    pub chap: Option<ChapSecret>,
    /// CHAP name and secret that the target must prove (mutual CHAP).
    #[serde(default)]
    pub mutual_chap: Option<ChapSecret>,
    /// Parameters of the sessions. Each `None` means the default.
    #[serde(default)]
    pub parameters: LoginParameters,
}

fn one() -> u32 {
    1
}

/// Parameters for making and keeping sessions. Each `None` means the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginParameters {
    /// CHAP_A values to offer, the preferred one first: `sha3-256`, `sha256`, `sha1` and `md5`. If
    /// absent, all are offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_algorithms: Option<Vec<String>>,
    /// Header digest: required, forbidden, or left to the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_digest: Option<bool>,
    /// Data digest: required, forbidden, or left to the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_digest: Option<bool>,
    /// MaxOutstandingR2T. The default is 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_outstanding_r2t: Option<u16>,
    /// FirstBurstLength in bytes. The default is 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_burst_length: Option<u32>,
    /// MaxBurstLength in bytes. The default is 1048576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_burst_length: Option<u32>,
    /// MaxRecvDataSegmentLength in bytes. The default is 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_recv_data_segment_length: Option<u32>,
    /// ImmediateData. The default is yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immediate_data: Option<bool>,
    /// InitialR2T. The default is no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_r2t: Option<bool>,
    /// Size of the sockets' send and receive buffers, in bytes. If absent, the kernel tunes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_window: Option<u32>,
    /// Whether TCP acknowledges at once instead of delayed (TCP_QUICKACK). The default is no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_ack: Option<bool>,
    /// Milliseconds of silence with commands outstanding before a NOP-Out. The default is the
    /// adapter's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_after_ms: Option<u32>,
    /// Milliseconds of silence after a NOP-Out before the session is given up. The default is the
    /// adapter's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_after_ms: Option<u32>,
    /// Most seconds that a login may take. The default is 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_timeout_s: Option<u16>,
    /// Most seconds that a command may take before it is aborted and repeated. The default is 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_timeout_s: Option<u16>,
}

/// Choices of the user for one device. Each `None` is left to claim rules and defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Name of the device: `naa.…`, `eui.…`, `t10.…` or `mpx.…`.
    pub name: String,
    /// Path selection of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psp: Option<Psp>,
    /// Runtime name of the path that VMW_PSP_FIXED prefers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_path: Option<String>,
    /// Most commands at the device at once (DQLEN). The default is 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Most bytes of one command (DiskMaxIOSize). The default is the size that the device reports,
    /// or 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_io: Option<u32>,
    /// Limits of VMW_PSP_RR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_robin: Option<RoundRobin>,
}

impl DeviceSpec {
    /// Reports whether no choice was made.
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

    /// Configuration as daemons wrote it before they knew these times.
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

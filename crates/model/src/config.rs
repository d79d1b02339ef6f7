//! The configuration as data, in COMSTAR's model: logical units, targets with portals, hosts, and
//! maps.
//!
//! These types are the file on disk, the body of the control API, and the input of the data plane.
//! There is no second representation.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::initiator::InitiatorSpec;
use super::volume_id::PlacedUnit;
use super::way::WaySpec;
pub use crate::backend::BackendSpec;
use crate::{name, pattern};

/// The whole configuration: everything that survives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Number of the configuration. Each committed change raises it by one.
    #[serde(default)]
    pub generation: u64,
    /// Counters and numbers that make identities unique. They belong to the daemon, so a file to
    /// apply may omit them.
    #[serde(default)]
    pub identity: IdentitySpec,
    /// Whether discovery sessions must prove a host's CHAP secret. Initiators that can see nothing
    /// are then refused. Without this, anyone who claims an initiator's name may learn the names of
    /// its targets, but never their contents.
    #[serde(default)]
    pub discovery_auth: bool,
    /// User and secret that every discovery session must prove, instead of the hosts' secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_chap: Option<ChapSecret>,
    /// User and secret with which this machine proves its identity in discovery sessions (mutual
    /// CHAP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_mutual_chap: Option<ChapSecret>,
    /// Logical units, by name.
    #[serde(default)]
    pub units: Vec<UnitSpec>,
    /// Targets, by IQN.
    #[serde(default)]
    pub targets: Vec<TargetSpec>,
    /// Groups of targets, for maps that lead to several targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_groups: Vec<TargetGroupSpec>,
    /// Groups of initiators.
    #[serde(default)]
    pub hosts: Vec<HostSpec>,
    /// Maps: the logical units that each host sees.
    #[serde(default)]
    pub maps: Vec<MapSpec>,
    /// Addresses of the iSNS servers to register with.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub isns_servers: Vec<SocketAddr>,
    /// Ways out for alerts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alert_ways: Vec<WaySpec>,
    /// Configuration of this machine as an initiator of other machines' storage.
    #[serde(default, skip_serializing_if = "InitiatorSpec::is_default")]
    pub initiator: InitiatorSpec,
}

impl Config {
    /// Returns the logical unit of the given name.
    pub fn unit(&self, name: &str) -> Option<&UnitSpec> {
        self.units.iter().find(|unit| unit.name == name)
    }

    /// Returns the logical units by name, for callers that look up many.
    pub fn units_by_name(&self) -> HashMap<&str, &UnitSpec> {
        let units = self.units.iter();
        units.map(|unit| (unit.name.as_str(), unit)).collect()
    }

    /// Returns the logical units by designator, which tells a unit from its successor of the same
    /// name.
    pub fn units_by_naa(&self) -> HashMap<&str, &UnitSpec> {
        let units = self.units.iter();
        units.map(|unit| (unit.naa.as_str(), unit)).collect()
    }

    /// Returns the target of the given name. Upper and lower case count as equal.
    pub fn target(&self, iqn: &str) -> Option<&TargetSpec> {
        let mut targets = self.targets.iter();
        targets.find(|target| name::is_same(&target.iqn, iqn))
    }

    /// Returns the target group of the given name.
    pub fn target_group(&self, name: &str) -> Option<&TargetGroupSpec> {
        self.target_groups.iter().find(|group| group.name == name)
    }

    /// Returns the way out for alerts of the given name.
    pub fn alert_way(&self, name: &str) -> Option<&WaySpec> {
        self.alert_ways.iter().find(|way| way.name == name)
    }

    /// Returns the host of the given name.
    pub fn host(&self, name: &str) -> Option<&HostSpec> {
        self.hosts.iter().find(|host| host.name == name)
    }
}

/// Counters behind names that must never be used twice. See `config::identity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IdentitySpec {
    /// Number of this installation: 9 hexadecimal digits, drawn when the state folder was made.
    #[serde(default)]
    pub installation: String,
    /// Number of logical units that were ever made.
    #[serde(default)]
    pub units_made: u32,
    /// Highest relative target port identifier that was ever given out.
    #[serde(default)]
    pub last_relative_port_id: u16,
    /// Volumes of logical units, by numbers that outlive a rename. See [`super::volume_id`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<PlacedUnit>,
}

/// A logical unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitSpec {
    /// The administrator's name for it.
    pub name: String,
    /// NAA type 6 designator as 32 hexadecimal digits. It is made once, and never changed or
    /// reused. If it is empty in a file to apply, the unit keeps its designator, or gets a new one.
    #[serde(default)]
    pub naa: String,
    /// Unit serial number. If it is empty in a file to apply, the rule of `naa` holds.
    #[serde(default)]
    pub serial: String,
    /// Backend that holds the unit's data.
    pub backend: BackendSpec,
    /// Logical block length in bytes: 512 or 4096.
    #[serde(default = "default_block_size")]
    pub block_size: u32,
    /// Physical block size in bytes: a power of two times `block_size`.
    #[serde(default = "default_physical_block_size")]
    pub physical_block_size: u32,
    /// Whether writes are acknowledged from volatile cache (WCE).
    #[serde(default)]
    pub write_cache: bool,
    /// Whether writes are refused.
    #[serde(default)]
    pub read_only: bool,
    /// Whether the unit offers UNMAP and reports LBPME.
    #[serde(default)]
    pub thin: bool,
    /// Share of the space in use, in percent, that raises the soft threshold of thin provisioning.
    #[serde(default)]
    pub threshold_percent: Option<u8>,
    /// Whether the administrator took the unit offline (02/04/12).
    #[serde(default)]
    pub offline: bool,
}

/// Returns 512 bytes: the only logical block length that every initiator accepts, ESXi included.
pub fn default_block_size() -> u32 {
    512
}

/// Returns 4 KiB: the unit in which the disks beneath and the page cache really write.
pub fn default_physical_block_size() -> u32 {
    4096
}

/// A target node, with its portal groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// iSCSI name of the target.
    pub iqn: String,
    /// TargetAlias that initiators see.
    #[serde(default)]
    pub alias: String,
    /// Portal groups, at least one. Each pair of a target and a portal group is a SCSI target port.
    pub portal_groups: Vec<PortalGroupSpec>,
    /// Kinds of ALUA changes that the target offers.
    #[serde(default)]
    pub alua: AluaMode,
    /// Address to which initiators are sent at login, if any.
    #[serde(default)]
    pub redirect: Option<RedirectSpec>,
    /// User and secret with which the target proves its identity to initiators (mutual CHAP).
    #[serde(default)]
    pub mutual_chap: Option<ChapSecret>,
    /// Limits of sessions and negotiation. Each `None` means the default.
    #[serde(default)]
    pub parameters: TargetParameters,
    /// Whether the administrator took the target offline. Logins are then refused with 0x0301.
    #[serde(default)]
    pub offline: bool,
}

/// A portal group: portals that share sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PortalGroupSpec {
    /// Target portal group tag, 1 to 65535.
    #[serde(default = "one")]
    pub tag: u16,
    /// Relative target port identifier. It is unique in the whole daemon and never reused. 0 in a
    /// file to apply keeps the portal group's identifier, or makes one.
    #[serde(default)]
    pub relative_port_id: u16,
    /// Target port group (ALUA), 1 to 65535. Ports of different portal groups may share one.
    #[serde(default = "one")]
    pub target_port_group: u16,
    /// Addresses on which the portal group listens.
    #[schema(value_type = Vec<String>)]
    pub portals: Vec<SocketAddr>,
    /// ALUA state of the group's ports as the administrator wants it.
    #[serde(default)]
    pub alua_state: AluaState,
}

fn one() -> u16 {
    1
}

/// Kinds of ALUA changes that a target offers (TPGS, SPC-4 6.6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AluaMode {
    /// No ALUA: TPGS = 0.
    None,
    /// Implicit ALUA: the target decides.
    Implicit,
    /// Explicit ALUA: initiators decide.
    Explicit,
    /// Implicit and explicit ALUA.
    #[default]
    Both,
}

/// An asymmetric access state (SPC-4 5.15.2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AluaState {
    /// The ports serve I/O at full speed.
    #[default]
    ActiveOptimized,
    /// The ports serve I/O, but another path is better.
    ActiveNonOptimized,
    /// The ports wait for an activation.
    Standby,
    /// The ports serve no I/O.
    Unavailable,
    /// The ports are between two states: initiators wait, and ask again. This lasts until another
    /// state is set.
    Transitioning,
}

impl AluaState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::ActiveOptimized,
        Self::ActiveNonOptimized,
        Self::Standby,
        Self::Unavailable,
        Self::Transitioning,
    ];

    /// Returns the state's name in files and listings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ActiveOptimized => "active-optimized",
            Self::ActiveNonOptimized => "active-non-optimized",
            Self::Standby => "standby",
            Self::Unavailable => "unavailable",
            Self::Transitioning => "transitioning",
        }
    }
}

/// A redirection of initiators to another address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedirectSpec {
    /// TargetAddress as `host:port`. A `,tag` after the port is accepted, but not reported (RFC
    /// 7143 §13.8).
    pub address: String,
    /// Whether the redirection is permanent: status 0x0102 instead of 0x0101.
    #[serde(default)]
    pub permanent: bool,
}

/// A CHAP user name and secret. `Debug` never prints the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapSecret {
    /// User name: CHAP_N.
    pub user: String,
    /// Shared secret, 12 to 255 bytes.
    #[schema(format = Password)]
    pub secret: String,
}

impl std::fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChapSecret")
            .field("user", &self.user)
            .field("secret", &"…")
            .finish()
    }
}

/// Most target ports, each a portal group, in one target port group. SPC-4 6.37 counts them in a
/// byte.
pub const MAX_TARGET_PORTS: usize = 255;

/// Limits of one target. Each `None` means the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetParameters {
    /// Most commands in flight per session (the command window). The default is 128.
    #[serde(default)]
    pub queue_depth: Option<u16>,
    /// Most connections per session. The default is 4.
    #[serde(default)]
    pub max_connections: Option<u16>,
    /// Most sessions of the target. The default is 4096.
    #[serde(default)]
    pub max_sessions: Option<u32>,
    /// MaxOutstandingR2T to offer. The default is 8.
    #[serde(default)]
    pub max_outstanding_r2t: Option<u16>,
    /// FirstBurstLength to offer, in bytes. The default is 262144.
    #[serde(default)]
    pub first_burst_length: Option<u32>,
    /// MaxBurstLength to offer, in bytes. The default is 1048576.
    #[serde(default)]
    pub max_burst_length: Option<u32>,
    /// MaxRecvDataSegmentLength to declare, in bytes. The default is 262144.
    #[serde(default)]
    pub max_recv_data_segment_length: Option<u32>,
    /// Whether ImmediateData is offered. The default is yes.
    #[serde(default)]
    pub immediate_data: Option<bool>,
    /// Whether InitialR2T=Yes is required. The default is no.
    #[serde(default)]
    pub initial_r2t: Option<bool>,
    /// Seconds of silence before a NOP-In ping. The default is 15, and 0 turns pings off.
    #[serde(default)]
    pub nop_in_interval_s: Option<u32>,
    /// Whether a header digest is required. `None` lets the initiator choose.
    #[serde(default)]
    pub require_header_digest: Option<bool>,
    /// Whether a data digest is required. `None` lets the initiator choose.
    #[serde(default)]
    pub require_data_digest: Option<bool>,
}

/// A group of targets that a map names together, as a host is a group of initiators. Its name
/// cannot be a target's: it begins with none of `iqn.`, `eui.` and `naa.`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetGroupSpec {
    /// The administrator's name for it.
    pub name: String,
    /// IQNs of the members. A target may be in several groups. A group without members leads
    /// nowhere.
    #[serde(default)]
    pub targets: Vec<String>,
}

/// A host: a group of initiators that are treated alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// The administrator's name for it.
    pub name: String,
    /// Names of the host's initiators. `*` and `?` are wildcards.
    pub initiators: Vec<String>,
    /// Names of initiators that are excepted, although `initiators` matches them. `*` and `?` are
    /// wildcards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// User and secret that the initiators must prove at login. `None` asks for no proof.
    #[serde(default)]
    pub chap: Option<ChapSecret>,
}

impl HostSpec {
    /// Returns the narrowest of the host's patterns that makes `initiator` a member.
    pub fn membership(&self, initiator: &str) -> Option<&str> {
        let matching = |p: &&String| pattern::matches(p, initiator);
        if self.except.iter().any(|p| pattern::matches(p, initiator)) {
            return None;
        }
        let narrowest = self.initiators.iter().filter(matching);
        narrowest
            .max_by_key(|p| pattern::narrowness(p))
            .map(String::as_str)
    }

    /// Returns the host's pattern that equals `pattern`, in the host's spelling.
    pub fn has_pattern(&self, pattern: &str) -> Option<&str> {
        let mut all = self.initiators.iter();
        all.find(|it| name::is_same(it, pattern))
            .map(String::as_str)
    }

    /// Reports whether some initiator may be a member of both hosts. An initiator that either host
    /// surely excepts is no common member.
    pub fn may_share_a_member(&self, other: &HostSpec) -> bool {
        let excepted = |p: &str| {
            let mut all = self.except.iter().chain(&other.except);
            all.any(|except| pattern::covers(except, p))
        };
        let mut pairs = self
            .initiators
            .iter()
            .flat_map(|p| other.initiators.iter().map(move |q| (p, q)));
        pairs.any(|(p, q)| pattern::overlap(p, q) && !excepted(p) && !excepted(q))
    }
}

/// One line of the map: logical unit × host × target group → LUN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MapSpec {
    /// Name of the logical unit.
    pub unit: String,
    /// Name of the host. `None` means every initiator.
    #[serde(default)]
    pub host: Option<String>,
    /// IQN of one target, or name of a target group. `None` means every target.
    #[serde(default)]
    pub target: Option<String>,
    /// LUN, 0 to 16383.
    pub lun: u16,
    /// Whether writes through this map are refused.
    #[serde(default)]
    pub read_only: bool,
}

impl MapSpec {
    /// Returns the IQNs of the targets to which the map leads, or `None` for all targets.
    pub fn targets<'a>(&'a self, config: &'a Config) -> Option<&'a [String]> {
        let named = self.target.as_ref()?;
        let members = config.target_group(named).map(|group| &*group.targets);
        Some(members.unwrap_or(std::slice::from_ref(named)))
    }

    /// Reports whether the map leads to the target `iqn`.
    pub fn leads_to(&self, config: &Config, iqn: &str) -> bool {
        self.targets(config)
            .is_none_or(|targets| targets.iter().any(|target| name::is_same(target, iqn)))
    }
}

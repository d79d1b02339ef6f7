//! The configuration as data: COMSTAR's model (logical units, targets with portals, hosts, maps).
//!
//! These types are the file on disk, the body of the control API and what the data plane applies;
//! there is no second representation.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::initiator::InitiatorSpec;
use super::volume_id::PlacedUnit;
pub use crate::backend::BackendSpec;
use crate::{name, pattern};

/// Everything that survives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Raised by one with every committed change.
    #[serde(default)]
    pub generation: u64,
    /// What makes identities unique; the daemon's own, a file to apply may leave it out.
    #[serde(default)]
    pub identity: IdentitySpec,
    /// Ask for a host's CHAP secret in discovery sessions too, and refuse them to who can see
    /// nothing. Without it, anyone who claims an initiator's name may learn the names of its
    /// targets, never their contents.
    #[serde(default)]
    pub discovery_auth: bool,
    /// The user and secret that every discovery session must prove. They take the place of the
    /// hosts' secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_chap: Option<ChapSecret>,
    /// What this machine answers in discovery sessions when it is asked to prove who it is (mutual
    /// CHAP): user and secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_mutual_chap: Option<ChapSecret>,
    /// Logical units, by name.
    #[serde(default)]
    pub units: Vec<UnitSpec>,
    /// Targets, by IQN.
    #[serde(default)]
    pub targets: Vec<TargetSpec>,
    /// Targets that maps name together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_groups: Vec<TargetGroupSpec>,
    /// Groups of initiators.
    #[serde(default)]
    pub hosts: Vec<HostSpec>,
    /// Who sees what.
    #[serde(default)]
    pub maps: Vec<MapSpec>,
    /// iSNS servers to register with.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub isns_servers: Vec<SocketAddr>,
    /// This machine as a client of other storage.
    #[serde(default, skip_serializing_if = "InitiatorSpec::is_default")]
    pub initiator: InitiatorSpec,
}

impl Config {
    /// The logical unit of that name.
    pub fn unit(&self, name: &str) -> Option<&UnitSpec> {
        self.units.iter().find(|unit| unit.name == name)
    }

    /// The logical units by name: for who asks for many.
    pub fn units_by_name(&self) -> HashMap<&str, &UnitSpec> {
        let units = self.units.iter();
        units.map(|unit| (unit.name.as_str(), unit)).collect()
    }

    /// The logical units by what tells one from its successor of the same name.
    pub fn units_by_naa(&self) -> HashMap<&str, &UnitSpec> {
        let units = self.units.iter();
        units.map(|unit| (unit.naa.as_str(), unit)).collect()
    }

    /// The target of that name, in any case of its letters.
    pub fn target(&self, iqn: &str) -> Option<&TargetSpec> {
        let mut targets = self.targets.iter();
        targets.find(|target| name::is_same(&target.iqn, iqn))
    }

    /// The target group of that name.
    pub fn target_group(&self, name: &str) -> Option<&TargetGroupSpec> {
        self.target_groups.iter().find(|group| group.name == name)
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Option<&HostSpec> {
        self.hosts.iter().find(|host| host.name == name)
    }
}

/// The counters behind names that must never be used twice; see `config::identity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IdentitySpec {
    /// 9 hexadecimal digits, drawn when the state folder was made.
    #[serde(default)]
    pub installation: String,
    /// How many logical units were ever made.
    #[serde(default)]
    pub units_made: u32,
    /// The highest relative target port identifier ever given out.
    #[serde(default)]
    pub last_relative_port_id: u16,
    /// Which volumes logical units lie on, whatever these are called; see [`super::volume_id`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<PlacedUnit>,
}

/// A logical unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitSpec {
    /// The administrator's name for it.
    pub name: String,
    /// NAA type 6 designator as 32 hexadecimal digits, made once and never changed or reused;
    /// empty in a file to apply: keep the unit's, or make one.
    #[serde(default)]
    pub naa: String,
    /// Unit serial number; empty in a file to apply as for `naa`.
    #[serde(default)]
    pub serial: String,
    /// What it is made of.
    pub backend: BackendSpec,
    /// Logical block length: 512 or 4096.
    #[serde(default = "default_block_size")]
    pub block_size: u32,
    /// Physical block size in bytes: a power of two times `block_size`.
    #[serde(default = "default_physical_block_size")]
    pub physical_block_size: u32,
    /// Acknowledge writes from volatile cache (WCE).
    #[serde(default)]
    pub write_cache: bool,
    /// Refuse writes.
    #[serde(default)]
    pub read_only: bool,
    /// Offer UNMAP and tell LBPME.
    #[serde(default)]
    pub thin: bool,
    /// Raise the thin-provisioning soft threshold at this share of the space in use, in percent.
    #[serde(default)]
    pub threshold_percent: Option<u8>,
    /// Taken offline by the administrator (02/04/12).
    #[serde(default)]
    pub offline: bool,
}

/// 512 bytes: the only logical block length that every initiator, ESXi included, accepts.
pub fn default_block_size() -> u32 {
    512
}

/// 4 KiB: what the disks beneath and the page cache really write.
pub fn default_physical_block_size() -> u32 {
    4096
}

/// A target node with its portal groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// iSCSI name.
    pub iqn: String,
    /// TargetAlias.
    #[serde(default)]
    pub alias: String,
    /// At least one; each (target, portal group) is a SCSI target port.
    pub portal_groups: Vec<PortalGroupSpec>,
    /// Which ALUA changes are offered.
    #[serde(default)]
    pub alua: AluaMode,
    /// Send initiators elsewhere at login.
    #[serde(default)]
    pub redirect: Option<RedirectSpec>,
    /// Secret the initiator must know to believe this target (mutual CHAP): user and secret.
    #[serde(default)]
    pub mutual_chap: Option<ChapSecret>,
    /// Session and negotiation limits; each `None` is the default.
    #[serde(default)]
    pub parameters: TargetParameters,
    /// Taken offline by the administrator: logins are refused with 0x0301.
    #[serde(default)]
    pub offline: bool,
}

/// Portals that share sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PortalGroupSpec {
    /// Target portal group tag, 1 to 65535.
    #[serde(default = "one")]
    pub tag: u16,
    /// Relative target port identifier, unique over the whole daemon, never reused; 0 in a file to
    /// apply: keep the portal group's, or make one.
    #[serde(default)]
    pub relative_port_id: u16,
    /// Target port group (ALUA), 1 to 65535; ports of different portal groups may share one.
    #[serde(default = "one")]
    pub target_port_group: u16,
    /// Listening addresses.
    #[schema(value_type = Vec<String>)]
    pub portals: Vec<SocketAddr>,
    /// The ALUA state of the ports in this group as the administrator wants it.
    #[serde(default)]
    pub alua_state: AluaState,
}

fn one() -> u16 {
    1
}

/// Which ALUA changes are offered (TPGS, SPC-4 6.6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AluaMode {
    /// TPGS = 0.
    None,
    /// The target decides.
    Implicit,
    /// Initiators decide.
    Explicit,
    /// Both.
    #[default]
    Both,
}

/// An asymmetric access state (SPC-4 5.15.2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AluaState {
    /// Full speed.
    #[default]
    ActiveOptimized,
    /// Works, but another path is better.
    ActiveNonOptimized,
    /// Waits for an activation.
    Standby,
    /// Does not work.
    Unavailable,
    /// Between two states: initiators wait, and ask again. It stays until another state is set.
    Transitioning,
}

impl AluaState {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ActiveOptimized,
        Self::ActiveNonOptimized,
        Self::Standby,
        Self::Unavailable,
        Self::Transitioning,
    ];

    /// As it stands in files and listings.
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

/// Where to send initiators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedirectSpec {
    /// TargetAddress: `host:port`. A `,tag` behind it is accepted and not told (RFC 7143 §13.8).
    pub address: String,
    /// 0x0102 instead of 0x0101.
    #[serde(default)]
    pub permanent: bool,
}

/// A CHAP name and secret. `Debug` never prints the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapSecret {
    /// CHAP_N.
    pub user: String,
    /// The shared secret, 12 to 255 bytes.
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

/// Portal groups, which are target ports, that one target port group has at most (SPC-4 6.37: it
/// counts them in a byte).
pub const MAX_TARGET_PORTS: usize = 255;

/// Limits of one target; each `None` is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetParameters {
    /// Commands in flight per session (the command window), default 128.
    #[serde(default)]
    pub queue_depth: Option<u16>,
    /// Connections per session, default 4.
    #[serde(default)]
    pub max_connections: Option<u16>,
    /// Sessions of this target, default 4096.
    #[serde(default)]
    pub max_sessions: Option<u32>,
    /// MaxOutstandingR2T offered, default 8.
    #[serde(default)]
    pub max_outstanding_r2t: Option<u16>,
    /// FirstBurstLength offered in bytes, default 262144.
    #[serde(default)]
    pub first_burst_length: Option<u32>,
    /// MaxBurstLength offered in bytes, default 1048576.
    #[serde(default)]
    pub max_burst_length: Option<u32>,
    /// MaxRecvDataSegmentLength declared in bytes, default 262144.
    #[serde(default)]
    pub max_recv_data_segment_length: Option<u32>,
    /// Offer ImmediateData, default yes.
    #[serde(default)]
    pub immediate_data: Option<bool>,
    /// Insist on InitialR2T=Yes, default no.
    #[serde(default)]
    pub initial_r2t: Option<bool>,
    /// Seconds of silence before a NOP-In ping, default 15; 0 turns pings off.
    #[serde(default)]
    pub nop_in_interval_s: Option<u32>,
    /// Header digest: `None` lets the initiator choose.
    #[serde(default)]
    pub require_header_digest: Option<bool>,
    /// Data digest: `None` lets the initiator choose.
    #[serde(default)]
    pub require_data_digest: Option<bool>,
}

/// Targets that a map names together, as a host is a group of initiators. Its name cannot be that
/// of a target: it begins with none of `iqn.`, `eui.` and `naa.`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetGroupSpec {
    /// The administrator's name for it.
    pub name: String,
    /// IQNs of its members. A target may be in several groups; a group without members leads
    /// nowhere.
    #[serde(default)]
    pub targets: Vec<String>,
}

/// A group of initiators that are treated alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// The administrator's name for it.
    pub name: String,
    /// Initiator names; `*` and `?` are wildcards.
    pub initiators: Vec<String>,
    /// Initiator names that do not belong to it although one of `initiators` matches them; `*` and
    /// `?` are wildcards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// What they must know to log in; `None` lets them in without.
    #[serde(default)]
    pub chap: Option<ChapSecret>,
}

impl HostSpec {
    /// The narrowest of its patterns that makes the initiator of that name a member.
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

    /// A pattern among those of its members, as it is spelled there.
    pub fn has_pattern(&self, pattern: &str) -> Option<&str> {
        let mut all = self.initiators.iter();
        all.find(|it| name::is_same(it, pattern))
            .map(String::as_str)
    }

    /// Whether some initiator may be a member of both. What one of them certainly excepts is no
    /// common member.
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
    /// Name of the host group; `None` is every initiator.
    #[serde(default)]
    pub host: Option<String>,
    /// IQN of one target, or the name of a target group; `None` is every target.
    #[serde(default)]
    pub target: Option<String>,
    /// LUN, 0 to 16383.
    pub lun: u16,
    /// Refuse writes through this map.
    #[serde(default)]
    pub read_only: bool,
}

impl MapSpec {
    /// The targets that it leads to: IQNs, or `None` for all there are.
    pub fn targets<'a>(&'a self, config: &'a Config) -> Option<&'a [String]> {
        let named = self.target.as_ref()?;
        let members = config.target_group(named).map(|group| &*group.targets);
        Some(members.unwrap_or(std::slice::from_ref(named)))
    }

    /// Whether it leads to the target of that name.
    pub fn leads_to(&self, config: &Config, iqn: &str) -> bool {
        self.targets(config)
            .is_none_or(|targets| targets.iter().any(|target| name::is_same(target, iqn)))
    }
}

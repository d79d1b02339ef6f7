//! What an initiator can be told: whom to log in to, from where, how often, and how to keep at it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use iscsi::chap::{ChapAlgorithm, ChapCredential};
use iscsi::initiator::{LoginSettings, OFFERED};
use iscsi::negotiation::Limits;
use iscsi::pdu::Isid;

use multipath::{self, ClaimRules, PathIdentity, Psp, RoundRobin};

/// Where connections of a session start: "port binding".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bind {
    /// At this source address.
    Address(IpAddr),
    /// At this network interface (needs CAP_NET_RAW).
    Interface(String),
}

impl std::fmt::Display for Bind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Interface(name) => f.write_str(name),
        }
    }
}

/// One way to a target: a portal, and where the connection starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// `host:port`; IPv6 addresses in brackets.
    pub portal: String,
    /// `None`: wherever the kernel routes.
    pub bind: Option<Bind>,
}

/// A target to be logged in to.
#[derive(Clone, Debug)]
pub struct TargetSettings {
    /// Its iSCSI name.
    pub name: String,
    /// Ways to it; each gets [`TargetSettings::sessions`] sessions.
    pub routes: Vec<Route>,
    /// Sessions per route.
    pub sessions: u32,
    /// Only this LUN; `None` for all.
    pub lun: Option<u16>,
    /// How sessions are made and kept.
    pub session: SessionSettings,
}

/// How sessions are made and kept.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Our iSCSI name.
    pub initiator_name: String,
    /// Our CHAP name and secret.
    pub credential: Option<ChapCredential>,
    /// What the target must prove (mutual CHAP).
    pub target_credential: Option<ChapCredential>,
    /// CHAP_A to offer, the preferred one first. Nothing else is ever offered.
    pub chap_algorithms: Vec<ChapAlgorithm>,
    /// Parameters to offer at login.
    pub limits: Limits,
    /// Options of the sockets.
    pub tcp: TcpOptions,
    /// When a silent connection is given up.
    pub keep_alive: KeepAlive,
    /// When a lost session is tried again.
    pub back_off: BackOff,
    /// The most that a connection and its login may take.
    pub login_timeout: Duration,
    /// The most that a command may take before it is aborted and repeated.
    pub command_timeout: Duration,
}

/// Options of a session's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Acknowledge at once instead of delayed (TCP_QUICKACK).
    pub quick_ack: bool,
    /// Send and receive buffers in bytes; `None` leaves them to the kernel's tuning.
    pub window: Option<u32>,
}

/// When silence means loss. A connection is pinged (NOP-Out) when commands are outstanding and
/// nothing came for `quiet`, and given up when nothing comes for `timeout` after that. While no
/// other path could take over, giving up would gain nothing, and `patience` counts instead of
/// `timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence with commands outstanding before a ping.
    pub quiet: Duration,
    /// Silence of an idle session before a ping.
    pub idle: Duration,
    /// Silence after a ping before the session is given up.
    pub timeout: Duration,
    /// The same where no other path lives.
    pub patience: Duration,
}

/// Times between tries to log in again: `first`, then twice as long each time, up to `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// After the first failure.
    pub first: Duration,
    /// Never more than this.
    pub most: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(250),
            idle: Duration::from_secs(5),
            timeout: Duration::from_millis(450),
            patience: Duration::from_secs(10),
        }
    }
}

impl Default for BackOff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            most: Duration::from_secs(5),
        }
    }
}

impl BackOff {
    /// How long to wait after so many failures in a row, from 1 on.
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 1u32 << failures.saturating_sub(1).min(16);
        self.first.saturating_mul(factor).min(self.most)
    }
}

impl SessionSettings {
    /// The defaults, under this name.
    pub fn new(initiator_name: impl Into<String>) -> Self {
        Self {
            initiator_name: initiator_name.into(),
            credential: None,
            target_credential: None,
            chap_algorithms: OFFERED.to_vec(),
            limits: Limits {
                max_connections: 1,
                ..Limits::default()
            },
            tcp: TcpOptions::default(),
            keep_alive: KeepAlive::default(),
            back_off: BackOff::default(),
            login_timeout: Duration::from_secs(5),
            // What Linux gives a disk.
            command_timeout: Duration::from_secs(30),
        }
    }

    /// What a login to this target starts from.
    pub fn login(&self, target: &str, isid: Isid) -> LoginSettings {
        let mut login = LoginSettings::new(&self.initiator_name, Some(target.to_owned()), isid);
        login.credential = self.credential.clone();
        login.target_credential = self.target_credential.clone();
        login.algorithms.clone_from(&self.chap_algorithms);
        login.limits = self.limits.clone();
        login
    }
}

/// What governs the devices behind the sessions.
#[derive(Clone, Debug, Default)]
pub struct DeviceSettings {
    /// Who claims a new device, and with which path selection.
    pub rules: ClaimRules,
    /// What the claim does not say: queue depth, timeouts.
    pub base: multipath::Settings,
    /// Path selection whatever the rules say.
    pub psp: Option<(Psp, RoundRobin)>,
    /// How long writes of a lost session may still land after its end was confirmed, whatever the
    /// vendor.
    pub fence_settle_us: Option<u64>,
    /// The most bytes that one command moves (DiskMaxIOSize, max_sectors_kb); longer requests are
    /// split. `None`: what the device names, else 1 MiB.
    pub max_io: Option<u32>,
    /// What was chosen for single devices, by name; goes before everything else.
    pub chosen: BTreeMap<String, DeviceChoice>,
}

/// What a user chose for one device. `None` leaves it to the claim rules and defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    /// The path selection.
    pub psp: Option<Psp>,
    /// Limits of round robin.
    pub round_robin: Option<RoundRobin>,
    /// The path that FIXED prefers, by runtime name.
    pub preferred_path: Option<String>,
    /// DQLEN.
    pub queue_depth: Option<u32>,
    /// The most bytes of one command.
    pub max_io: Option<u32>,
}

impl DeviceSettings {
    /// What governs a new device.
    pub fn claim(&self, name: &str, identity: &PathIdentity) -> multipath::Settings {
        let mut settings = self.rules.claim(name, identity).apply(self.base.clone());
        if let Some((psp, round_robin)) = &self.psp {
            settings.psp = *psp;
            settings.round_robin = *round_robin;
        }
        settings.fence_settle_us = self.fence_settle_us.unwrap_or(settings.fence_settle_us);
        if let Some(chosen) = self.chosen.get(name) {
            settings.psp = chosen.psp.unwrap_or(settings.psp);
            settings.round_robin = chosen.round_robin.unwrap_or(settings.round_robin);
            settings.preferred_path = chosen.preferred_path.clone().or(settings.preferred_path);
            settings.queue_depth = chosen.queue_depth.unwrap_or(settings.queue_depth);
        }
        settings
    }

    /// The most bytes of one command to a device of this name, where anyone said.
    pub fn max_io(&self, name: &str) -> Option<u32> {
        let chosen = self.chosen.get(name).and_then(|chosen| chosen.max_io);
        chosen.or(self.max_io)
    }
}

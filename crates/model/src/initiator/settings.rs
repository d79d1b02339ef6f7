//! Settings of an initiator: the targets to log in to, the routes and sessions to each, and the
//! rules for keeping sessions.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use iscsi::chap::{ChapAlgorithm, ChapCredential};
use iscsi::initiator::{LoginSettings, OFFERED};
use iscsi::negotiation::Limits;
use iscsi::pdu::Isid;

use multipath::{self, ClaimRules, PathIdentity, Psp, RoundRobin};

/// Local end of a session's connections ("port binding").
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bind {
    /// The source address of the connections.
    Address(IpAddr),
    /// The network interface of the connections. This needs CAP_NET_RAW.
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

/// A route to a target: a portal, and the local end of the connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Portal as `host:port`. IPv6 addresses are in brackets.
    pub portal: String,
    /// Local end of the connection. `None` lets the kernel choose the route.
    pub bind: Option<Bind>,
}

/// A target to log in to.
#[derive(Clone, Debug)]
pub struct TargetSettings {
    /// iSCSI name of the target.
    pub name: String,
    /// Routes to the target. Each gets [`TargetSettings::sessions`] sessions.
    pub routes: Vec<Route>,
    /// Number of sessions per route.
    pub sessions: u32,
    /// The only LUN to use. `None` means all LUNs.
    pub lun: Option<u16>,
    /// Settings for making and keeping the sessions.
    pub session: SessionSettings,
}

/// Settings for making and keeping sessions.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// iSCSI name of this machine.
    pub initiator_name: String,
    /// CHAP name and secret of this machine.
    pub credential: Option<ChapCredential>,
    /// CHAP name and secret that the target must prove (mutual CHAP).
    pub target_credential: Option<ChapCredential>,
    /// CHAP_A values to offer, the preferred one first. No other value is ever offered.
    pub chap_algorithms: Vec<ChapAlgorithm>,
    /// Parameters to offer at login.
    pub limits: Limits,
    /// Options of the sockets.
    pub tcp: TcpOptions,
    /// Times after which a silent connection is given up.
    pub keep_alive: KeepAlive,
    /// Times after which a lost session is tried again.
    pub back_off: BackOff,
    /// Most time that a connection and its login may take.
    pub login_timeout: Duration,
    /// Most time that a command may take before it is aborted and repeated.
    pub command_timeout: Duration,
}

/// Options of a session's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Whether TCP acknowledges at once instead of delayed (TCP_QUICKACK).
    pub quick_ack: bool,
    /// Size of the send and receive buffers, in bytes. `None` leaves them to the kernel's tuning.
    pub window: Option<u32>,
}

/// Times of silence after which a connection counts as lost. If commands are outstanding and
/// nothing arrives for `quiet`, the initiator pings (NOP-Out). If nothing arrives for `timeout`
/// after the ping, it gives the connection up. While no other path could take over, giving up would
/// gain nothing. `patience` then counts instead of `timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence with commands outstanding before a ping.
    pub quiet: Duration,
    /// Silence of an idle session before a ping.
    pub idle: Duration,
    /// Silence after a ping before the session is given up, if another path lives.
    pub timeout: Duration,
    /// Silence after a ping before the session is given up, while no other path lives.
    pub patience: Duration,
}

/// Times between tries to log in again: `first`, then twice the time after each failure, up to
/// `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// Time after the first failure.
    pub first: Duration,
    /// Longest time.
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
    /// Returns the time to wait after `failures` failures in a row, counted from 1.
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 1u32 << failures.saturating_sub(1).min(16);
        self.first.saturating_mul(factor).min(self.most)
    }
}

impl SessionSettings {
    /// Returns the defaults for an initiator of the given name.
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
            // Linux gives disks the same time.
            command_timeout: Duration::from_secs(30),
        }
    }

    /// Returns the settings with which a login to `target` starts.
    pub fn login(&self, target: &str, isid: Isid) -> LoginSettings {
        let mut login = LoginSettings::new(&self.initiator_name, Some(target.to_owned()), isid);
        login.credential = self.credential.clone();
        login.target_credential = self.target_credential.clone();
        login.algorithms.clone_from(&self.chap_algorithms);
        login.limits = self.limits.clone();
        login
    }
}

/// Settings of the devices behind the sessions.
#[derive(Clone, Debug, Default)]
pub struct DeviceSettings {
    /// Rules that decide which plugin claims a new device, and with which path selection.
    pub rules: ClaimRules,
    /// Settings that claim rules do not decide: queue depth and timeouts.
    pub base: multipath::Settings,
    /// Path selection that overrides the rules.
    pub psp: Option<(Psp, RoundRobin)>,
    /// Time for which writes of a lost session may still land after its end was confirmed. It
    /// overrides the vendor's value.
    pub fence_settle_us: Option<u64>,
    /// Most bytes that one command moves (DiskMaxIOSize, max_sectors_kb). Longer requests are
    /// split. `None` means the size that the device reports, or else 1 MiB.
    pub max_io: Option<u32>,
    /// Choices of the user for single devices, by name. They override everything else.
    pub chosen: BTreeMap<String, DeviceChoice>,
}

/// Choices of the user for one device. `None` leaves a setting to the claim rules and defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    /// Path selection of the device.
    pub psp: Option<Psp>,
    /// Limits of round robin.
    pub round_robin: Option<RoundRobin>,
    /// Runtime name of the path that FIXED prefers.
    pub preferred_path: Option<String>,
    /// Most commands at the device at once (DQLEN).
    pub queue_depth: Option<u32>,
    /// Most bytes of one command.
    pub max_io: Option<u32>,
}

impl DeviceSettings {
    /// Returns the settings of a new device.
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

    /// Returns the most bytes of one command to the device `name`, if that is set.
    pub fn max_io(&self, name: &str) -> Option<u32> {
        let chosen = self.chosen.get(name).and_then(|chosen| chosen.max_io);
        chosen.or(self.max_io)
    }
}

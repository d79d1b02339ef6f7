//! Facts about the daemon at one moment, from which conditions are judged.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::data_plane::{PortalStatus, PortalTcp, SessionInfo, UnitStatus};
use model::disk::DiskHealth;
use model::figures::Snapshot;
use model::initiator::view::InitiatorDevice;
use model::pool::status::PoolView;

use crate::journal::RefusedLogins;

/// Facts at one moment. What did not answer keeps its last value, with its age.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Pools, also those that are not open.
    pub pools: Arc<Vec<PoolView>>,
    /// Time at which a pool was last scrubbed, or else created, by pool: in seconds since 1970.
    pub scrubbed_s: Arc<Vec<(String, u64)>>,
    /// Forecasts of full pools.
    pub forecasts: Vec<Forecast>,
    /// Logical units.
    pub units: Arc<Vec<UnitStatus>>,
    /// Portals of targets.
    pub portals: Arc<Vec<PortalStatus>>,
    /// Segments that TCP sent from portals.
    pub portal_tcp: Arc<Vec<PortalTcp>>,
    /// Sessions of initiators at this machine's targets.
    pub sessions: Arc<Vec<SessionInfo>>,
    /// Disks of other machines.
    pub devices: Arc<Vec<InitiatorDevice>>,
    /// Health of this machine's disks, by path.
    pub disks: BTreeMap<String, DiskHealth>,
    /// Figures of commands.
    pub snapshot: Arc<Snapshot>,
    /// Initiators whose logins were refused lately.
    pub refused: Vec<RefusedLogins>,
    /// Space of the state folder's file system, and trouble with it.
    pub state_folder: StateFolder,
    /// Damage to files of the state folder, each with its remedy.
    pub notices: Vec<String>,
    /// Description of the last run's end, if it did not end in order.
    pub killed: Option<&'static str>,
    /// Milliseconds since the daemon started.
    pub uptime_ms: u64,
    /// Parts of the daemon that do not answer, each with the milliseconds for which it has not.
    pub silent: Vec<(&'static str, u64)>,
    /// Most by which the clock may be off, in milliseconds; `None` if the kernel does not tell.
    pub clock_error_ms: Option<u64>,
    /// Certificate of the console; `None` if no console is served.
    pub certificate: Option<Certificate>,
    /// Ways out that cannot be reached.
    pub unreached: Vec<Unreached>,
}

/// Forecast of a pool's end of space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Name of the pool.
    pub pool: String,
    /// Days until the pool is full, at the fastest pace that its history supports.
    pub soonest_days: u64,
    /// Days until the pool is full, at the slowest such pace. `None` means never.
    pub latest_days: Option<u64>,
}

/// Certificate of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Time at which it ends, in seconds since 1970.
    pub ends_s: u64,
    /// Whether the daemon made it. Otherwise, an administrator gave it.
    pub is_own: bool,
}

/// File system of the state folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateFolder {
    /// Path of the folder.
    pub path: String,
    /// Bytes of the file system; 0 if they are not known.
    pub size: u64,
    /// Bytes that are free.
    pub available: u64,
    /// Reason why something could not be written there.
    pub trouble: Option<String>,
}

/// A way out that cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// Name of the way.
    pub way: String,
    /// Whether the way is mail. Otherwise, it is a webhook or heartbeat.
    pub is_mail: bool,
    /// Last error.
    pub error: String,
    /// Number of messages that wait.
    pub queued: usize,
}

/// A condition that holds for an object.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Condition that holds.
    pub condition: &'static crate::Condition,
    /// Object for which the condition holds.
    pub object: String,
    /// Description of what was found.
    pub text: String,
    /// Step to take.
    pub next: String,
}

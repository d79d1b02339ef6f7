//! Views of an initiator's adapter. Sessions use the words of `esxcli iscsi session list`, and
//! devices and paths those of `esxcli storage nmp`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use multipath::DeviceSnapshot;

/// State of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// The session is logged in.
    LoggedIn,
    /// The session is logged in, but has been silent for too long.
    Silent,
    /// The session is connecting or logging in.
    Connecting,
    /// The session was lost, or never made. It is tried again.
    #[default]
    Down,
    /// The session is no longer wanted. It ends the work under way.
    LoggingOut,
}

impl SessionState {
    /// Returns the state's name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::LoggedIn => "logged-in",
            Self::Silent => "silent",
            Self::Connecting => "connecting",
            Self::Down => "down",
            Self::LoggingOut => "logging-out",
        }
    }
}

/// The times that govern a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionTimes {
    /// Milliseconds of silence with commands outstanding before a NOP-Out.
    pub ping_after_ms: u64,
    /// Milliseconds of silence of an idle session before a NOP-Out.
    pub idle_ping_after_ms: u64,
    /// Milliseconds of silence after a NOP-Out before the session is given up, if another path
    /// lives.
    pub dead_after_ms: u64,
    /// Milliseconds of silence after a NOP-Out before the session is given up, while no other path
    /// lives.
    pub dead_after_alone_ms: u64,
    /// Milliseconds from a first failed login to the next try.
    pub retry_first_ms: u64,
    /// Most milliseconds between two logins.
    pub retry_most_ms: u64,
    /// Most seconds that a login may take.
    pub login_timeout_s: u64,
    /// Most seconds that a command may take.
    pub command_timeout_s: u64,
}

/// A session of this machine at another machine's target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InitiatorSession {
    /// iSCSI name of the target.
    pub target: String,
    /// Number of the session among those of its target: the `C` of `vmhba64:C0:T0:L0`.
    pub channel: u32,
    /// Portal as configured, with its address looked up.
    pub portal: String,
    /// Address to which a permanent redirection led.
    pub redirected_to: Option<String>,
    /// Local address of the connection.
    pub source: Option<String>,
    /// Address or interface to which the session is bound.
    pub bind: Option<String>,
    /// Initiator session id, 12 hexadecimal digits.
    pub isid: String,
    /// Target session identifying handle.
    pub tsih: Option<u16>,
    /// Target portal group tag.
    pub portal_group: Option<u16>,
    /// State of the session.
    pub state: SessionState,
    /// Number of logins that succeeded.
    pub logins: u64,
    /// Number of tries that failed since the last login.
    pub failures: u32,
    /// Reason why the session was lost or could not be made.
    pub last_error: Option<String>,
    /// Milliseconds until the next try.
    pub retry_ms: Option<u64>,
    /// Whether CRC32C protects headers.
    pub header_digest: bool,
    /// Whether CRC32C protects data.
    pub data_digest: bool,
    /// Negotiated keys, each with name and value.
    #[schema(value_type = Vec<Vec<String>>)]
    pub parameters: Vec<(String, String)>,
    /// Times that govern the session. `None` means that no times apply yet.
    pub times: Option<SessionTimes>,
    /// Whether the session's LUNs have been scanned.
    pub is_scanned: bool,
    /// LUNs that the session shows.
    pub luns: Vec<u16>,
    /// Number of commands under way.
    pub in_flight: u32,
}

/// A device behind the sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InitiatorDevice {
    /// Name, claim, path selection, paths and queue.
    pub nmp: DeviceSnapshot,
    /// Targets and portals of `nmp.paths`, in the order of the paths.
    pub ways: Vec<InitiatorPath>,
    /// T10 vendor identification.
    pub vendor: String,
    /// Product identification.
    pub model: String,
    /// Product revision.
    pub revision: String,
    /// Unit serial number.
    pub serial: Option<String>,
    /// Size in bytes. 0 means that the device has not reported it yet.
    pub size: u64,
    /// Size of a logical block in bytes.
    pub block_size: u32,
    /// Most bytes of one command.
    pub max_io: u32,
    /// Seconds that I/O waits while all paths are down.
    pub apd_timeout_s: u64,
    /// Milliseconds to wait for writes of a lost session. `None` means until the session's end is
    /// confirmed.
    pub fence_timeout_ms: Option<u64>,
    /// Milliseconds to wait for writes of a lost session after its end was confirmed.
    pub fence_settle_ms: u64,
    /// Reason why the device cannot be used now. `None` means that it can.
    pub fault: Option<String>,
}

/// Target, portal and LUN to which a path leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InitiatorPath {
    /// iSCSI name of the target.
    pub target: String,
    /// Portal of the path.
    pub portal: String,
    /// Local address of the connection.
    pub source: Option<String>,
    /// LUN of the logical unit at the target.
    pub lun: Option<u16>,
    /// Reason why the path is dead. `None` means that it is alive.
    pub reason: Option<String>,
}

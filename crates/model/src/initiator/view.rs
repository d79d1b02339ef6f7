//! What an administrator sees of an adapter: sessions in the words of `esxcli iscsi session list`,
//! devices and paths in those of `esxcli storage nmp`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use multipath::DeviceSnapshot;

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// Logged in.
    LoggedIn,
    /// Logged in, but silent for longer than it should be.
    Silent,
    /// Connecting, or logging in.
    Connecting,
    /// Lost, or never there; tried again.
    #[default]
    Down,
    /// Not wanted any more; ends what is under way.
    LoggingOut,
}

impl SessionState {
    /// As in listings.
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
    /// Milliseconds of silence of an idle session before one.
    pub idle_ping_after_ms: u64,
    /// Milliseconds of silence after it before the session is given up.
    pub dead_after_ms: u64,
    /// The same where no other path lives.
    pub dead_after_alone_ms: u64,
    /// Milliseconds after a first failed login before the next one.
    pub retry_first_ms: u64,
    /// The most milliseconds between two logins.
    pub retry_most_ms: u64,
    /// The most seconds that a login may take.
    pub login_timeout_s: u64,
    /// The most seconds that a command may take.
    pub command_timeout_s: u64,
}

/// A session of ours at another machine's target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InitiatorSession {
    /// The target's iSCSI name.
    pub target: String,
    /// Number among the sessions of that target: the `C` of `vmhba64:C0:T0:L0`.
    pub channel: u32,
    /// The portal as configured, its address looked up.
    pub portal: String,
    /// Where a redirection for good led.
    pub redirected_to: Option<String>,
    /// Where the connection starts.
    pub source: Option<String>,
    /// The address or interface that it is bound to.
    pub bind: Option<String>,
    /// Initiator session id, 12 hexadecimal digits.
    pub isid: String,
    /// Target session identifying handle.
    pub tsih: Option<u16>,
    /// Target portal group tag.
    pub portal_group: Option<u16>,
    /// Where it stands.
    pub state: SessionState,
    /// Logins that succeeded.
    pub logins: u64,
    /// Tries that failed since.
    pub failures: u32,
    /// Why it was lost or did not come to be.
    pub last_error: Option<String>,
    /// Milliseconds until it is tried again.
    pub retry_ms: Option<u64>,
    /// Whether CRC32C protects headers.
    pub header_digest: bool,
    /// Whether CRC32C protects data.
    pub data_digest: bool,
    /// Negotiated keys: name and value.
    #[schema(value_type = Vec<Vec<String>>)]
    pub parameters: Vec<(String, String)>,
    /// How long is waited for what; `None` where nothing is waited for yet.
    pub times: Option<SessionTimes>,
    /// Whether its units have been looked at.
    pub is_scanned: bool,
    /// LUNs that it shows.
    pub luns: Vec<u16>,
    /// Commands under way.
    pub in_flight: u32,
}

/// A device behind the sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InitiatorDevice {
    /// Name, claim, path selection, paths and queue.
    pub nmp: DeviceSnapshot,
    /// Where each of `nmp.paths` leads, in the same order.
    pub ways: Vec<InitiatorPath>,
    /// T10 vendor.
    pub vendor: String,
    /// Product.
    pub model: String,
    /// Revision.
    pub revision: String,
    /// Unit serial number.
    pub serial: Option<String>,
    /// Bytes; 0 while it has not told.
    pub size: u64,
    /// Bytes of a logical block.
    pub block_size: u32,
    /// The most bytes of one command.
    pub max_io: u32,
    /// Seconds that I/O waits while all paths are down.
    pub apd_timeout_s: u64,
    /// Milliseconds that writes of a lost session are waited for; `None`: until somebody confirms
    /// its end.
    pub fence_timeout_ms: Option<u64>,
    /// Milliseconds that they are waited for after its end was confirmed.
    pub fence_settle_ms: u64,
    /// Why it cannot be used now; `None` where it can.
    pub fault: Option<String>,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InitiatorPath {
    /// The target's iSCSI name.
    pub target: String,
    /// The portal.
    pub portal: String,
    /// Where the connection starts.
    pub source: Option<String>,
    /// The logical unit's number there.
    pub lun: Option<u16>,
    /// Why it is dead; `None` where it is not.
    pub reason: Option<String>,
}

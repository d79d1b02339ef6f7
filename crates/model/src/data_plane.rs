//! The single interface between the control plane and the data plane, and the types that pass
//! through it.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::hindrance::{AluaChoice, Clearing, Hindrance};
use crate::config::BackendSpec;
use crate::figures::{CommandsRead, Figures};
use crate::initiator::view::{InitiatorDevice, InitiatorSession};
use crate::volume_id::{VolumeId, Volumes};
use crate::{Config, Error};

/// Interface of the data plane: everything that the control plane asks of the part that moves
/// blocks.
///
/// Calls come from the control thread, with one [`DataPlane::apply`] at a time. They may block that
/// thread, but never an event loop.
pub trait DataPlane: Send + Sync {
    /// Puts `config` into force: opens backends, binds portals, and swaps views. It drops no
    /// session that may stay. `config` keeps every rule of `config::validate`. After an error, the
    /// previous configuration is still in force as a whole.
    fn apply(&self, config: Arc<Config>) -> Result<(), ApplyError>;

    /// Puts `config` into force when nothing is served yet, as at a start. Its disks and addresses
    /// may come later: the data plane waits for all that it cannot serve now. It makes nothing in
    /// its place.
    fn restore(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        self.apply(config)
    }

    /// Opens and binds everything that failed before and is possible now. The data plane also tries
    /// again on its own. This call is for callers that know of a change.
    fn try_again(&self);

    /// Returns the sessions that are logged in.
    fn sessions(&self) -> Vec<SessionInfo>;

    /// Returns the number of sessions. It costs less than the list.
    fn count_sessions(&self) -> usize {
        self.sessions().len()
    }

    /// Returns who is logged in at targets, by TSIH. It costs less than the list of sessions.
    fn logins(&self) -> Vec<Login> {
        let login = |session: SessionInfo| {
            Some(Login {
                tsih: session.tsih,
                initiator: session.initiator,
                target: session.target?,
            })
        };
        self.sessions().into_iter().filter_map(login).collect()
    }

    /// Returns what TCP has sent from each portal to initiators, as of the last call of
    /// [`DataPlane::sessions`].
    fn portal_tcp(&self) -> Vec<PortalTcp> {
        Vec::new()
    }

    /// Ends the session of number `tsih`, and reports whether it existed.
    fn kill_session(&self, tsih: u16) -> bool;

    /// Asks the initiator of session `tsih` to log out, and ends the session after `within_s`
    /// seconds. Reports whether the session existed.
    fn ask_to_log_out(&self, tsih: u16, within_s: u16) -> bool;

    /// Returns the current state of all logical units.
    fn units(&self) -> Vec<UnitStatus>;

    /// Returns the current state of one logical unit. Asking all units for their space costs time
    /// for each.
    fn unit(&self, name: &str) -> Option<UnitStatus> {
        self.units().into_iter().find(|unit| unit.name == name)
    }

    /// Returns the figures of all units, sessions and port groups. Units without new commands since
    /// the last reading may omit their latencies. The call waits for no device.
    fn figures(&self, read: &CommandsRead) -> Figures {
        let _ = read;
        Figures::default()
    }

    /// Returns the ALUA states that initiators chose for themselves, on all units.
    fn alua_choices(&self) -> Vec<AluaChoice> {
        Vec::new()
    }

    /// Ends the ALUA states that initiators chose for a target port group. The administrator's
    /// state then holds for all initiators.
    ///
    /// # Errors
    /// The states have ended, but their end could not be stored.
    fn end_alua_choices(&self, group: u16) -> Result<(), Error> {
        let _ = group;
        Ok(())
    }

    /// Ends hindrances that stop I/O of a served unit, and returns those that have ended.
    ///
    /// # Errors
    /// The unit is not served, the hindrance cannot end now, or it has ended but its end could not
    /// be stored.
    fn clear(&self, unit: &str, what: Clearing) -> Result<Vec<Hindrance>, Error>;

    /// Returns the current state of the portals, including portals that could not be bound.
    fn portals(&self) -> Vec<PortalStatus>;

    /// Returns the damage to the saved state of units that are served all the same, as sentences
    /// without a full stop.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns this machine's sessions at the targets of other machines.
    fn initiator_sessions(&self) -> Vec<InitiatorSession>;

    /// Returns the devices that the initiator reaches through its sessions.
    fn initiator_devices(&self) -> Vec<InitiatorDevice>;

    /// Rescans the logical units of the target `iqn`, or of all targets. Reports whether the target
    /// exists.
    fn initiator_rescan(&self, iqn: Option<&str>) -> bool;

    /// Returns the physical block size of the disk `backend`, in bytes. The result is `None` if the
    /// backend is no disk, or the disk does not report a size.
    fn physical_block_size(&self, backend: &BackendSpec) -> Option<u32>;

    /// Returns the volumes of open pools, to which logical units refer.
    fn volumes(&self) -> &dyn Volumes {
        &NoVolumes
    }

    /// Waits until nothing is under way on the given units, which are offline. Reports whether they
    /// came to rest in time.
    fn is_at_rest(&self, _units: &[String]) -> bool {
        true
    }

    /// Notes that the data of the given units was replaced by other data. The units are at rest.
    fn data_was_replaced(&self, _units: &[String]) {}

    /// Begins an orderly shutdown: refuses new logins, tells all initiators that their sessions
    /// end, and flushes all data.
    fn shutdown(&self);
}

/// A data plane without pools.
struct NoVolumes;

impl Volumes for NoVolumes {
    fn ids(&self, names: &[String]) -> Vec<Option<VolumeId>> {
        vec![None; names.len()]
    }

    fn names(&self, ids: &[VolumeId]) -> Vec<Option<String>> {
        vec![None; ids.len()]
    }
}

/// A configuration that could not be put into force, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyError {
    /// Object that failed: `lu vol1`, `portal 10.0.0.1:3260`.
    pub object: String,
    /// Reason of the failure, as a clause without a full stop.
    pub message: String,
    /// Step to try next.
    pub next: String,
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.object, self.message)
    }
}

impl std::error::Error for ApplyError {}

/// Session at a target, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Number of the session.
    pub tsih: u16,
    /// Name of the initiator.
    pub initiator: String,
    /// Name of the target.
    pub target: String,
}

/// A session of an initiator at a target of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// Target session identifying handle: the session's number in `session kill`.
    pub tsih: u16,
    /// Number of the event loop that serves the session, from 0 on.
    pub event_loop: u16,
    /// iSCSI name of the initiator.
    pub initiator: String,
    /// InitiatorAlias of the initiator, if it sent one.
    pub alias: Option<String>,
    /// Initiator session id, 12 hexadecimal digits.
    pub isid: String,
    /// iSCSI name of the target. `None` means a discovery session.
    pub target: Option<String>,
    /// Portal group tag.
    pub portal_group: u16,
    /// Connections of the session, by CID.
    pub connections: Vec<ConnectionInfo>,
    /// CHAP user that the initiator proved.
    pub chap_user: Option<String>,
    /// Negotiated keys in the order of RFC 7143 13, each with name and value.
    #[schema(value_type = Vec<Vec<String>>)]
    pub parameters: Vec<(String, String)>,
    /// LUNs that the session sees.
    pub luns: Vec<u16>,
    /// Number of commands completed.
    pub commands: u64,
    /// Bytes sent to the initiator as data-in.
    pub read_bytes: u64,
    /// Bytes received from the initiator as data-out.
    pub written_bytes: u64,
    /// Number of commands in flight now.
    pub in_flight: u32,
    /// Number of data segments that arrived with a wrong data digest.
    #[serde(default)]
    pub digest_errors: u64,
    /// Seconds since the session logged in.
    pub age_s: u64,
}

/// One connection of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionInfo {
    /// Connection id.
    pub cid: u16,
    /// Address of the portal that the connection uses.
    #[schema(value_type = String)]
    pub local: SocketAddr,
    /// Address from which the connection came.
    #[schema(value_type = String)]
    pub peer: SocketAddr,
    /// Whether CRC32C protects headers.
    pub header_digest: bool,
    /// Whether CRC32C protects data.
    pub data_digest: bool,
}

/// TCP segments of all sessions that used one address of this machine, since the daemon began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortalTcp {
    /// Address to which initiators connected.
    pub address: SocketAddr,
    /// Number of segments with payload that were sent, retransmits included.
    pub segments: u64,
    /// Number of segments that were retransmitted.
    pub retransmits: u64,
}

/// Current state of one logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnitStatus {
    /// Name of the pool.
    pub name: String,
    /// Whether the unit serves commands.
    pub online: bool,
    /// Reason why the unit serves no commands, unless the administrator decided so.
    pub fault: Option<String>,
    /// Remedy, if the administrator has to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Capacity in bytes.
    pub size: u64,
    /// Physical block size in bytes, as initiators see it. It is never smaller than that of a disk
    /// beneath. `None` means that the unit is not served.
    #[serde(default)]
    pub physical_block_size: Option<u32>,
    /// Bytes allocated for the unit, if the backend reports them.
    pub allocated: Option<u64>,
    /// Bytes that the unit can still take from the pool or file system beneath, if the backend
    /// reports them.
    pub available: Option<u64>,
    /// Whether writes are now acknowledged from volatile cache (WCE). Initiators may change this.
    pub write_cache: bool,
    /// Whether all initiators' writes are refused now: by the unit, its volume, or initiators
    /// (SWP).
    #[serde(default)]
    pub read_only: bool,
    /// Holder of a reservation, in words. `None` means that no initiator holds one.
    pub reservation: Option<String>,
    /// Hindrances that stop or refuse the unit's I/O, or soon will.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<Hindrance>,
    /// Number of READ commands completed.
    pub reads: u64,
    /// Number of WRITE commands completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of commands that ended with an error of the medium or the backend.
    pub errors: u64,
}

/// Current state of one portal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortalStatus {
    /// Address that is really bound.
    #[schema(value_type = String)]
    pub address: SocketAddr,
    /// iSCSI name of the target.
    pub target: String,
    /// Portal group tag.
    pub tag: u16,
    /// Reason why the portal is not bound. `None` means that it is bound.
    pub error: Option<String>,
}

//! The one door between the control plane and the data plane, and what comes through it.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::hindrance::{AluaChoice, Clearing, Hindrance};
use crate::config::BackendSpec;
use crate::initiator::view::{InitiatorDevice, InitiatorSession};
use crate::volume_id::{VolumeId, Volumes};
use crate::{Config, Error};

/// Everything the control plane asks of the part that moves blocks.
///
/// Calls come from the control thread, one [`DataPlane::apply`] at a time; they may block it, never
/// an event loop.
pub trait DataPlane: Send + Sync {
    /// Makes `config`, which keeps every rule of `config::validate`, the one in force:
    /// opens backends, binds portals, swaps views without dropping a session that may stay.
    /// All or nothing: after an error the configuration before is still in force.
    fn apply(&self, config: Arc<Config>) -> Result<(), ApplyError>;

    /// As [`DataPlane::apply`] where nothing is served yet, for a configuration whose disks and
    /// addresses may come later: what cannot be served now is awaited, as at a start, and nothing
    /// is made in its place.
    fn restore(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        self.apply(config)
    }

    /// Opens and binds what could not be before, where that is possible now. It is also done again
    /// and again by itself; this is for those who know that something has changed.
    fn try_again(&self);

    /// The sessions that are logged in.
    fn sessions(&self) -> Vec<SessionInfo>;

    /// Ends a session; whether there was one of that number.
    fn kill_session(&self, tsih: u16) -> bool;

    /// Asks the initiator of a session to log out within so many seconds, and ends it then; whether
    /// there was one of that number.
    fn ask_to_log_out(&self, tsih: u16, within_s: u16) -> bool;

    /// The logical units as they are now.
    fn units(&self) -> Vec<UnitStatus>;

    /// One of them: to ask all for their space costs something for each.
    fn unit(&self, name: &str) -> Option<UnitStatus> {
        self.units().into_iter().find(|unit| unit.name == name)
    }

    /// The ALUA states that initiators chose for themselves, on all units.
    fn alua_choices(&self) -> Vec<AluaChoice> {
        Vec::new()
    }

    /// Ends those of a target port group: the administrator's state holds for everybody.
    ///
    /// # Errors
    /// They have ended, and that could not be stored.
    fn end_alua_choices(&self, group: u16) -> Result<(), Error> {
        let _ = group;
        Ok(())
    }

    /// Ends what stops I/O of a unit that is served; returns what has ended.
    ///
    /// # Errors
    /// The unit is not served; it cannot end now; or it has ended, and that could not be stored.
    fn clear(&self, unit: &str, what: Clearing) -> Result<Vec<Hindrance>, Error>;

    /// The portals as they are now, also those that could not be bound.
    fn portals(&self) -> Vec<PortalStatus>;

    /// Damage to the saved state of units that are served all the same, in sentences without a full
    /// stop.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// This machine's sessions at other machines' targets.
    fn initiator_sessions(&self) -> Vec<InitiatorSession>;

    /// The devices behind them.
    fn initiator_devices(&self) -> Vec<InitiatorDevice>;

    /// Looks again at the units of that target, or of all; whether there is such a target.
    fn initiator_rescan(&self, iqn: Option<&str>) -> bool;

    /// Bytes of the physical blocks of the disk that a logical unit is to be made of; `None` where
    /// it is made of none, or the disk does not tell.
    fn physical_block_size(&self, backend: &BackendSpec) -> Option<u32>;

    /// The volumes that logical units lie on.
    fn volumes(&self) -> &dyn Volumes {
        &NoVolumes
    }

    /// Waits until nothing is under way on these units, which are offline. Whether that was so in
    /// time.
    fn is_at_rest(&self, _units: &[String]) -> bool {
        true
    }

    /// The data of these units, which are at rest, was replaced by other data.
    fn data_was_replaced(&self, _units: &[String]) {}

    /// Begins an orderly end: no new logins, all initiators told that their sessions end,
    /// everything flushed.
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

/// Why a configuration could not be put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyError {
    /// What it was about: `lu vol1`, `portal 10.0.0.1:3260`.
    pub object: String,
    /// What was wrong, as a clause without a full stop.
    pub message: String,
    /// What to try next.
    pub next: String,
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.object, self.message)
    }
}

impl std::error::Error for ApplyError {}

/// One session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// Target session identifying handle: the session's number in `session kill`.
    pub tsih: u16,
    /// Number of the event loop that serves it, from 0 on.
    pub event_loop: u16,
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// The initiator's InitiatorAlias, where it sent one.
    pub alias: Option<String>,
    /// Initiator session id, 12 hexadecimal digits.
    pub isid: String,
    /// The target; `None` in a discovery session.
    pub target: Option<String>,
    /// Portal group tag.
    pub portal_group: u16,
    /// Its connections, by CID.
    pub connections: Vec<ConnectionInfo>,
    /// The CHAP user it authenticated as.
    pub chap_user: Option<String>,
    /// Negotiated keys in the order of RFC 7143 13: name and value.
    #[schema(value_type = Vec<Vec<String>>)]
    pub parameters: Vec<(String, String)>,
    /// The LUNs it sees.
    pub luns: Vec<u16>,
    /// Commands completed.
    pub commands: u64,
    /// Bytes sent to the initiator as data-in.
    pub read_bytes: u64,
    /// Bytes received from the initiator as data-out.
    pub written_bytes: u64,
    /// Commands in flight now.
    pub in_flight: u32,
    /// Seconds since the session logged in.
    pub age_s: u64,
}

/// One connection of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionInfo {
    /// Connection id.
    pub cid: u16,
    /// The portal it came to.
    #[schema(value_type = String)]
    pub local: SocketAddr,
    /// Where it came from.
    #[schema(value_type = String)]
    pub peer: SocketAddr,
    /// Whether CRC32C protects headers.
    pub header_digest: bool,
    /// Whether CRC32C protects data.
    pub data_digest: bool,
}

/// One logical unit as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnitStatus {
    /// Name of the pool.
    pub name: String,
    /// Whether it serves commands.
    pub online: bool,
    /// Why it does not, where that is no decision of the administrator's.
    pub fault: Option<String>,
    /// The remedy, where somebody has to do something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Capacity in bytes.
    pub size: u64,
    /// Bytes of a physical block, as initiators are told: never fewer than a disk beneath has.
    /// `None` where the unit is not served.
    #[serde(default)]
    pub physical_block_size: Option<u32>,
    /// Bytes allocated for it, where the backend tells.
    pub allocated: Option<u64>,
    /// Bytes it can still take of the pool or file system beneath, where the backend tells.
    pub available: Option<u64>,
    /// Whether writes are acknowledged from volatile cache now (WCE; initiators may change it).
    pub write_cache: bool,
    /// Whether writes are refused to everybody now: by the unit, its volume, or initiators (SWP).
    #[serde(default)]
    pub read_only: bool,
    /// Who holds a reservation, in words; `None` where nobody does.
    pub reservation: Option<String>,
    /// Everything that stops or refuses its I/O, or soon will.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<Hindrance>,
    /// READ commands completed.
    pub reads: u64,
    /// WRITE commands completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Commands that ended with an error of the medium or the backend.
    pub errors: u64,
}

/// One portal as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortalStatus {
    /// The address that is really bound.
    #[schema(value_type = String)]
    pub address: SocketAddr,
    /// The target.
    pub target: String,
    /// Portal group tag.
    pub tag: u16,
    /// Why it is not bound; `None` where it is.
    pub error: Option<String>,
}

//! What the API answers: objects of the configuration beside their state, and problems as JSON.

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use model::config::{HostSpec, MapSpec, TargetGroupSpec, TargetSpec, UnitSpec};
use model::data_plane::{PortalStatus, UnitStatus};
use model::health::Health;
use model::hindrance::{AluaChoice, UnitHindrances};
use model::initiator::view::InitiatorDevice;
use model::initiator::{AdapterTimes, DeviceSpec};
use model::pool::health::PoolHealth;
use model::{Error, ErrorKind};

/// The daemon in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Sandstone's version.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// The state folder.
    pub state: String,
    /// The generation of the configuration in force.
    pub generation: u64,
    /// Logical units.
    pub units: usize,
    /// Logical units that do not serve although they should.
    pub faulted_units: usize,
    /// Targets.
    pub targets: usize,
    /// Hosts.
    pub hosts: usize,
    /// Sessions logged in.
    pub sessions: usize,
    /// Whether somebody has to see to something: the worst of all that is told here.
    #[serde(default)]
    pub health: Health,
    /// Pools, also those that should be open and are not.
    #[serde(default)]
    pub pools: Vec<PoolHealth>,
    /// Portals, bound or not.
    pub portals: Vec<PortalStatus>,
    /// The states that stop or refuse I/O of logical units, or soon will.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<UnitHindrances>,
    /// Damage to files of the state folder, and its remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

impl Status {
    /// The worst of what is told.
    pub fn worst(&self) -> Health {
        let is_cut_off = self.portals.iter().any(|portal| portal.error.is_some());
        let served = match self.faulted_units > 0 || is_cut_off {
            true => Health::Impaired,
            false => Health::Healthy,
        };
        let noticed = match self.notices.is_empty() {
            true => Health::Healthy,
            false => Health::Attention,
        };
        let pools = self.pools.iter().map(|pool| pool.health);
        let hindrances = self.hindrances.iter().flat_map(|unit| &unit.hindrances);
        let units = hindrances.map(|hindrance| hindrance.kind.health());
        pools.chain(units).fold(served.max(noticed), Health::max)
    }
}

/// A logical unit: what is wanted and what is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnitView {
    /// What the administrator asked for.
    pub spec: UnitSpec,
    /// How it is.
    pub status: UnitStatus,
    /// Its maps.
    pub maps: Vec<MapSpec>,
}

/// A target: what is wanted and what is. Secrets are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetView {
    /// What the administrator asked for.
    pub spec: TargetSpec,
    /// Its portals as they are.
    pub portals: Vec<PortalStatus>,
    /// The states that initiators chose for themselves, of its target port groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alua_choices: Vec<AluaChoice>,
    /// Sessions logged in.
    pub sessions: usize,
}

/// A target group and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetGroupView {
    /// What the administrator asked for.
    pub spec: TargetGroupSpec,
    /// The maps that name it.
    pub maps: Vec<MapSpec>,
}

/// A host: what is wanted and what is. Secrets are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostView {
    /// What the administrator asked for.
    pub spec: HostSpec,
    /// Sessions logged in.
    pub sessions: usize,
    /// Its maps, without those for every host.
    pub maps: Vec<MapSpec>,
}

/// This machine as an initiator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdapterView {
    /// The name of the one host adapter in runtime names.
    pub adapter: String,
    /// Its iSCSI name in force.
    pub name: String,
    /// Whether somebody chose the name; else it is made of the host name.
    pub is_chosen: bool,
    /// Every time that is in force; logins may have others.
    pub times: AdapterTimes,
    /// Those of them that somebody chose.
    pub chosen_times: AdapterTimes,
    /// Targets that it is to be logged in to.
    pub targets: usize,
    /// Sessions wanted.
    pub sessions: usize,
    /// Sessions that are up.
    pub sessions_up: usize,
    /// Devices behind them.
    pub devices: usize,
    /// Paths to these.
    pub paths: usize,
    /// Paths that are dead.
    pub dead_paths: usize,
}

/// A device: what is, and what was chosen for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceView {
    /// How it is.
    pub state: InitiatorDevice,
    /// What was chosen; what is absent follows from claim rules and defaults.
    pub chosen: Option<DeviceSpec>,
    /// Logical units that serve it on.
    pub units: Vec<String>,
}

/// A storage array type as `esxcli storage nmp satp list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SatpView {
    /// ESXi's name.
    pub name: String,
    /// The path selection of its devices whose rule names none.
    pub default_psp: String,
    /// In words.
    pub description: String,
}

/// What `share` did, and what a client needs to know to use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Shared {
    /// The change.
    pub committed: super::transaction::Committed,
    /// The logical unit.
    pub unit: UnitSpec,
    /// The host.
    pub host: String,
    /// The target's IQN.
    pub target: String,
    /// Its addresses.
    #[schema(value_type = Vec<String>)]
    pub portals: Vec<std::net::SocketAddr>,
    /// The LUN.
    pub lun: u16,
    /// The CHAP user that the host must log in as.
    pub chap_user: Option<String>,
}

/// The configuration as a TOML document. Secrets are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigDocument {
    /// The generation in force.
    pub generation: u64,
    /// TOML; may be edited and sent back.
    pub toml: String,
}

/// A problem. It says what was wrong, what was not changed and what to try next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The stable kind.
    pub kind: ErrorKind,
    /// What was wrong.
    pub message: String,
    /// What was not changed.
    pub not_changed: String,
    /// What to try next.
    pub next: String,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self {
            kind: error.kind,
            message: error.message,
            not_changed: error.not_changed,
            next: error.next,
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::new(problem.kind, problem.message, problem.next).not_changed(problem.not_changed)
    }
}

impl Problem {
    /// The HTTP status that goes with the kind.
    pub fn status(&self) -> StatusCode {
        match self.kind {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Exists | ErrorKind::InUse => StatusCode::CONFLICT,
            ErrorKind::Stale => StatusCode::PRECONDITION_FAILED,
            ErrorKind::Locked => StatusCode::LOCKED,
            ErrorKind::Refused => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::Corrupt | ErrorKind::Storage => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status(), Json(self)).into_response()
    }
}

/// A JSON body whose faults are answered as a [`Problem`].
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let next = "see GET /openapi.json for what this request takes";
        let bytes = axum::body::Bytes::from_request(request, state).await;
        let bytes =
            bytes.map_err(|e| Error::invalid(format!("the body could not be read: {e}"), next))?;
        let value = serde_json::from_slice(&bytes);
        value
            .map(Self)
            .map_err(|e| Error::invalid(format!("the body does not fit: {e}"), next).into())
    }
}

/// Query parameters whose faults are answered as a [`Problem`].
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let next = "see GET /openapi.json for the parameters of this request";
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(e) => Err(Error::invalid(
                format!("the parameters do not fit: {}", e.body_text()),
                next,
            )
            .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::hindrance::{Hindrance, HindranceKind, Stops};

    /// A daemon whose one unit has this hindrance.
    fn hindered(kind: HindranceKind) -> Status {
        let hindrance = Hindrance {
            kind,
            stops: Stops::Writes,
            by: None,
            binds_only: None,
            target_port_group: None,
            finding: String::new(),
            end: None,
        };
        Status {
            version: String::new(),
            pid: 1,
            uptime_s: 0,
            state: String::new(),
            generation: 1,
            units: 1,
            faulted_units: 0,
            targets: 0,
            hosts: 0,
            sessions: 0,
            health: Health::Healthy,
            pools: Vec::new(),
            portals: Vec::new(),
            hindrances: vec![UnitHindrances {
                unit: "vol1".to_owned(),
                hindrances: vec![hindrance],
            }],
            notices: Vec::new(),
        }
    }

    #[test]
    fn a_unit_that_may_have_lost_data_or_takes_none_is_not_well() {
        use HindranceKind::{Fault, Full, LostWrites, SanitizeFailed, Threshold};
        for kind in HindranceKind::ALL {
            let expected = match kind {
                Fault | LostWrites | SanitizeFailed | Full => Health::Impaired,
                Threshold => Health::Attention,
                _ => Health::Healthy,
            };
            assert_eq!(hindered(kind).worst(), expected, "{kind:?}");
        }
        let mut both = hindered(Threshold);
        both.hindrances.extend(hindered(Full).hindrances);
        assert_eq!(both.worst(), Health::Impaired);
    }
}

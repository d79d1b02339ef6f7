//! Answers of the API: objects of the configuration with their current state, and problems as JSON.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::call;
use model::alert::AlertView;
use model::config::{HostSpec, MapSpec, TargetGroupSpec, TargetSpec, UnitSpec};
use model::data_plane::{PortalStatus, UnitStatus};
use model::health::Health;
use model::hindrance::{AluaChoice, UnitHindrances};
use model::initiator::view::InitiatorDevice;
use model::initiator::{AdapterTimes, DeviceSpec};
use model::pool::health::PoolHealth;
use model::{Error, ErrorKind};

/// Summary of the daemon's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of Sandstone.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Seconds since the daemon started.
    pub uptime_s: u64,
    /// Path of the state folder.
    pub state: String,
    /// Generation of the configuration in force.
    pub generation: u64,
    /// Number of logical units.
    pub units: usize,
    /// Number of logical units that should serve, but do not.
    pub faulted_units: usize,
    /// Number of targets.
    pub targets: usize,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of sessions that are logged in.
    pub sessions: usize,
    /// Whether an administrator must act: the worst health in this summary.
    #[serde(default)]
    pub health: Health,
    /// Pools, including pools that should be open but are not.
    #[serde(default)]
    pub pools: Vec<PoolHealth>,
    /// Portals, bound or not.
    pub portals: Vec<PortalStatus>,
    /// The console, if it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<ConsoleStatus>,
    /// States that stop or refuse I/O of logical units, or soon will.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<UnitHindrances>,
    /// Damage to files of the state folder, each with its remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Open alerts, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<AlertView>,
    /// Work of pools that is under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Job>,
    /// Disks of this machine's pools.
    #[serde(default)]
    pub disks: DiskSummary,
    /// Disks of other machines, and the paths to them.
    #[serde(default)]
    pub paths: PathSummary,
}

/// Work of a pool that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Name of the pool.
    pub pool: String,
    /// Kind and progress of the work, in words.
    pub text: String,
}

/// Number of disks of pools: for blocks, logs and caches, and spares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskSummary {
    /// Number of all disks.
    pub all: usize,
    /// Number of disks that are not used as they should be.
    pub unwell: usize,
}

/// Number of sessions and paths of this machine as an initiator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathSummary {
    /// Number of disks of other machines.
    pub devices: usize,
    /// Number of paths to them.
    pub paths: usize,
    /// Number of paths that are dead.
    pub dead: usize,
}

/// Address of the console, and the proof of its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsoleStatus {
    /// Address for people.
    pub url: String,
    /// SHA-256 of its certificate, in pairs of hexadecimal digits.
    pub fingerprint: String,
    /// Names and addresses in the certificate.
    pub names: Vec<String>,
    /// Time at which the certificate ends, in seconds since 1970.
    pub ends: u64,
    /// Whether this machine made the certificate.
    pub is_own: bool,
    /// File with the link at which the first admin is added, as long as there is no user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_login: Option<String>,
    /// Reason why newer files of a certificate are not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Status {
    /// Returns the worst health in the summary.
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
        // An acknowledged alert is known, and needs no more attention.
        let mut unknown = self.alerts.iter().filter(|it| it.acknowledged.is_none());
        let alerted = match unknown.next() {
            Some(_) => Health::Attention,
            None => Health::Healthy,
        };
        let served = served.max(noticed).max(alerted);
        pools.chain(units).fold(served, Health::max)
    }
}

/// A logical unit: its configuration and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnitView {
    /// Configuration of the unit.
    pub spec: UnitSpec,
    /// Current state of the unit.
    pub status: UnitStatus,
    /// Maps of the unit.
    pub maps: Vec<MapSpec>,
}

/// A target: its configuration and its state. Secrets are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetView {
    /// Configuration of the target.
    pub spec: TargetSpec,
    /// Current state of the target's portals.
    pub portals: Vec<PortalStatus>,
    /// ALUA states that initiators chose for themselves, in the target's port groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alua_choices: Vec<AluaChoice>,
    /// Number of sessions that are logged in.
    pub sessions: usize,
}

/// A target group, with the maps that use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetGroupView {
    /// Configuration of the target group.
    pub spec: TargetGroupSpec,
    /// Maps that name the target group.
    pub maps: Vec<MapSpec>,
}

/// A host: its configuration and its state. Secrets are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostView {
    /// Configuration of the host.
    pub spec: HostSpec,
    /// Number of sessions that are logged in.
    pub sessions: usize,
    /// Maps of the host, without maps for every host.
    pub maps: Vec<MapSpec>,
}

/// Summary of this machine as an initiator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdapterView {
    /// Name of the only host adapter, as in runtime names.
    pub adapter: String,
    /// iSCSI name in force.
    pub name: String,
    /// Whether the administrator chose the name. Otherwise, it is made from the host name.
    pub is_chosen: bool,
    /// Times in force. Single logins may have other times.
    pub times: AdapterTimes,
    /// Times that the administrator chose.
    pub chosen_times: AdapterTimes,
    /// Number of targets to log in to.
    pub targets: usize,
    /// Number of sessions wanted.
    pub sessions: usize,
    /// Number of sessions that are up.
    pub sessions_up: usize,
    /// Number of devices behind the sessions.
    pub devices: usize,
    /// Number of paths to the devices.
    pub paths: usize,
    /// Number of paths that are dead.
    pub dead_paths: usize,
}

/// A device: its state, and the user's choices for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceView {
    /// Current state of the device.
    pub state: InitiatorDevice,
    /// Choices of the user. Claim rules and defaults decide the absent ones.
    pub chosen: Option<DeviceSpec>,
    /// Logical units of this machine that serve the device's data.
    pub units: Vec<String>,
}

/// A storage array type as `esxcli storage nmp satp list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SatpView {
    /// Name of the type, as in ESXi.
    pub name: String,
    /// Path selection of the type's devices, if their rule names none.
    pub default_psp: String,
    /// Description of the type in words.
    pub description: String,
}

/// Result of `share`, with the facts that a client needs to use the unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Shared {
    /// Change of the configuration.
    pub committed: super::transaction::Committed,
    /// Logical unit that was shared.
    pub unit: UnitSpec,
    /// Name of the host.
    pub host: String,
    /// IQN of the target.
    pub target: String,
    /// Addresses of the target.
    #[schema(value_type = Vec<String>)]
    pub portals: Vec<std::net::SocketAddr>,
    /// LUN of the unit.
    pub lun: u16,
    /// CHAP user as which the host must log in.
    pub chap_user: Option<String>,
}

/// The configuration as a TOML document. Secrets are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigDocument {
    /// Generation of the configuration in force.
    pub generation: u64,
    /// TOML text, which may be edited and sent back.
    pub toml: String,
}

/// A problem. It says what was wrong, what was not changed, and what to try next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The stable kind.
    pub kind: ErrorKind,
    /// Description of the problem.
    pub message: String,
    /// Part that was left unchanged.
    pub not_changed: String,
    /// Step to try next.
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
    /// Returns the HTTP status for the kind.
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
            ErrorKind::NotAuthenticated => StatusCode::UNAUTHORIZED,
            ErrorKind::NotPermitted => StatusCode::FORBIDDEN,
            ErrorKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

impl Problem {
    /// Returns the answer with this status in place of that of the kind.
    pub(super) fn with_status(&self, status: StatusCode) -> Response {
        (status, json(self)).into_response()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.with_status(self.status())
    }
}

/// Returns an answer as JSON.
pub(super) fn json<A: Serialize>(answer: &A) -> Response {
    match serde_json::to_vec(answer) {
        Ok(bytes) => ([(CONTENT_TYPE, "application/json")], bytes).into_response(),
        // No type of an answer has keys that are not text.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Most bytes of the JSON that asks for a stream.
const BODY: usize = 1 << 20;

/// A JSON body. Its faults are answered as a [`Problem`].
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + ToSchema + 'static> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let next = "see GET /openapi.json for what this request takes";
        let bytes = listener::read_whole(request.into_body(), BODY, listener::BODY).await;
        let bytes =
            bytes.map_err(|e| Error::invalid(format!("the body could not be read: {e}"), next))?;
        Ok(Self(call::body(&bytes)?))
    }
}

/// Query parameters. Their faults are answered as a [`Problem`].
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + 'static> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(call::query(parts.uri.query().unwrap_or_default())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::hindrance::{Hindrance, HindranceKind, Stops};

    /// Returns the status of a daemon whose only unit has the given hindrance.
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
            console: None,
            hindrances: vec![UnitHindrances {
                unit: "vol1".to_owned(),
                hindrances: vec![hindrance],
            }],
            notices: Vec::new(),
            alerts: Vec::new(),
            jobs: Vec::new(),
            disks: DiskSummary::default(),
            paths: PathSummary::default(),
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

    #[test]
    fn an_alert_needs_attention_until_somebody_knows_of_it() {
        let mut status = hindered(HindranceKind::Offline);
        status.alerts.push(AlertView::default());
        assert_eq!(status.worst(), Health::Attention);
        status.alerts[0].acknowledged = Some(Default::default());
        assert_eq!(status.worst(), Health::Healthy);
    }
}

//! Endpoints of this machine as an initiator.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use crate::answer::{AdapterView, DeviceView};
use crate::transaction::{Commit, Committed};
use config::change::{LogIn, ModifyLogin, SetDevice, SetInitiator};
use model::initiator::LoginSpec;
use model::initiator::view::InitiatorSession;

const INITIATOR: &str = "/v1/initiator";
const TARGETS: &str = "/v1/initiator/targets";
const ONE_TARGET: &str = "/v1/initiator/targets/{iqn}";
const ONE_DEVICE: &str = "/v1/initiator/devices/{name}";

endpoints! {
    "initiator":
    /// Returns a summary of the host adapter.
    ADAPTER = Viewer GET INITIATOR "initiator_adapter" ((), ()) -> AdapterView;
    /// Changes the initiator's name or times. For a new name, sessions are made anew, one after
    /// another. New times leave the sessions alone.
    SET_ADAPTER = Admin PATCH INITIATOR "initiator_set_adapter" (Commit, SetInitiator) -> Committed;
    /// Lists the targets to log in to. Secrets are not shown.
    LOGINS = Viewer GET TARGETS "initiator_logins" ((), ()) -> Vec<LoginSpec>;
    /// Logs in to a target, now and after each start of the daemon. The answer comes before a
    /// session exists. See the list of sessions.
    LOG_IN = Admin POST TARGETS "initiator_login" (Commit, LogIn) -> Committed;
    /// Changes the login to a target. Absent fields keep their values. If sessions must be made
    /// anew, this happens one after another.
    MODIFY_LOGIN = Admin PATCH ONE_TARGET "initiator_modify" (Commit, ModifyLogin) -> Committed;
    /// Logs out of a target. This is refused while a logical unit serves a device that has no other
    /// paths.
    LOG_OUT = Admin DELETE ONE_TARGET "initiator_logout" (Commit, ()) -> Committed;
    /// Lists the sessions at targets of other machines.
    SESSIONS = Viewer GET "/v1/initiator/sessions" "initiator_sessions" ((), ()) -> Vec<InitiatorSession>;
    /// Rescans the logical units that targets show.
    RESCAN = Operator POST "/v1/initiator/rescan" "initiator_rescan" (Rescan, ()) -> ();
    /// Lists the devices behind the sessions, with all their paths.
    DEVICES = Viewer GET "/v1/initiator/devices" "initiator_devices" ((), ()) -> Vec<DeviceView>;
    /// Returns one device.
    DEVICE = Viewer GET ONE_DEVICE "initiator_device" ((), ()) -> DeviceView;
    /// Chooses path selection, queue depth and similar settings of a device. They hold for I/O from
    /// now on.
    SET_DEVICE = Admin PATCH ONE_DEVICE "initiator_set_device" (Commit, SetDevice) -> Committed;
    /// Removes the choices for a device, so that claim rules and defaults decide again.
    RESET_DEVICE = Admin DELETE ONE_DEVICE "initiator_reset_device" (Commit, ()) -> Committed;
}

queries!(Rescan);

/// Targets to rescan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Rescan {
    /// The only target to rescan. If absent, all targets are rescanned.
    #[serde(default)]
    pub target: Option<String>,
}

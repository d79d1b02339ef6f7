//! Endpoints of this machine as an initiator.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

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
    ADAPTER = GET INITIATOR "initiator_adapter" ((), ()) -> AdapterView;
    SET_ADAPTER = PATCH INITIATOR "initiator_set_adapter" (Commit, SetInitiator) -> Committed;
    LOGINS = GET TARGETS "initiator_logins" ((), ()) -> Vec<LoginSpec>;
    LOG_IN = POST TARGETS "initiator_login" (Commit, LogIn) -> Committed;
    MODIFY_LOGIN = PATCH ONE_TARGET "initiator_modify" (Commit, ModifyLogin) -> Committed;
    LOG_OUT = DELETE ONE_TARGET "initiator_logout" (Commit, ()) -> Committed;
    SESSIONS = GET "/v1/initiator/sessions" "initiator_sessions" ((), ()) -> Vec<InitiatorSession>;
    RESCAN = POST "/v1/initiator/rescan" "initiator_rescan" (Rescan, ()) -> ();
    DEVICES = GET "/v1/initiator/devices" "initiator_devices" ((), ()) -> Vec<DeviceView>;
    DEVICE = GET ONE_DEVICE "initiator_device" ((), ()) -> DeviceView;
    SET_DEVICE = PATCH ONE_DEVICE "initiator_set_device" (Commit, SetDevice) -> Committed;
    RESET_DEVICE = DELETE ONE_DEVICE "initiator_reset_device" (Commit, ()) -> Committed;
}

/// Targets to rescan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Rescan {
    /// The only target to rescan. If absent, all targets are rescanned.
    #[serde(default)]
    pub target: Option<String>,
}

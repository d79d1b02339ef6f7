//! Routes for targets and their portals.

use super::endpoints;
use crate::answer::TargetView;
use crate::transaction::{Commit, Committed};
use config::change::{AddPortal, CreateTarget, ModifyTarget, SetAluaState};

const ALL: &str = "/v1/targets";
const ONE: &str = "/v1/targets/{iqn}";

endpoints! {
    "target":
    LIST = GET ALL "target_list" ((), ()) -> Vec<TargetView>;
    SHOW = GET ONE "target_show" ((), ()) -> TargetView;
    CREATE = POST ALL "target_create" (Commit, CreateTarget) -> Committed;
    MODIFY = PATCH ONE "target_modify" (Commit, ModifyTarget) -> Committed;
    DELETE = DELETE ONE "target_delete" (Commit, ()) -> Committed;
    ADD_PORTAL = POST "/v1/targets/{iqn}/portals" "target_add_portal" (Commit, AddPortal) -> Committed;
    REMOVE_PORTAL = DELETE "/v1/targets/{iqn}/portals/{portal}" "target_remove_portal" (Commit, ()) -> Committed;
    SET_ALUA_STATE = PUT "/v1/target-port-groups/{group}" "target_set_alua_state" (Commit, SetAluaState) -> Committed;
}

//! Endpoints for targets and their portals.

use super::endpoints;
use crate::answer::TargetView;
use crate::transaction::{Commit, Committed};
use config::change::{AddPortal, CreateTarget, ModifyTarget, SetAluaState};

const ALL: &str = "/v1/targets";
const ONE: &str = "/v1/targets/{iqn}";

endpoints! {
    "target":
    /// Lists all targets.
    LIST = Viewer GET ALL "target_list" ((), ()) -> Vec<TargetView>;
    /// Returns one target.
    SHOW = Viewer GET ONE "target_show" ((), ()) -> TargetView;
    /// Makes a target.
    CREATE = Admin POST ALL "target_create" (Commit, CreateTarget) -> Committed;
    /// Changes a target. Absent fields keep their values.
    MODIFY = Admin PATCH ONE "target_modify" (Commit, ModifyTarget) -> Committed;
    /// Removes a target.
    DELETE = Admin DELETE ONE "target_delete" (Commit, ()) -> Committed;
    /// Adds a listening address. If no portal group has the given tag, the group is made too.
    ADD_PORTAL = Admin POST "/v1/targets/{iqn}/portals" "target_add_portal" (Commit, AddPortal)
        -> Committed;
    /// Removes a listening address. With its last address, a portal group is removed too.
    REMOVE_PORTAL = Admin DELETE "/v1/targets/{iqn}/portals/{portal}" "target_remove_portal" (Commit, ())
        -> Committed;
    /// Sets the ALUA state of a target port group, and tells the initiators (06/2A/06). The
    /// initiators' own choices in this group end, even if the state does not change.
    SET_ALUA_STATE = Admin PUT "/v1/target-port-groups/{group}" "target_set_alua_state" (Commit, SetAluaState)
        -> Committed;
}

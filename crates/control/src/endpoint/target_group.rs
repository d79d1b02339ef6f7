//! Target groups.

use super::endpoints;
use crate::answer::TargetGroupView;
use crate::transaction::{Commit, Committed};
use config::change::CreateTargetGroup;

const ALL: &str = "/v1/target-groups";
const ONE: &str = "/v1/target-groups/{name}";
const ONE_TARGET: &str = "/v1/target-groups/{name}/targets/{iqn}";

endpoints! {
    "target":
    /// Lists all target groups.
    LIST = Viewer GET ALL "target_group_list" ((), ()) -> Vec<TargetGroupView>;
    /// Returns one target group.
    SHOW = Viewer GET ONE "target_group_show" ((), ()) -> TargetGroupView;
    /// Makes a target group.
    CREATE = Admin POST ALL "target_group_create" (Commit, CreateTargetGroup) -> Committed;
    /// Removes a target group. Its targets stay.
    DELETE = Admin DELETE ONE "target_group_delete" (Commit, ()) -> Committed;
    /// Adds a target. The group's maps then lead to it too.
    ADD_TARGET = Admin PUT ONE_TARGET "target_group_add_target" (Commit, ()) -> Committed;
    /// Removes a target. The group's maps no longer lead to it.
    REMOVE_TARGET = Admin DELETE ONE_TARGET "target_group_remove_target" (Commit, ()) -> Committed;
}

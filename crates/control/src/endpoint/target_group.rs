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
    LIST = GET ALL "target_group_list" ((), ()) -> Vec<TargetGroupView>;
    SHOW = GET ONE "target_group_show" ((), ()) -> TargetGroupView;
    CREATE = POST ALL "target_group_create" (Commit, CreateTargetGroup) -> Committed;
    DELETE = DELETE ONE "target_group_delete" (Commit, ()) -> Committed;
    ADD_TARGET = PUT ONE_TARGET "target_group_add_target" (Commit, ()) -> Committed;
    REMOVE_TARGET = DELETE ONE_TARGET "target_group_remove_target" (Commit, ()) -> Committed;
}

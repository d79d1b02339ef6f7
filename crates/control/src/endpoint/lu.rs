//! Routes for logical units.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::endpoints;
use crate::answer::UnitView;
use crate::transaction::{Commit, Committed};
use config::change::{CreateUnit, ModifyUnit};
use model::hindrance::Cleared;

const ALL: &str = "/v1/lus";
const ONE: &str = "/v1/lus/{name}";

endpoints! {
    "lu":
    LIST = GET ALL "lu_list" ((), ()) -> Vec<UnitView>;
    SHOW = GET ONE "lu_show" ((), ()) -> UnitView;
    CREATE = POST ALL "lu_create" (Commit, CreateUnit) -> Committed;
    MODIFY = PATCH ONE "lu_modify" (Commit, ModifyUnit) -> Committed;
    DELETE = DELETE ONE "lu_delete" (Commit, ()) -> Committed;
    CLEAR = DELETE "/v1/lus/{name}/hindrances/{kind}" "lu_clear" (Clear, ()) -> Cleared;
}

/// Options for ending a state that stops I/O.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Clear {
    /// Whether the request only reports which states would end.
    #[serde(default)]
    pub dry_run: bool,
}

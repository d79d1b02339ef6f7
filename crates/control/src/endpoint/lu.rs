//! Endpoints for logical units.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use crate::answer::UnitView;
use crate::transaction::{Commit, Committed};
use config::change::{CreateUnit, ModifyUnit};
use model::hindrance::Cleared;

const ALL: &str = "/v1/lus";
const ONE: &str = "/v1/lus/{name}";

endpoints! {
    "lu":
    /// Lists all logical units.
    LIST = Viewer GET ALL "lu_list" ((), ()) -> Vec<UnitView>;
    /// Returns one logical unit.
    SHOW = Viewer GET ONE "lu_show" ((), ()) -> UnitView;
    /// Makes a logical unit. If the request asks for a volume, the volume is made too.
    CREATE = Admin POST ALL "lu_create" (Commit, CreateUnit) -> Committed;
    /// Changes a logical unit. Absent fields keep their values.
    MODIFY = Admin PATCH ONE "lu_modify" (Commit, ModifyUnit) -> Committed;
    /// Removes a logical unit. The file or device behind it stays.
    DELETE = Admin DELETE ONE "lu_delete" (Commit, ()) -> Committed;
    /// Ends a state that stops I/O of a logical unit. Examples are a stop, a write protection,
    /// reservations, ALUA states that initiators chose, a failed SANITIZE, and lost writes.
    CLEAR = Admin DELETE "/v1/lus/{name}/hindrances/{kind}" "lu_clear" (Clear, ()) -> Cleared;
}

queries!(Clear);

/// Options for ending a state that stops I/O.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Clear {
    /// Whether the request only reports which states would end.
    #[serde(default)]
    pub dry_run: bool,
}

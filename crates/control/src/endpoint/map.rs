//! Maps, and the reasons for what initiators see.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use crate::answer::Shared as SharedUnit;
use crate::transaction::{Commit, Committed};
use config::change::{AddMap, RemoveMap, Share};
use config::explain::Explanation;
use model::config::MapSpec;

const ALL: &str = "/v1/maps";

endpoints! {
    "map":
    /// Lists all lines of the map.
    LIST = Viewer GET ALL "map_list" ((), ()) -> Vec<MapSpec>;
    /// Adds a line to the map.
    ADD = Admin POST ALL "map_add" (Commit, AddMap) -> Committed;
    /// Removes lines from the map.
    REMOVE = Admin DELETE ALL "map_remove" (Commit, RemoveMap) -> Committed;
    /// Explains why an initiator sees a logical unit, or why not.
    EXPLAIN = Viewer GET "/v1/explain" "map_explain" (Question, ()) -> Explanation;
    /// Makes a logical unit, a target, a host and a map in one step.
    SHARE = Admin POST "/v1/share" "share" (Commit, Share) -> SharedUnit;
}

queries!(Question);

/// An initiator, and the logical unit that it may see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Question {
    /// iSCSI name of the initiator.
    pub initiator: String,
    /// Name of the logical unit. If absent, all logical units that the initiator sees.
    pub unit: Option<String>,
}

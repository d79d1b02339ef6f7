//! Claim rules and storage array types.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoints;
use crate::answer::SatpView;
use crate::transaction::{Commit, Committed};
use multipath::{RuleText, RuleView};

const RULES: &str = "/v1/initiator/rules";

endpoints! {
    "initiator":
    /// Lists all claim rules, the system's first.
    LIST = Viewer GET RULES "initiator_rules" ((), ()) -> Vec<RuleView>;
    /// Adds a user rule. Devices that it claims follow the rule from now on.
    ADD = Admin POST RULES "initiator_add_rule" (Commit, RuleText) -> Committed;
    /// Removes the user rule with the given array type and criteria.
    REMOVE = Admin DELETE RULES "initiator_remove_rule" (Commit, RuleText) -> Committed;
    /// Lists the storage array types.
    SATPS = Viewer GET "/v1/initiator/satps" "initiator_satps" ((), ()) -> Vec<SatpView>;
    /// Sets the path selection of an array type, for devices whose rule names none.
    SET_SATP = Admin PUT "/v1/initiator/satps/{satp}" "initiator_set_satp" (Commit, PspChoice)
        -> Committed;
}

/// A path selection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PspChoice {
    /// Name of the path selection, with or without ESXi's prefix.
    pub psp: String,
}

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
    LIST = GET RULES "initiator_rules" ((), ()) -> Vec<RuleView>;
    ADD = POST RULES "initiator_add_rule" (Commit, RuleText) -> Committed;
    REMOVE = DELETE RULES "initiator_remove_rule" (Commit, RuleText) -> Committed;
    SATPS = GET "/v1/initiator/satps" "initiator_satps" ((), ()) -> Vec<SatpView>;
    SET_SATP = PUT "/v1/initiator/satps/{satp}" "initiator_set_satp" (Commit, PspChoice) -> Committed;
}

/// A path selection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PspChoice {
    /// Name of the path selection, with or without ESXi's prefix.
    pub psp: String,
}

//! Alerts as users see them: states of objects that need somebody.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::Severity;

/// An alert: a condition that holds for an object, or did until lately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertView {
    /// Number of the alert. No two alerts ever have the same.
    pub number: u64,
    /// Condition, such as `pool-degraded`.
    pub condition: String,
    /// Object: a pool, a device of a pool, a logical unit, an initiator.
    pub object: String,
    /// Gravity of the condition.
    pub severity: Severity,
    /// Description of what was found, as of the last time that the condition held.
    pub text: String,
    /// Step to take.
    pub next: String,
    /// Time at which the condition began to hold, in milliseconds since 1970.
    pub since_ms: u64,
    /// Time at which the alert was last told through the ways out, in milliseconds since 1970.
    pub told_ms: u64,
    /// User who knows of the alert, and when they said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
    /// Time at which the alert ended, in milliseconds since 1970. `None` means that it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
}

/// Statement of a user who knows of an alert. It is then not told again each day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Acknowledgement {
    /// User who acknowledged the alert.
    pub by: String,
    /// Time of the acknowledgement, in milliseconds since 1970.
    pub at_ms: u64,
}

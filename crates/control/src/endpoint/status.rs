//! The daemon itself.

use super::endpoints;
use crate::answer::Status;

endpoints! {
    "status":
    /// Returns a summary of the daemon's state.
    STATUS = GET "/v1/status" "status" ((), ()) -> Status;
    /// Returns the metrics in Prometheus' text format.
    METRICS = GET "/metrics" "metrics" ((), ()) -> String;
}

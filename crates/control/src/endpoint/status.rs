//! The daemon itself.

use super::endpoints;
use crate::answer::Status;
use model::figures::Snapshot;

endpoints! {
    "status":
    /// Returns a summary of the daemon's state.
    STATUS = Viewer GET "/v1/status" "status" ((), ()) -> Status;
    /// Returns the latest figures of logical units, sessions and port groups: commands, bytes, and
    /// the time of each stage. One snapshot a second is taken.
    FIGURES = Viewer GET "/v1/figures" "figures" ((), ()) -> Snapshot;
    /// Returns the metrics in Prometheus' text format.
    METRICS = Viewer GET "/metrics" "metrics" ((), ()) -> String;
}

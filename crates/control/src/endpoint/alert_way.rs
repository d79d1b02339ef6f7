//! Ways out for alerts: who is told, and how.

use super::endpoints;
use crate::transaction::{Commit, Committed};
use config::change::ModifyWay;
use model::way::{WaySpec, WayTested, WayView};

const ALL: &str = "/v1/alert-ways";
const ONE: &str = "/v1/alert-ways/{name}";

endpoints! {
    "alert":
    /// Lists the ways out with their states. Secrets are not shown.
    LIST = Viewer GET ALL "alert_way_list" ((), ()) -> Vec<WayView>;
    /// Adds a way: a webhook, mail, or a heartbeat.
    ADD = Admin POST ALL "alert_way_add" (Commit, WaySpec) -> Committed;
    /// Changes a way. Values that are left out stay.
    MODIFY = Admin PATCH ONE "alert_way_modify" (Commit, ModifyWay) -> Committed;
    /// Removes a way, and what waits for it.
    REMOVE = Admin DELETE ONE "alert_way_remove" (Commit, ()) -> Committed;
    /// Sends a test message now, and answers once the other side has taken it.
    TEST = Operator POST "/v1/alert-ways/{name}/test" "alert_way_test" ((), ()) -> WayTested;
}

//! The daemon itself.

use super::endpoints;
use crate::answer::Status;

endpoints! {
    "status":
    STATUS = GET "/v1/status" "status" ((), ()) -> Status;
    METRICS = GET "/metrics" "metrics" ((), ()) -> String;
}

//! Endpoints for the disks of this machine.

use super::endpoints;
use model::disk::{DiskView, LocateDisk};

endpoints! {
    "disk":
    /// Lists the disks of this machine, with what uses them and what is on them. Disks are read for
    /// it, which takes up to five seconds where one does not answer.
    LIST = Operator GET "/v1/disks" "disk_list" ((), ()) -> Vec<DiskView>;
    /// Lights the lamp of the slot that a disk is in, or puts it out.
    LOCATE = Operator POST "/v1/disks/locate" "disk_locate" ((), LocateDisk) -> ();
}

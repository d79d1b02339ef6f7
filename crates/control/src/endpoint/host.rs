//! Hosts.

use super::endpoints;
use crate::answer::HostView;
use crate::transaction::{Commit, Committed};
use config::change::{CreateHost, SetChap};

const ALL: &str = "/v1/hosts";
const ONE: &str = "/v1/hosts/{name}";
const ONE_INITIATOR: &str = "/v1/hosts/{name}/initiators/{initiator}";
const CHAP: &str = "/v1/hosts/{name}/chap";

endpoints! {
    "host":
    /// Lists all hosts.
    LIST = Viewer GET ALL "host_list" ((), ()) -> Vec<HostView>;
    /// Returns one host.
    SHOW = Viewer GET ONE "host_show" ((), ()) -> HostView;
    /// Makes a host.
    CREATE = Admin POST ALL "host_create" (Commit, CreateHost) -> Committed;
    /// Removes a host.
    DELETE = Admin DELETE ONE "host_delete" (Commit, ()) -> Committed;
    /// Adds an initiator name or pattern.
    ADD_INITIATOR = Admin PUT ONE_INITIATOR "host_add_initiator" (Commit, ()) -> Committed;
    /// Removes an initiator name or pattern.
    REMOVE_INITIATOR = Admin DELETE ONE_INITIATOR "host_remove_initiator" (Commit, ()) -> Committed;
    /// Sets the user and secret that the host must prove to log in.
    SET_CHAP = Admin PUT CHAP "host_set_chap" (Commit, SetChap) -> Committed;
    /// Lets the host log in without a secret.
    REMOVE_CHAP = Admin DELETE CHAP "host_remove_chap" (Commit, ()) -> Committed;
}

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
    LIST = GET ALL "host_list" ((), ()) -> Vec<HostView>;
    /// Returns one host.
    SHOW = GET ONE "host_show" ((), ()) -> HostView;
    /// Makes a host.
    CREATE = POST ALL "host_create" (Commit, CreateHost) -> Committed;
    /// Removes a host.
    DELETE = DELETE ONE "host_delete" (Commit, ()) -> Committed;
    /// Adds an initiator name or pattern.
    ADD_INITIATOR = PUT ONE_INITIATOR "host_add_initiator" (Commit, ()) -> Committed;
    /// Removes an initiator name or pattern.
    REMOVE_INITIATOR = DELETE ONE_INITIATOR "host_remove_initiator" (Commit, ()) -> Committed;
    /// Sets the user and secret that the host must prove to log in.
    SET_CHAP = PUT CHAP "host_set_chap" (Commit, SetChap) -> Committed;
    /// Lets the host log in without a secret.
    REMOVE_CHAP = DELETE CHAP "host_remove_chap" (Commit, ()) -> Committed;
}

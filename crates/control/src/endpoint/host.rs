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
    LIST = GET ALL "host_list" ((), ()) -> Vec<HostView>;
    SHOW = GET ONE "host_show" ((), ()) -> HostView;
    CREATE = POST ALL "host_create" (Commit, CreateHost) -> Committed;
    DELETE = DELETE ONE "host_delete" (Commit, ()) -> Committed;
    ADD_INITIATOR = PUT ONE_INITIATOR "host_add_initiator" (Commit, ()) -> Committed;
    REMOVE_INITIATOR = DELETE ONE_INITIATOR "host_remove_initiator" (Commit, ()) -> Committed;
    SET_CHAP = PUT CHAP "host_set_chap" (Commit, SetChap) -> Committed;
    REMOVE_CHAP = DELETE CHAP "host_remove_chap" (Commit, ()) -> Committed;
}

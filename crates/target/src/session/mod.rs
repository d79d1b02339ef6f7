//! Sessions on their loops: LOGIN, the registry, the views, the traffic and the end of sessions.

pub(super) mod arrival;
pub(super) mod connection;
pub(super) mod ending;
pub(super) mod foresight;
pub(super) mod gathering;
pub(super) mod login;
pub(super) mod registry;
pub(super) mod reinstatement;
pub(super) mod served_session;
pub(super) mod session_traffic;
pub(super) mod told;
pub(super) mod upkeep;
pub(super) mod view;

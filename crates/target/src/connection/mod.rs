//! Connections before they log in: portals, sockets, and which loop gets them.

pub(super) mod dealer;
pub(super) mod listener;
pub(super) mod socket_options;

//! Connections before they log in: portals, sockets, and the choice of their loop.

pub(super) mod dealer;
pub(super) mod listener;
pub(super) mod socket_options;
pub(super) mod tcp_counts;

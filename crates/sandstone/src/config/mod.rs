//! What an administrator configured: logical units, targets, hosts and the map that joins them.

pub mod model;

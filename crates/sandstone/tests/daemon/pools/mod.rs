//! Pools of a running daemon: their devices, growth, faults and hosts.

pub(super) mod administration;
pub(super) mod check;
pub(super) mod devices;
pub(super) mod failing_nodes;
pub(super) mod fence;
pub(super) mod growth;
pub(super) mod iostat;
pub(super) mod life;
pub(super) mod local_disks;
pub(super) mod logs_and_caches;
pub(super) mod multihost;
pub(super) mod over_iscsi;
pub(super) mod rebuild_labels;
pub(super) mod returning;
pub(super) mod rewind;
pub(super) mod scrub;
pub(super) mod scrub_pause;
pub(super) mod trim;
pub(super) mod twins;
pub(super) mod under_load;
pub(super) mod units;

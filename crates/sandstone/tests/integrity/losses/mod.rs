//! Sessions, power, disks and writes that are lost.

pub(super) mod fencing;
pub(super) mod kill;
pub(super) mod late_abort;
pub(super) mod late_write;
pub(super) mod lost_preemption;
pub(super) mod lost_writes;
pub(super) mod power_cut;
pub(super) mod restart;
pub(super) mod shrunk_device;
pub(super) mod volatile_disk;
pub(super) mod write_cache;

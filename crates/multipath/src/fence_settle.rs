//! For how long the writes of a session that a target has ended may still land, by its vendor.
//!
//! Session reinstatement ends the old session's tasks before the LOGIN is answered (RFC 7143
//! §6.3.5). A target that does so needs no time after it. Others close the old connections and
//! answer, while threads of theirs are still at old writes: one that the system has not let run
//! meanwhile, or whose file system commits its journal, performs its write when the new session has
//! written the same blocks already. Seen with tgt. How long that may take nobody says, so there is
//! a time for those that are not known to do better, and a longer one for those that are known to
//! do it.

/// Nobody has looked into it: long enough for a thread that waits for its turn, and so short that
/// whoever waits for the write hardly takes it for a fault.
const UNKNOWN_US: u64 = 1_000_000;

/// Vendor identifications (SPC-4 §6.6.2) of targets that were looked into.
const LOOKED_INTO: [(&str, u64); 2] = [
    // Ours waits for the old session's writes, or fences them off at the unit.
    ("SNDSTONE", 0),
    // tgt does not wait for its worker threads, and iSCSI Enterprise Target bears the same name.
    // Both write to files and disks of a general-purpose system, where a stall takes seconds.
    ("IET", 5_000_000),
];

/// The time in microseconds.
pub(super) fn of_vendor(vendor: &str) -> u64 {
    let known = LOOKED_INTO.iter().find(|(name, _)| *name == vendor);
    known.map_or(UNKNOWN_US, |(_, us)| *us)
}

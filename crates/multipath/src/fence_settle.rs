//! Time for which the writes of a session may still land after a target has ended the session, by
//! vendor.
//!
//! Session reinstatement ends the old session's tasks before the LOGIN is answered (RFC 7143
//! §6.3.5). A target that obeys needs no settle time. Other targets close the old connections and
//! answer, while their threads are still at old writes. A thread may not get to run meanwhile, or
//! its file system may commit the journal. Its write is then performed after the new session has
//! written the same blocks. This was seen with tgt. No document says how long this may take. So
//! there is one time for targets that nobody has examined, and a longer one for targets that are
//! known to do it.

/// Time for targets that nobody has examined. It is long enough for a thread that waits for its
/// turn. It is short enough that a user who waits for the write hardly takes the wait for a fault.
const UNKNOWN_US: u64 = 1_000_000;

/// Vendor identifications (SPC-4 §6.6.2) of targets that were examined.
const LOOKED_INTO: [(&str, u64); 2] = [
    // Sandstone waits for the old session's writes, or fences them off at the unit.
    ("SNDSTONE", 0),
    // tgt does not wait for its worker threads. iSCSI Enterprise Target has the same vendor name.
    // Both write to files and disks of a general-purpose system, where a stall takes seconds.
    ("IET", 5_000_000),
];

/// Returns the settle time of a vendor's targets, in microseconds.
pub(super) fn of_vendor(vendor: &str) -> u64 {
    let known = LOOKED_INTO.iter().find(|(name, _)| *name == vendor);
    known.map_or(UNKNOWN_US, |(_, us)| *us)
}

//! Climates of worlds, which say how often each event happens, and reports of these events.

use std::fmt::Debug;
use std::time::Duration;

/// Climate of a world. Shares are of a thousand bursts of commands. The seed decides most of the
/// rest.
#[derive(Clone, Copy, Debug)]
pub struct Climate {
    /// Number of commands of each host.
    pub commands: u64,
    /// Number of paths of each host, each with a portal and a session of its own.
    pub paths: usize,
    /// Share of bursts with a connection that is cut.
    pub cuts_per_mille: u64,
    /// Share of bursts with a connection that goes silent.
    pub silences_per_mille: u64,
    /// Share of bursts with a connection that its host closes under commands.
    pub partings_per_mille: u64,
    /// Share of bursts with a command that is aborted.
    pub aborts_per_mille: u64,
    /// Commands of a thousand that are for counters that all hosts share.
    pub counters_per_mille: u64,
    /// Commands of a thousand that are for persistent reservations, or for what they protect.
    pub fences_per_mille: u64,
    /// Commands of a thousand that are for the unit that comes and goes.
    pub scratch_per_mille: u64,
    /// Seconds of a thousand in which the administrator begins a change.
    pub changes_per_mille: u64,
    /// Seconds of a thousand in which the administrator ends a session.
    pub dismissals_per_mille: u64,
    /// Requests of a thousand for which a disk takes seconds.
    pub slow_per_mille: u64,
    /// Requests of a thousand that fail.
    pub failures_per_mille: u64,
    /// Number of further hosts that take memory and send no data for it.
    pub hogs: usize,
    /// Bytes that may be in flight at the target.
    pub memory: u64,
    /// Whether every piece is one byte.
    pub single_bytes: bool,
}

impl Climate {
    /// Climate in which nothing happens but commands.
    pub const CALM: Self = Self {
        commands: 120,
        paths: 1,
        cuts_per_mille: 0,
        silences_per_mille: 0,
        partings_per_mille: 0,
        aborts_per_mille: 0,
        counters_per_mille: 0,
        fences_per_mille: 0,
        scratch_per_mille: 0,
        changes_per_mille: 0,
        dismissals_per_mille: 0,
        slow_per_mille: 0,
        failures_per_mille: 0,
        hogs: 0,
        memory: 1 << 30,
        single_bytes: false,
    };
}

/// Counts of a world's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Commands that ended, however they did.
    pub ended: u64,
    /// Commands that ended with a unit attention and were repeated.
    pub attentions: u64,
    /// Commands that ended with another refusal and were repeated.
    pub refusals: u64,
    /// Commands that were aborted.
    pub aborted: u64,
    /// Atomic commands that found what they expected.
    pub swapped: u64,
    /// Atomic commands that found something else.
    pub miscompared: u64,
    /// Hosts that were fenced off by a persistent reservation.
    pub fenced: u64,
    /// Commands that met a reservation.
    pub conflicts: u64,
    /// Target port groups that left service, and units that were deleted.
    pub left_service: u64,
    /// Changes of the configuration that were refused.
    pub changes_refused: u64,
    /// Sessions that the administrator ended.
    pub dismissed: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Connections that the target gave up as silent.
    pub given_up: u64,
    /// First commands of sessions that were told that an earlier nexus was lost. Those of other new
    /// sessions are told of a reset, so they do not count.
    pub told_of_loss: u64,
    /// Connections that hosts closed under their own writes.
    pub partings: u64,
    /// Simulated time.
    pub time: Duration,
    /// Digest of all events and of all bytes that passed.
    pub digest: u64,
}

impl Report {
    pub(super) fn note(&mut self, now: Duration, event: &impl Debug) {
        self.note_bytes(format!("{now:?} {event:?}").as_bytes());
    }

    pub(super) fn note_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

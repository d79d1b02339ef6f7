//! Condition of a pool, judged from the engine's figures: its state, data without a right copy, and
//! leaves that may have stopped it.

use store::engine::PoolStatus;
use store::vdev::{Class, LeafStatus, TopLevelKind, VdevState};

/// Returns ONLINE, DEGRADED, SUSPENDED or UNAVAIL.
pub(super) fn state(status: &PoolStatus) -> &'static str {
    let tops = || {
        status
            .top_levels
            .iter()
            .filter(|top| top.kind != TopLevelKind::Hole)
    };
    let any = |state: VdevState| tops().any(|top| top.class == Class::Normal && top.state == state);
    // A pool without its log is slower, but fully works.
    let is_log_hurt = tops().any(|top| top.class == Class::Log && top.state != VdevState::Online);
    match () {
        () if status.suspended.is_some() => "SUSPENDED",
        () if any(VdevState::Unavailable) || any(VdevState::Faulted) => "UNAVAIL",
        () if any(VdevState::Degraded) || is_log_hurt => "DEGRADED",
        () => "ONLINE",
    }
}

/// Returns the number of reads without a right copy since the pool was opened or cleared.
pub(super) fn unreadable(status: &PoolStatus) -> u64 {
    status.top_levels.iter().map(|top| top.unreadable).sum()
}

/// Reports whether blocks without a right copy are known. Reads met them, or the last scan did,
/// perhaps before the pool was opened.
pub(super) fn has_lost_blocks(status: &PoolStatus) -> bool {
    unreadable(status) > 0 || status.scan.is_some_and(|scan| scan.unrecoverable > 0)
}

/// Reports whether a leaf may be the reason why its pool stopped.
pub(super) fn is_troubled(leaf: &LeafStatus, is_suspended: bool) -> bool {
    let is_away = matches!(leaf.state, VdevState::Removed | VdevState::Unavailable);
    is_away || is_suspended && (leaf.state == VdevState::Faulted || leaf.errors.write > 0)
}

//! Disks that are away, and whether the pool can do without them.

use store::pool::{Pool, Stop};
use store::vdev::{LeafStatus, State};

use super::super::host::Shared;
use crate::import::reopening::is_troubled;
use model::device_name::is_remote;

/// Disks that are away, or of other machines do not do what they are asked, and that the pool will use again when they
/// are back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Absence {
    /// There are some.
    pub(super) is_any: bool,
    /// There is not enough without them: what fails for that may succeed later.
    pub(super) is_needed: bool,
}

impl Absence {
    pub(super) fn of(pool: &Pool, shared: &Shared) -> Self {
        let (places, status) = (shared.places(), pool.status());
        let is_remote = |guid: u64| places.get(&guid).is_some_and(|at| is_remote(&at.path));
        let is_suspended = status.suspended.is_some();
        let is_silent = matches!(pool.stopped(), Some(Stop::Silent(_)));
        let mut absence = Self::default();
        for top in &status.top_levels {
            let mut leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
            // A disk of this machine that refuses writes is there, and somebody has to see to it.
            let is_missed = |leaf: &LeafStatus| {
                is_silent || is_troubled(leaf, is_suspended && is_remote(leaf.guid))
            };
            if leaves.any(is_missed) {
                absence.is_any = true;
                absence.is_needed |= is_suspended || top.state == State::Unavailable;
            }
        }
        absence
    }
}

//! Missing disks, and whether the pool can do without them.

use store::engine::{Pool, Stop};
use store::vdev::{LeafStatus, VdevState};

use crate::condition::is_troubled;
use crate::shared::Shared;
use model::device_name::is_remote;

/// Disks that the pool lacks now and will use again when they return. They are missing, or they are
/// other machines' disks that do not do their requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Absence {
    /// Whether any disk is missing.
    pub(super) is_any: bool,
    /// Whether the pool cannot work without the missing disks. Requests that fail for their lack
    /// may succeed later.
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
            // A local disk that refuses writes is present, and needs an administrator.
            let is_missed = |leaf: &LeafStatus| {
                is_silent || is_troubled(leaf, is_suspended && is_remote(leaf.guid))
            };
            if leaves.any(is_missed) {
                absence.is_any = true;
                absence.is_needed |= is_suspended || top.state == VdevState::Unavailable;
            }
        }
        absence
    }
}

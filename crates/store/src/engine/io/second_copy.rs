//! Second copies of blocks: decides which blocks have two, and where there is room for them.
//!
//! Metadata leads to other blocks: nodes of maps, the space map, manifests, lists, and operations
//! of the log in blocks of their own. Metadata is written twice if its vdev has no redundancy;
//! otherwise one bad sector would take all that it leads to. The second copy lies on another
//! top-level vdev if there is one, else far away on the same. A volume's own blocks lie twice if
//! its `copies` say so.
//!
//! Records of the log lie once. A second record far away would cost a second request for each
//! durable write, and records are needed only until the next checkpoint. A record that rots is
//! found and reported ([`super::signpost`]), and a log vdev keeps copies of all records.
//!
//! Second copies of metadata use only space that nothing else needs. Space for first copies, for
//! reservations and for emptying a full pool comes first. If there is no other space, the block
//! lies once, which is counted and reported. A checkpoint never fails for lack of second copies.

use super::second_place::Spare;
use crate::catalog::{Native, NewDataset, Operation, Value};
use crate::engine::contents::Contents;
use crate::engine::features::{Feature, FeatureState};
use crate::engine::request::{Event, PoolError, PoolErrorKind};
use crate::engine::state::Pool;

impl Pool {
    /// Notes that a checkpoint is durable that lacked room for `blocks` second copies. This is
    /// reported if the checkpoint before had room.
    pub(in crate::engine) fn note_written_once(&mut self, blocks: u64) {
        if self.second_copies.note_written_once(blocks) {
            self.tell(Event::WrittenOnce { blocks });
        }
    }

    /// Reports whether metadata is written twice on some vdev.
    pub(in crate::engine) fn is_metadata_double(&self) -> bool {
        self.second_copies.are_allowed() && self.lacks_redundancy()
    }

    /// Reports whether blocks lie on a vdev that has no redundancy.
    fn lacks_redundancy(&self) -> bool {
        let has_none = |vdev: u16| {
            let is_used = self.space_of(vdev) > 0;
            is_used && self.redundancy(vdev) == 0
        };
        (0..self.space_vdevs()).any(has_none)
    }

    /// Begins to use second copies if something is to have one. The labels say so first
    /// ([`Pool::use_second_copies`]).
    pub(in crate::engine) fn want_second_copies(&mut self) {
        let has_two = |(_, of): (_, &Contents)| of.settings.copies > 1;
        let are_wanted = self.lacks_redundancy() || self.datasets_in_use().any(has_two);
        if are_wanted && self.activate_feature(Feature::TwoCopies) {
            self.config_changed();
        }
    }

    /// Notes that the labels say which features are active. So no program that lacks second copies
    /// meets one.
    pub(in crate::engine) fn use_second_copies(&mut self) {
        let are_allowed = self.config().features.is_active(Feature::TwoCopies);
        self.second_copies.allow(are_allowed);
    }

    /// Refuses an operation that needs second copies in a pool that may have none.
    ///
    /// # Errors
    /// The operation is refused.
    pub(in crate::engine) fn check_second_copies(
        &self,
        operation: &Operation,
    ) -> Result<(), PoolError> {
        let state = self.config().features.state(Feature::TwoCopies);
        let of_new = |new: &NewDataset| new.properties.get(&Native::Copies.into()).cloned();
        let (folders, own) = match operation {
            Operation::CreateFolder { folders } => (&folders[..], None),
            Operation::CreateVolume {
                folders, volume, ..
            } => (&folders[..], of_new(&volume.dataset)),
            Operation::Clone { folders, clone, .. } => (&folders[..], of_new(&clone.dataset)),
            Operation::SetProperty { properties, .. } => {
                (&[][..], properties.get(&Native::Copies.into()).cloned())
            }
            _ => (&[][..], None),
        };
        let mut wanted = folders.iter().filter_map(of_new).chain(own);
        if state != FeatureState::Disabled || !wanted.any(|value| value == Value::Copies(2)) {
            return Ok(());
        }
        let name = &self.config().name;
        let context = format!(
            "copies=2 needs the format feature {}, which pool {name} does not use. Nothing was changed. \
             'sandstone pool upgrade {name}' enables the feature; older programs cannot open the pool \
             afterwards",
            Feature::TwoCopies.name()
        );
        Err(PoolError::new(PoolErrorKind::Refused, context))
    }

    /// Returns the space that second copies of metadata may take now.
    pub(in crate::engine) fn spare(&self) -> Spare {
        let cost = self.cost_of_all();
        Spare {
            is_wanted: self.is_metadata_double(),
            kept: 3 * self.slop() / 4 + self.promises.reserved() + cost.sectors,
            kept_runs: self.few_node_runs() / 2 + cost.runs,
        }
    }
}

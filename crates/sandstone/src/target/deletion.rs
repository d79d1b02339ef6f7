//! Units that a change of the configuration deletes. What they lie on may be served anew at once, so nothing may
//! write to it any more when the change is answered.
//!
//! # Order
//! 1. No SANITIZE begins any more, and one that is under way refuses the change: it would go on for hours (SBC-4
//!    4.11.2), on a disk that nobody guards any more.
//! 2. The units leave all views: their commands are aborted, and no new ones come.
//! 3. What devices still do for those is waited for.

use std::sync::Arc;

use super::shared::Shared;
use super::transition;
use super::unit::Unit;
use crate::control::ApplyError;

/// Units that are about to be deleted; all is as before where this goes without [`Deletion::settle`].
#[derive(Debug)]
pub(super) struct Deletion(Vec<Arc<Unit>>);

impl Deletion {
    /// Keeps SANITIZE from beginning on these units.
    ///
    /// # Errors
    /// It is under way on one of them. All is as before.
    pub(super) fn begin(units: Vec<Arc<Unit>>) -> Result<Self, ApplyError> {
        let mut begun = Self(Vec::new());
        for unit in units {
            if !unit.logical.forbid_sanitize() {
                return Err(ApplyError {
                    object: format!("lu {}", unit.name),
                    message: "SANITIZE is overwriting it, and nothing may end that but its end".into(),
                    next: "delete it when that has ended; until then TEST UNIT READY says 02/04/1B, and REQUEST SENSE how far it is"
                        .into(),
                });
            }
            begun.0.push(unit);
        }
        Ok(begun)
    }

    /// The units have left all views: waits for what devices still do for their commands. May block.
    pub(super) fn settle(mut self, shared: &Shared) {
        let units = std::mem::take(&mut self.0);
        if !units.is_empty() && !transition::outlast(shared, &units) {
            let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
            tracing::error!(
                units = names.join(", "),
                "deleted, but its device has not answered all commands yet: serve nothing else from it before the device is well"
            );
        }
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.0.iter().for_each(|unit| unit.logical.allow_sanitize());
    }
}

//! After each opening, nothing is promised before a checkpoint leads behind the first group that
//! was written since.
//!
//! Where the end of the log was found, a record may lie all the same: of a group that was being
//! written when the power failed and that was cut off, or one that a device did not show this time.
//! The opening marks the place (`open/mark.rs`), but if a leaf loses that write and says nothing,
//! and the others cannot be read later, the old record is still there. It has the right number and
//! predecessor: who followed the log from the old checkpoint would be led into a past that was
//! given up, and away from all that was acknowledged since.
//!
//! So the first group after an opening calls for a checkpoint, whose root leads to what is behind
//! that group, by a checksum that only what was written since can continue. It is durable on enough
//! leaves before anything is promised. A pool that is opened and not changed writes nothing for it.

use super::state::Pool;

/// Whether the last checkpoint leads to where the log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// It does.
    Reached,
    /// Nothing was written behind the end that an opening found.
    Found,
    /// This group was, and a checkpoint that has it is not durable yet.
    Anew(u64),
}

impl Pool {
    /// A group was sealed: the first one since the pool was opened calls for a checkpoint.
    pub(super) fn note_start(&mut self, seq: u64) {
        if self.commit.start == Start::Found {
            self.commit.start = Start::Anew(seq);
            self.is_checkpoint_wanted = true;
        }
    }

    /// A checkpoint with all groups up to this one is durable.
    pub(super) fn start_is_reached(&mut self, seq: u64) {
        if let Start::Anew(first) = self.commit.start
            && first <= seq
        {
            self.commit.start = Start::Reached;
            self.groups_flushed(seq);
        }
    }
}

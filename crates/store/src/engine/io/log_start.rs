//! Promises nothing after an opening until a checkpoint leads past the first group written since.
//!
//! A record may lie where the end of the log was found. It may be of a group that was being written
//! when the power failed, and that was cut off. Or it may be a record that a device did not show
//! this time. The opening marks the place (`open/end_mark.rs`). But a leaf may lose that write
//! silently. If the other leaves cannot be read later, the old record is still there. It has the
//! right number and predecessor. So an opening that follows the log from the old checkpoint would
//! be led into a past that was given up. All groups acknowledged since would be missed.
//!
//! So the first group after an opening calls for a checkpoint. Its root leads past that group, by a
//! checksum that only records written since can continue. The root is durable on enough leaves
//! before anything is promised. A pool that is opened and not changed writes nothing for this.

use super::log_end::Start;
use crate::engine::state::Pool;

impl Pool {
    /// Notes that a group was sealed: the first one since the pool was opened calls for a
    /// checkpoint.
    pub(in crate::engine) fn note_start(&mut self, seq: u64) {
        if self.commit.start == Start::Found {
            self.commit.start = Start::Anew(seq);
            self.want_checkpoint();
        }
    }

    /// Notes that a checkpoint with all groups up to `seq` is durable.
    pub(in crate::engine) fn start_is_reached(&mut self, seq: u64) {
        if let Start::Anew(first) = self.commit.start
            && first <= seq
        {
            self.commit.start = Start::Reached;
            self.groups_flushed(seq);
        }
    }
}

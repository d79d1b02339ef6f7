//! Tags of the array's operations: which answer belongs to which purpose.

use std::collections::HashMap;

use super::scan::targets::ScanBlock;
use crate::format::{Address, Pointer};
use crate::map::Missing;
use crate::map::hash::BuildNumberHasher;

/// Purpose of an operation of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Write of a group.
    Group(u64),
    /// Flush for all groups up to this one.
    Flush(u64),
    /// Write of copies of groups to a log vdev, or its flush.
    Copies(u16),
    CopiesFlush(u16),
    /// Read of a node.
    Node(Missing),
    /// Read of a volume's block.
    Block(Pointer),
    /// Read of a block for a stream, by the number of the pending request.
    Stored(u64),
    /// Read of a part of a dead list, for the checkpoint or for the scan.
    Chunk(Address),
    ScanChunk(u64),
    /// Block that a scan works off.
    Scan(ScanBlock),
    /// Write of the checkpoint being made.
    Checkpoint(u64),
    /// Flush before the checkpoint's root is written.
    CheckpointFlush,
    /// Write or flush of a root in a label of this leaf.
    Label(u32),
    /// Write or flush of the configuration in a label.
    Configuration,
    /// Read or write of an activity record on this leaf.
    Activity(u32),
    /// Trim of free space of a top-level vdev.
    Trim(u16),
}

/// Operations of the array that were not answered yet, each by its number.
#[derive(Debug, Default)]
pub(super) struct Tags {
    purposes: HashMap<u64, Tag, BuildNumberHasher>,
    /// Number that was given last. None is given twice.
    last: u64,
}

impl Tags {
    /// Gives a number to an operation of this purpose.
    pub(super) fn give(&mut self, what: Tag) -> u64 {
        self.give_numbered(|_| what)
    }

    /// Gives a number to an operation whose purpose bears it.
    pub(super) fn give_numbered(&mut self, what: impl FnOnce(u64) -> Tag) -> u64 {
        let number = self.give_untold();
        self.purposes.insert(number, what(number));
        number
    }

    /// Gives a number to an operation whose purpose the asker keeps.
    pub(super) fn give_untold(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns the number that was given last.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Takes the purpose of an operation that ended; `None` if the asker kept it.
    pub(super) fn take(&mut self, number: u64) -> Option<Tag> {
        self.purposes.remove(&number)
    }
}

//! Disks of a pool: its array of vdevs, what was asked of the array at which time, and the results.
//!
//! Steps ask with [`Disks::read`] and its like, each with a tag. A tag says what the answer belongs
//! to. The array's requests and results stay here until the pool takes them.

mod changes;

use pages::Pages;

use crate::engine::tags::{Tag, Tags};
use crate::format::Address;
use crate::vdev::{
    Array, ArrayDone, Block, DeviceOutcome, DeviceRequest, IoId, LeafId, Output, Priority,
    VdevEvent,
};

/// Array of vdevs, with its unanswered operations and its results.
#[derive(Debug)]
pub(in crate::engine) struct Disks {
    array: Array,
    out: Output,
    tags: Tags,
    /// Time of the last call, at which the array is asked.
    now_us: u64,
}

/// Time, tags and shape.
impl Disks {
    pub(in crate::engine) fn new(array: Array) -> Self {
        Self {
            array,
            out: Output::default(),
            tags: Tags::default(),
            now_us: 0,
        }
    }

    /// Returns the array to ask what it is. Only [`Disks`] changes it, or asks it to do anything.
    pub(in crate::engine) fn array(&self) -> &Array {
        &self.array
    }

    pub(in crate::engine) fn heed_time(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    pub(in crate::engine) fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Gives a tag to an operation of this purpose.
    pub(in crate::engine) fn tag(&mut self, what: Tag) -> u64 {
        self.tags.give(what)
    }

    /// Gives a tag to a write of the checkpoint, whose purpose bears the tag.
    pub(in crate::engine) fn tag_of_checkpoint(&mut self) -> u64 {
        self.tags.give_numbered(Tag::Checkpoint)
    }

    /// Gives a tag to an operation whose purpose the asker keeps.
    pub(in crate::engine) fn tag_untold(&mut self) -> u64 {
        self.tags.give_untold()
    }

    /// Returns the tag that was given last.
    pub(in crate::engine) fn last_tag(&self) -> u64 {
        self.tags.last()
    }

    /// Takes the purpose of an operation that ended; `None` if the asker kept it.
    pub(in crate::engine) fn take_tag(&mut self, tag: u64) -> Option<Tag> {
        self.tags.take(tag)
    }
}

/// Operations, each answered with its tag.
impl Disks {
    pub(in crate::engine) fn read(&mut self, tag: u64, block: Block, priority: Priority) {
        let (now, out) = (self.now_us, &mut self.out);
        self.array.read(tag, block, priority, now, out);
    }

    /// Verifies every copy and column of a block.
    pub(in crate::engine) fn scrub_block(&mut self, tag: u64, block: Block) {
        self.array
            .scrub_block(tag, block, self.now_us, &mut self.out);
    }

    /// Rebuilds a leaf's part of a block.
    pub(in crate::engine) fn rebuild_block(&mut self, tag: u64, block: Block, leaf: LeafId) {
        let (now, out) = (self.now_us, &mut self.out);
        self.array.rebuild_block(tag, block, leaf, now, out);
    }

    pub(in crate::engine) fn write(
        &mut self,
        tag: u64,
        blocks: Vec<(Address, Pages)>,
        priority: Priority,
    ) {
        let (now, out) = (self.now_us, &mut self.out);
        self.array.write(tag, blocks, priority, now, out);
    }

    /// Writes blocks. Returns whether the answer means that they outlive a power cut.
    pub(in crate::engine) fn write_durably(
        &mut self,
        tag: u64,
        blocks: Vec<(Address, Pages)>,
    ) -> bool {
        self.array
            .write_durably(tag, blocks, self.now_us, &mut self.out)
    }

    /// Flushes the vdevs for blocks.
    pub(in crate::engine) fn flush(&mut self, tag: u64) {
        self.array.flush(tag, self.now_us, &mut self.out);
    }

    pub(in crate::engine) fn flush_log(&mut self, tag: u64, vdev: u16) {
        self.array.flush_log(tag, vdev, self.now_us, &mut self.out);
    }

    pub(in crate::engine) fn read_leaf(&mut self, tag: u64, leaf: LeafId, at: u64, len: u32) {
        let (now, out) = (self.now_us, &mut self.out);
        self.array.read_leaf(tag, leaf, at, len, now, out);
    }

    pub(in crate::engine) fn write_leaf(&mut self, tag: u64, leaf: LeafId, at: u64, data: Pages) {
        let (now, out) = (self.now_us, &mut self.out);
        self.array.write_leaf(tag, leaf, at, data, now, out);
    }

    pub(in crate::engine) fn flush_leaf(&mut self, tag: u64, leaf: LeafId) {
        self.array.flush_leaf(tag, leaf, self.now_us, &mut self.out);
    }

    /// Tells the devices of free space, or one of them.
    pub(in crate::engine) fn trim(
        &mut self,
        tag: u64,
        range: (Address, u64),
        only: Option<LeafId>,
    ) {
        let (now, out) = (self.now_us, &mut self.out);
        self.array.trim(tag, range, only, now, out);
    }
}

/// Answers of devices, and results.
impl Disks {
    pub(in crate::engine) fn completed(&mut self, io: IoId, outcome: DeviceOutcome) {
        self.array
            .completed(io, outcome, self.now_us, &mut self.out);
    }

    /// Gives up requests that took too long.
    pub(in crate::engine) fn tick(&mut self) {
        self.array.tick(self.now_us, &mut self.out);
    }

    /// Returns the latest time at which [`Disks::tick`] must be called.
    pub(in crate::engine) fn deadline_us(&self) -> Option<u64> {
        self.array.deadline_us()
    }

    /// Takes the results of operations that ended.
    pub(in crate::engine) fn take_done(&mut self) -> Vec<(u64, ArrayDone)> {
        std::mem::take(&mut self.out.done)
    }

    /// Takes back memory that [`Disks::take_done`] gave out, to reuse it.
    pub(in crate::engine) fn reuse(&mut self, emptied: Vec<(u64, ArrayDone)>) {
        // New results may have come at once meanwhile.
        if self.out.done.is_empty() {
            self.out.done = emptied;
        }
    }

    pub(in crate::engine) fn has_done(&self) -> bool {
        !self.out.done.is_empty()
    }

    /// Moves the requests for the devices to `requests`.
    pub(in crate::engine) fn hand_out(&mut self, requests: &mut Vec<DeviceRequest>) {
        self.array.release(self.now_us, &mut self.out);
        requests.append(&mut self.out.requests);
    }

    /// Drops the requests that were not handed out.
    pub(in crate::engine) fn drop_requests(&mut self) {
        self.out.requests.clear();
    }

    /// Takes the events that nobody has looked at.
    pub(in crate::engine) fn take_events(&mut self) -> Vec<VdevEvent> {
        std::mem::take(&mut self.out.events)
    }

    /// Puts an event back for a later look.
    pub(in crate::engine) fn keep_event(&mut self, event: VdevEvent) {
        self.out.events.push(event);
    }

    /// Returns the number of events that nobody has looked at.
    pub(in crate::engine) fn events(&self) -> usize {
        self.out.events.len()
    }

    /// Takes the events after the first `before` ones.
    pub(in crate::engine) fn take_events_after(&mut self, before: usize) -> Vec<VdevEvent> {
        let events = &mut self.out.events;
        events.split_off(before.min(events.len()))
    }
}

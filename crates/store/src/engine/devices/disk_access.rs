//! Steps' way to the disks: what they may ask of the array, and what they may learn of it.

use std::sync::Arc;

use pages::Pages;

use crate::engine::state::Pool;
use crate::engine::tags::Tag;
use crate::format::{Address, Epoch, Pointer};
use crate::vdev::{
    ArrayDone, Block, DeviceOutcome, DeviceRequest, DirectReads, Dtl, IoId, LeafId, LeafSpec,
    LeafStatus, Priority, Resilver, ShapeError, SlotKind, TopLevelStatus, VdevEvent, VdevState,
    VdevTree,
};

/// Time.
impl Pool {
    /// Notes the time of a call.
    pub(in crate::engine) fn heed_time(&mut self, now_us: u64) {
        self.disks.heed_time(now_us);
    }

    /// Returns the time of the present call.
    pub(in crate::engine) fn now_us(&self) -> u64 {
        self.disks.now_us()
    }
}

/// Operations, each answered with its tag.
impl Pool {
    /// Gives a tag to an operation of the array.
    pub(in crate::engine) fn tag(&mut self, what: Tag) -> u64 {
        self.disks.tag(what)
    }

    /// Gives a tag to an operation of an opening or a check, which keeps the purpose.
    pub(in crate::engine) fn tag_untold(&mut self) -> u64 {
        self.disks.tag_untold()
    }

    /// Reads a block from the disks.
    pub(in crate::engine) fn fetch_block(&mut self, tag: u64, block: Block, priority: Priority) {
        self.disks.read(tag, block, priority);
    }

    /// Verifies every copy and column of a block.
    pub(in crate::engine) fn scrub_block(&mut self, tag: u64, block: Block) {
        self.disks.scrub_block(tag, block);
    }

    /// Rebuilds a leaf's part of a block.
    pub(in crate::engine) fn rebuild_block(&mut self, tag: u64, block: Block, leaf: LeafId) {
        self.disks.rebuild_block(tag, block, leaf);
    }

    pub(in crate::engine) fn write_blocks(
        &mut self,
        tag: u64,
        blocks: Vec<(Address, Pages)>,
        priority: Priority,
    ) {
        self.disks.write(tag, blocks, priority);
    }

    /// Writes blocks. Returns whether the answer means that they outlive a power cut.
    pub(in crate::engine) fn write_durably(
        &mut self,
        tag: u64,
        blocks: Vec<(Address, Pages)>,
    ) -> bool {
        self.disks.write_durably(tag, blocks)
    }

    /// Flushes the vdevs for blocks.
    pub(in crate::engine) fn flush_vdevs(&mut self, tag: u64) {
        self.disks.flush(tag);
    }

    /// Flushes a log vdev.
    pub(in crate::engine) fn flush_log_vdev(&mut self, tag: u64, vdev: u16) {
        self.disks.flush_log(tag, vdev);
    }

    pub(in crate::engine) fn read_leaf(&mut self, tag: u64, leaf: LeafId, at: u64, len: u32) {
        self.disks.read_leaf(tag, leaf, at, len);
    }

    pub(in crate::engine) fn write_leaf(&mut self, tag: u64, leaf: LeafId, at: u64, data: Pages) {
        self.disks.write_leaf(tag, leaf, at, data);
    }

    pub(in crate::engine) fn flush_leaf(&mut self, tag: u64, leaf: LeafId) {
        self.disks.flush_leaf(tag, leaf);
    }

    /// Tells the devices of free space, or one of them.
    pub(in crate::engine) fn trim_range(
        &mut self,
        tag: u64,
        range: (Address, u64),
        only: Option<LeafId>,
    ) {
        self.disks.trim(tag, range, only);
    }
}

/// Results, for an opening or a check, which runs the disks without the rest of the pool.
impl Pool {
    /// Takes the answer of a device.
    pub(in crate::engine) fn disk_completed(
        &mut self,
        io: IoId,
        outcome: DeviceOutcome,
        now_us: u64,
    ) {
        self.disks.heed_time(now_us);
        self.disks.completed(io, outcome);
    }

    /// Takes the time.
    pub(in crate::engine) fn tick_disks(&mut self, now_us: u64) {
        self.disks.heed_time(now_us);
        self.disks.tick();
    }

    /// Returns the latest time at which [`Pool::tick_disks`] must be called.
    pub(in crate::engine) fn disks_due_us(&self) -> Option<u64> {
        self.disks.deadline_us()
    }

    /// Takes the requests for the devices.
    pub(in crate::engine) fn take_disk_requests(&mut self) -> Vec<DeviceRequest> {
        let mut requests = Vec::new();
        self.disks.hand_out(&mut requests);
        requests
    }

    /// Takes the results of operations that ended.
    pub(in crate::engine) fn take_done(&mut self) -> Vec<(u64, ArrayDone)> {
        self.disks.take_done()
    }

    pub(in crate::engine) fn has_done(&self) -> bool {
        self.disks.has_done()
    }

    /// Takes the events of disks that nobody has looked at.
    pub(in crate::engine) fn take_disk_events(&mut self) -> Vec<VdevEvent> {
        self.disks.take_events()
    }

    /// Returns the number of events of disks that nobody has looked at.
    pub(in crate::engine) fn disk_events(&self) -> usize {
        self.disks.events()
    }

    /// Takes the events of disks after the first `before` ones.
    pub(in crate::engine) fn take_disk_events_after(&mut self, before: usize) -> Vec<VdevEvent> {
        self.disks.take_events_after(before)
    }

    /// Puts an event back for a later look.
    pub(in crate::engine) fn keep_disk_event(&mut self, event: VdevEvent) {
        self.disks.keep_event(event);
    }
}

/// Leaves.
impl Pool {
    pub(in crate::engine) fn leaf_statuses(&self) -> impl Iterator<Item = LeafStatus> {
        self.disks.array().leaves()
    }

    /// Returns the leaf of the array with this guid.
    pub(in crate::engine) fn array_leaf(&self, guid: u64) -> Option<LeafId> {
        self.disks.array().find(guid)
    }

    /// Returns the guid of a leaf of the array.
    pub(in crate::engine) fn array_guid(&self, leaf: LeafId) -> Option<u64> {
        self.disks.array().guid(leaf)
    }

    /// Returns the offset of a copy of a leaf's label; `None` if the leaf has no such copy.
    pub(in crate::engine) fn label_offset(&self, leaf: LeafId, copy: usize) -> Option<u64> {
        self.disks.array().label_offset(leaf, copy)
    }

    /// Returns the epochs whose blocks a leaf may lack.
    pub(in crate::engine) fn missing_of(&self, leaf: LeafId) -> Dtl {
        self.disks.array().missing(leaf).unwrap_or_default()
    }

    /// Reports whether a device has not answered all requests made while it was a leaf.
    pub(in crate::engine) fn is_unanswered(&self, guid: u64) -> bool {
        self.disks.array().is_unanswered(guid)
    }

    pub(in crate::engine) fn replace_leaf(
        &mut self,
        old: LeafId,
        new: &LeafSpec,
        kind: SlotKind,
    ) -> Result<LeafId, ShapeError> {
        self.disks.replace(old, new, kind)
    }

    /// Resets the error counts of a leaf.
    pub(in crate::engine) fn clear_leaf(&mut self, leaf: LeafId) -> Result<(), ShapeError> {
        self.disks.clear(leaf)
    }

    /// Stops using a leaf that may not be ours any more. Reports whether it stopped.
    pub(in crate::engine) fn stop_using(
        &mut self,
        leaf: LeafId,
        is_forced: bool,
        why: &str,
    ) -> bool {
        self.disks.give_up_leaf(leaf, is_forced, why)
    }

    /// Reports whether a leaf takes requests.
    pub(in crate::engine) fn is_usable(&self, leaf: LeafId) -> bool {
        self.disks.array().is_usable(leaf)
    }

    /// Returns the approximate sectors that a leaf has of the copies of a block.
    pub(in crate::engine) fn share_of(&self, leaf: LeafId, pointer: &Pointer) -> u64 {
        self.disks.array().share(leaf, pointer)
    }

    /// Notes that a leaf that is in use lacks the blocks of an epoch.
    pub(in crate::engine) fn note_lack(&mut self, leaf: LeafId, birth: Epoch) {
        self.disks.note_lack(leaf, birth..=birth);
    }

    /// Notes that the log was followed to its end, so leaves lack no blocks born later.
    pub(in crate::engine) fn end_missing(&mut self) {
        self.disks.end_missing();
    }

    /// Takes writes since this epoch for unflushed.
    pub(in crate::engine) fn assume_unflushed(&mut self, oldest: Epoch) {
        self.disks.assume_unflushed(oldest);
    }

    /// Adds to the data that a leaf is known to lack. Returns whether that is news.
    pub(in crate::engine) fn note_lacking(&mut self, leaf: LeafId, lacks: &Dtl) -> bool {
        self.disks.note_lacking(leaf, lacks)
    }

    /// Sets the end beyond which a leaf's device gets no requests.
    pub(in crate::engine) fn set_reach(&mut self, leaf: LeafId, bytes: u64) {
        self.disks.set_reach(leaf, bytes);
    }

    /// Returns the leaves that are there and miss data.
    pub(in crate::engine) fn incomplete_leaves(&self) -> Vec<Resilver> {
        let array = self.disks.array();
        let there = array.leaves().filter(|leaf| {
            leaf.is_incomplete && matches!(leaf.state, VdevState::Online | VdevState::Degraded)
        });
        there
            .filter_map(|leaf| array.start_resilver(leaf.leaf).ok())
            .filter(|resilver| !resilver.missing.is_empty())
            .collect()
    }

    /// Notes that a leaf has all that it lacked when the resilver began. Returns whether it lacks
    /// nothing more.
    pub(in crate::engine) fn finish_resilver(
        &mut self,
        resilver: &Resilver,
    ) -> Result<bool, ShapeError> {
        self.disks.finish_resilver(resilver)
    }

    /// Sets whether bad copies are rewritten that reads find.
    pub(in crate::engine) fn set_healing(&mut self, heals: bool) {
        self.disks.set_healing(heals);
    }
}

/// Top-level vdevs.
impl Pool {
    /// Returns the leaves of devices on which each top-level vdev's blocks lie whole
    /// ([`Array::whole_copies`](crate::vdev::Array::whole_copies)).
    pub fn whole_copies(&self) -> Vec<Vec<(LeafId, Arc<DirectReads>)>> {
        self.disks.array().whole_copies()
    }

    /// Returns the number of requests to devices that were given up. Each may have ended the use of
    /// a device, without an event.
    pub fn given_up(&self) -> u64 {
        self.disks.array().given_up()
    }

    /// Returns the top-level vdevs, with the states that the array knows.
    pub(in crate::engine) fn tops(&self) -> impl Iterator<Item = TopLevelStatus> {
        self.disks.array().top_levels()
    }

    pub(in crate::engine) fn vdev_tree(&self) -> VdevTree {
        self.disks.array().tree()
    }

    /// Returns the sectors of its vdev that a block takes, parity and padding included.
    pub(in crate::engine) fn footprint(&self, vdev: u16, sectors: u16) -> u32 {
        self.disks.array().footprint(vdev, sectors)
    }

    /// Returns the number of leaves that a vdev can lose.
    pub(in crate::engine) fn redundancy(&self, vdev: u16) -> usize {
        self.disks.array().redundancy(vdev)
    }

    /// Reports whether no earlier loss would make a flush fail.
    pub(in crate::engine) fn is_flushable(&self) -> bool {
        self.disks.array().is_flushable()
    }

    /// Reports whether a log vdev takes writes.
    pub(in crate::engine) fn takes_log(&self, vdev: u16) -> bool {
        self.disks.array().takes_log(vdev)
    }

    /// Returns the epoch in which a vdev began its present stay.
    pub(in crate::engine) fn joined(&self, vdev: u16) -> Epoch {
        self.disks.array().joined(vdev)
    }

    /// Returns the vdev that has a leaf's blocks, and the vdev's number of columns; `None` if the
    /// leaf is not for blocks.
    pub(in crate::engine) fn blocks_of(&self, leaf: LeafId) -> Option<(u16, u64)> {
        self.disks.array().blocks_of(leaf)
    }

    /// Returns the number of leaves whose sectors make up the space of a vdev.
    pub(in crate::engine) fn columns_of(&self, vdev: u16) -> u64 {
        self.disks.array().columns_of(vdev)
    }

    pub(in crate::engine) fn leaves_of(&self, vdev: u16) -> impl Iterator<Item = LeafId> {
        self.disks.array().leaves_of(vdev)
    }

    pub(in crate::engine) fn remove_log_vdev(&mut self, vdev: u16) -> Result<(), ShapeError> {
        self.disks.remove_log(vdev)
    }

    /// Stops using a log vdev that failed.
    pub(in crate::engine) fn give_up_log(&mut self, vdev: u16, why: &str) {
        self.disks.give_up_log(vdev, why);
    }
}

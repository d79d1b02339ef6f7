//! Ensures that one host at a time has a pool.
//!
//! If another host can reach a pool's disks, the labels say which host has the pool open. An opener
//! proves that no other host has it.
//!
//! | question | file |
//! |---|---|
//! | what does a record say | `../format/activity.rs` |
//! | how often is a record written, and what does it cost | `activity/pace.rs` |
//! | what does the host do that has the pool | `activity/owner.rs`, and here |
//! | what does a host do that wants the pool | `activity/takeover.rs` |
//!
//! # The owner's rules
//! 1. On every leaf in use, once in each *interval*, the owner reads one of the four records and
//!    then writes its own over it. If the owner did not expect the record that it reads, the record
//!    is another host's, and the pool stops.
//! 2. The write is handed to the device within one interval of the beginning of the read. If that
//!    is too late, the owner reads again.
//! 3. A leaf is the owner's from the moment when a good write of a record on it began, for as long
//!    as that record *promises*. If one of the two records before it promised less, the shortest
//!    promise counts. After that the leaf is given up like a leaf that does not answer. If the pool
//!    cannot do without the leaf, the pool stops. If no leaf is in use any more, the pool stops
//!    when the last records are too old. A new leaf counts from its first record on.
//! 4. A stopped pool hands out no request, acknowledges nothing and returns no data, not even from
//!    memory. The time is checked before any output leaves ([`Pool::hand_out`]). So a machine that
//!    was paused finds out before it acts.
//! 5. An opening does nothing until each leaf has a record of this opening.
//!
//! # The opener's rules
//! 1. The opener reads all records. If the newest record is of this machine's boot and
//!    installation, the opener takes over at once. The devices are locked against other processes
//!    of this machine. A pool that was closed in order needs no watch.
//! 2. Otherwise the opener watches for longer than the promise. If the record is of an earlier boot
//!    of this installation, it watches for two intervals. Any change shows that the owner lives,
//!    and ends the attempt before anything was written.
//! 3. The opener writes its claim over all records within one interval of the beginning of its last
//!    look. It then waits for `promise + 1/16 + interval + slack`, and looks again. A record of
//!    another host ends the attempt.
//! 4. The wait is short if the last owner closed in order, and either exported the pool or is of
//!    this installation. Then the claim is written within 250 ms of the last look, and waits for
//!    500 ms. If the claim took longer to write, it waits for the long time.
//!
//! # Why no other host has the pool when an opener wins
//! Say that the claim lies on all records at time `c`. The opener wins after
//! `c + promise + interval`. Suppose that an owner still counts on a leaf then. That owner began a
//! good write of a record there after `c + interval`. By rule 2, it began the read before that
//! write after `c`. There are two cases. If it read the claim, it stopped. If it read its own
//! record, that record was written after `c`, and the opener found it.
//!
//! The promise that the opener knows is that of a record which it saw. It may have missed two later
//! records, so the shortest promise of three records counts.
//!
//! Suppose that two openers with the short wait both win. On any record, one of them wrote after
//! the last look of the other. So this write came more than 500 ms after the start of the writer's
//! own last look. Then the writer would have had to wait for the long time. By the end of the long
//! time the other has seen the claim and stopped, or is out of date.
//!
//! Clocks may differ in rate by a sixteenth. They count while the machine sleeps, but a hypervisor
//! may stop a guest together with its clock: see `docs/operations.md`.
//!
//! Writes that were on their way before their host was paused may arrive later. Only the device can
//! keep late writes off. If the device can, the opener makes the device do so after its claim won,
//! and before it reads the labels that it relies on. If a device reports that it is reserved for
//! another host, the pool stops ([`Stop::Reserved`]).

pub(super) mod condition;
pub(super) mod owner;
mod pace;
pub(super) mod protection;
mod takeover;

use super::features::Feature;
use super::request::Event;
use super::state::Pool;
use super::tags::Tag;
use crate::format::SECTOR_SIZE;
use crate::format::activity::ACTIVITY_OFFSET;
use crate::vdev::{ArrayDone, Class, DeviceErrorKind, DeviceOutcome, LeafId};
use owner::Next;
use owner::Owner;

pub use pace::Pace;
pub use protection::{Protected, Protection, Seen, Stop};
pub use takeover::{Circumstances, Progress, RecordRequest, Refusal, Taken, Takeover, Waits};

impl Pool {
    /// Begins to say in the labels that this host has the pool. With `is_new`, no other host can
    /// know the pool.
    pub fn protect(&mut self, protection: Protection, is_new: bool, now_us: u64) {
        self.heed_time(now_us);
        self.activity = Some(Box::new(Owner::new(self.key(), protection, is_new)));
        self.is_unprotecting = false;
        self.note_protection();
        self.activity_go_on();
        self.hand_out();
    }

    /// Lets the labels say whether a program that writes to the pool must know activity records.
    pub(super) fn note_protection(&mut self) {
        let is_protected = self.activity.is_some() && !self.is_unprotecting;
        self.set_feature(Feature::Multihost, is_protected);
    }

    /// Begins to protect a pool that is being opened.
    pub(super) fn hold(&mut self, protection: Protection) {
        self.activity = Some(Box::new(Owner::new(self.key(), protection, false)));
        self.activity_go_on();
    }

    /// Ends the protection. The labels drop the feature, and the host leaves records which say that
    /// it let the pool go in order.
    pub fn unprotect(&mut self, now_us: u64) {
        self.heed_time(now_us);
        self.is_unprotecting = self.activity.is_some();
        self.note_protection();
        // Turns that are under way end first.
        self.close_activity();
        self.go_on();
    }

    /// Returns how the pool is protected; `None` if it is not.
    pub fn protected(&self) -> Option<Protected> {
        let owner = self.activity.as_ref()?;
        Some(Protected {
            pace: owner.pace(),
            records: owner.records,
        })
    }

    /// Returns the reason why the pool stopped; `None` if it did not.
    pub fn stopped(&self) -> Option<&Stop> {
        self.condition.stopped()
    }

    /// Returns the time until which this host surely owns the pool; without protection, for ever.
    pub fn owned_until_us(&self) -> u64 {
        match (self.stopped(), &self.activity) {
            (Some(_), _) => 0,
            (None, Some(owner)) => owner.until_us(),
            (None, None) => u64::MAX,
        }
    }

    /// Reports whether requests to devices may leave, since each leaf has a record of this opening.
    pub(super) fn is_held(&self) -> bool {
        self.activity.as_ref().is_none_or(|owner| owner.is_held())
    }

    /// Reports whether the records say that the pool was let go in order. Nothing is written any
    /// more then.
    pub(super) fn is_let_go(&self) -> bool {
        self.activity
            .as_ref()
            .is_some_and(|owner| owner.is_closed())
    }

    /// Reports whether records that let the pool go are still to be written, and are not being
    /// written yet.
    pub(super) fn is_to_be_let_go(&self) -> bool {
        let owner = self.activity.as_ref();
        owner.is_some_and(|owner| !owner.is_closing() && !owner.is_closed())
    }

    /// Writes the last records before a host lets a pool go, which say that it did so in order.
    pub(super) fn close_activity(&mut self) {
        let Some(owner) = &mut self.activity else {
            return;
        };
        for (leaf, copy, record) in owner.close() {
            let at = self.record_offset(leaf, copy);
            self.write_label(Tag::Activity(leaf.0), leaf, at, record);
        }
        if self.is_unprotecting && self.is_let_go() {
            self.is_unprotecting = false;
            self.activity = None;
        }
    }

    /// Returns the time at which activity records are due.
    pub(super) fn activity_due_us(&self) -> Option<u64> {
        let owner = self
            .activity
            .as_ref()
            .filter(|_| self.condition.stopped().is_none());
        owner.and_then(|owner| owner.deadline_us())
    }

    /// Begins the turns on leaves that are due.
    pub(super) fn activity_go_on(&mut self) {
        if (self.activity_due_us()).is_some_and(|due_us| self.now_us() < due_us) {
            return;
        }
        self.use_leaves();
        let now_us = self.now_us();
        let Some(owner) = self
            .activity
            .as_mut()
            .filter(|_| self.condition.stopped().is_none())
        else {
            return;
        };
        for (leaf, copy) in owner.begin_turns(now_us) {
            self.read_record(leaf, copy);
        }
        if self.is_unprotecting {
            self.close_activity();
        }
    }

    fn use_leaves(&mut self) {
        if self.activity.is_none() {
            return;
        }
        let (used, now_us) = (self.labelled_leaves(), self.now_us());
        if let Some(owner) = &mut self.activity {
            owner.use_leaves(&used, now_us);
        }
    }

    fn read_record(&mut self, leaf: LeafId, copy: usize) {
        let at = self.record_offset(leaf, copy);
        let tag = self.tag(Tag::Activity(leaf.0));
        let len = SECTOR_SIZE as u32;
        self.read_leaf(tag, leaf, at, len);
    }

    /// Returns the offset of a record; if there is no such label copy, an offset beyond every
    /// device.
    fn record_offset(&self, leaf: LeafId, copy: usize) -> u64 {
        let offset = self.label_offset(leaf, copy);
        offset.map_or(u64::MAX - u64::MAX % SECTOR_SIZE as u64, |at| {
            at + ACTIVITY_OFFSET as u64
        })
    }

    /// Takes the end of a record's read or write.
    pub(super) fn activity_done(&mut self, leaf: LeafId, done: ArrayDone) {
        let now_us = self.now_us();
        let Some(owner) = &mut self.activity else {
            return;
        };
        match done {
            ArrayDone::Written(result) => owner.wrote(leaf, result.is_ok(), now_us),
            ArrayDone::Read(result) => match owner.looked(leaf, result.as_ref().ok(), now_us) {
                Next::Nothing => {}
                Next::Read(copy) => self.read_record(leaf, copy),
                Next::Write(copy, record) => {
                    let at = self.record_offset(leaf, copy);
                    self.write_label(Tag::Activity(leaf.0), leaf, at, record);
                }
                Next::Lost(by) => self.stop(Stop::Other(by)),
            },
            done => debug_assert!(false, "a record was answered with {done:?}"),
        }
        let owner = self.activity.as_ref();
        if self.is_unprotecting || owner.is_some_and(|owner| owner.is_closing()) {
            self.close_activity();
        }
    }

    /// Reports whether this host still owns the pool at the time known. Leaves that it no longer
    /// owns are given up if the pool can do without them; if not, the pool stops.
    pub(super) fn is_owned(&mut self) -> bool {
        if self.now_us() < self.owned_until_us() {
            return true;
        }
        let Some(owner) = self
            .activity
            .as_ref()
            .filter(|_| self.condition.stopped().is_none())
        else {
            return false;
        };
        let expired = owner.expired(self.now_us());
        let silent = Stop::Silent(owner.silent_for_us(self.now_us()));
        let is_over = owner.is_over(&expired, self.now_us());
        if is_over || expired.iter().any(|leaf| !self.give_up_leaf(*leaf)) {
            self.stop(silent);
            return false;
        }
        self.use_leaves();
        true
    }

    /// Gives up a leaf if the pool can do without it. Returns whether it could.
    fn give_up_leaf(&mut self, leaf: LeafId) -> bool {
        let is_log = self.tops().any(|top| {
            let mut leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
            top.class == Class::Log && leaves.any(|of| of.leaf == leaf)
        });
        let reason = "no activity record could be written to the device for too long";
        self.stop_using(leaf, is_log, reason)
    }

    /// Stops the pool if a device reports that another host has reserved it. The device has not
    /// failed, so it is not given up.
    pub(super) fn heed_reservation(&mut self, outcome: &DeviceOutcome) {
        if let Err(error) = outcome
            && error.kind == DeviceErrorKind::Reserved
        {
            self.stop(Stop::Reserved(error.context.clone()));
        }
    }

    /// Stops the pool: another host has it, or may have it.
    pub(super) fn stop(&mut self, stop: Stop) {
        if self.condition.stopped().is_some() {
            return;
        }
        let reason = stop.reason();
        self.condition.stop(stop);
        self.tell(Event::Suspended { reason });
    }
}

//! One host at a time: a pool whose disks another host can reach says in its labels who has it open, and an opener proves
//! that nobody has.
//!
//! | question | file |
//! |---|---|
//! | what does a record say | `../format/activity.rs` |
//! | how often is one written, and what does that cost | `activity/pace.rs` |
//! | what does the host do that has the pool | `activity/owner.rs`, and here |
//! | what does a host do that wants it | `activity/takeover.rs` |
//!
//! # The owner's rules
//! 1. On every leaf in use, once in each *interval*, the owner reads one of the four records and then writes its own over
//!    it. A record that it did not expect is another host's: the pool stops.
//! 2. The write is handed to the device within one interval of the beginning of the read. Otherwise it reads again.
//! 3. A leaf is the owner's from the moment when a good write of a record on it began, for as long as that record
//!    *promises*; where the two before promised less, for that. Later the leaf is given up like one that does not
//!    answer. Where the pool cannot do without it, the pool stops. Where no leaf is in use any more, it stops when the
//!    last records are too old. A leaf that comes counts from its first record on.
//! 4. A pool that stopped hands out no request, acknowledges nothing and returns no data, also not from memory. The
//!    time is looked at before anything leaves ([`Pool::hand_out`]): a machine that was paused finds that out first.
//! 5. An opening does nothing before each leaf has a record of it.
//!
//! # The opener's rules
//! 1. It reads all records. One of this machine's boot and installation it takes over at once, since the devices are
//!    locked against others of this machine. One that was closed in order needs no watch.
//! 2. Otherwise it watches for longer than the promise; a record of this installation's earlier boot for two intervals.
//!    Any change shows that the owner lives, and ends the attempt before anything was written.
//! 3. It writes its claim over all records within one interval of the beginning of its last look, and waits for
//!    `promise + 1/16 + interval + slack`. Then it looks again: a record of another host ends the attempt.
//! 4. Where the last owner closed in order and either exported the pool or is of this installation, the claim is
//!    written within 250 ms of the last look, and waits for 500 ms. A claim that took longer waits for the long time.
//!
//! # Why nobody else is left when an opener wins
//! Say that the claim lies on all records at time `c`, and that the opener wins after `c + promise + interval`. Suppose
//! that an owner still counts on a leaf then. So it began a good write of a record there after `c + interval`. By rule 2
//! it began to read after `c`. It read the claim, and stopped; or its own record, written after `c`, which
//! the opener found. The promise that the opener knows is that of a record which it saw. It may have missed two later
//! ones, which is why the shortest of three counts. Of two openers with the short wait, suppose that both win. On any
//! record, one wrote after the last look of the other, and so more than 500 ms after its own last look began: then it
//! would have waited for the long time, at whose end the other has seen its claim and stopped, or was out of date.
//!
//! Clocks may differ in rate by a sixteenth. They count while the machine sleeps, but a hypervisor may stop a guest
//! together with its clock: see `docs/operations.md`. Writes that were on their way before their host was paused may arrive
//! later. Only the device can keep those off. Where it can, whoever opens the pool has it do so after its claim won and before
//! it reads the labels that it goes by. A device that says that it does so for another host stops the pool
//! ([`Stop::Reserved`]).

mod owner;
mod pace;
mod takeover;

use std::collections::BTreeMap;

use crate::format::Activity;
use crate::format::activity::ACTIVITY_OFFSET;
use crate::format::{SECTOR_SIZE, Who};
use crate::vdev::{ArrayDone, Class, DeviceErrorKind, DeviceOutcome, LeafId};

use super::features::Feature;
use super::request::Event;
use super::state::{Pool, Tag};
use owner::{COPIES, Next};

pub(super) use owner::Owner;
pub use pace::Pace;
pub use takeover::{Circumstances, Progress, RecordRequest, Refusal, Taken, Takeover, Waits};

/// What lies where a record belongs, when it was looked at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// It was not.
    #[default]
    Unknown,
    /// No record of the pool.
    Nothing,
    /// Another opening's: its number, and the record's.
    Other(u64, u64),
    /// This opening's.
    Own,
}

/// How an opening says that the pool is its own.
#[derive(Clone, Debug)]
pub struct Protection {
    /// The host.
    pub who: Who,
    /// The opening, a random number.
    pub opening: u64,
    /// Openings up to this one.
    pub turn: u64,
    /// Records that were written.
    pub sequence: u64,
    /// How often it says so.
    pub pace: Pace,
    /// By the leaf's guid, what lies in its four label copies.
    pub seen: BTreeMap<u64, [Seen; COPIES]>,
}

impl Protection {
    /// Of a pool that this host has open or makes, whatever lies in its labels.
    pub fn fresh(who: Who, opening: u64, pace: Pace) -> Self {
        Self {
            who,
            opening,
            turn: 1,
            sequence: 0,
            pace,
            seen: BTreeMap::new(),
        }
    }
}

/// Why a pool stopped that may be another host's by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No record could be written for as long as was promised; so long ago the last one was begun, in microseconds.
    Silent(u64),
    /// Another host's record was found.
    Other(Box<Activity>),
    /// A device is reserved for another host, and says so: what it was asked.
    Reserved(String),
}

impl Stop {
    fn reason(&self) -> String {
        match self {
            Self::Silent(us) => format!(
                "no activity record could be written for {}.{} s, so another host may have it by now",
                us / 1_000_000,
                us / 100_000 % 10
            ),
            Self::Other(by) => format!(
                "another host has it: {} wrote its activity record over this host's",
                by.who.host
            ),
            Self::Reserved(what) => {
                format!(
                    "another host has it: it has reserved a device of the pool for itself ({what})"
                )
            }
        }
    }

    /// Whether another host has shown itself, so that an administrator has to decide.
    pub fn is_anothers(&self) -> bool {
        !matches!(self, Self::Silent(_))
    }
}

/// How a pool is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Its pace.
    pub pace: Pace,
    /// Records written since it was opened.
    pub records: u64,
}

impl Pool {
    /// From now on this host says in the labels that it has the pool; `is_new`: nobody else can know the pool.
    pub fn protect(&mut self, protection: Protection, is_new: bool, now_us: u64) {
        self.now_us = now_us;
        self.activity = Some(Box::new(Owner::new(self.key, protection, is_new)));
        self.is_unprotecting = false;
        self.note_protection();
        self.activity_go_on();
        self.hand_out();
    }

    /// Lets the labels say whether whoever writes to the pool must know of activity records.
    pub(super) fn note_protection(&mut self) {
        let is_protected = self.activity.is_some() && !self.is_unprotecting;
        let features = &mut self.config.features;
        self.is_config_new |= match is_protected {
            true => features.activate(Feature::Multihost),
            false => features.deactivate(Feature::Multihost),
        };
    }

    /// The same of a pool that is being opened.
    pub(super) fn hold(&mut self, protection: Protection) {
        self.activity = Some(Box::new(Owner::new(self.key, protection, false)));
        self.activity_go_on();
    }

    /// This host does not say so any more. The labels forget it, and it leaves records that say that it let the pool go in order.
    pub fn unprotect(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.is_unprotecting = self.activity.is_some();
        self.note_protection();
        // Those that are due come first.
        self.close_activity();
        self.go_on();
    }

    /// How the pool is protected; `None`: it is not.
    pub fn protected(&self) -> Option<Protected> {
        let owner = self.activity.as_ref()?;
        Some(Protected {
            pace: owner.pace(),
            records: owner.records,
        })
    }

    /// Why it stopped; `None` where it did not.
    pub fn stopped(&self) -> Option<&Stop> {
        self.stopped.as_ref()
    }

    /// Until when this host may count on having the pool, as far as is known; without protection for ever.
    pub fn owned_until_us(&self) -> u64 {
        match (&self.stopped, &self.activity) {
            (Some(_), _) => 0,
            (None, Some(owner)) => owner.until_us(),
            (None, None) => u64::MAX,
        }
    }

    /// Whether all that is asked of devices may leave: each leaf has a record of this opening.
    pub(super) fn is_held(&self) -> bool {
        self.activity.as_ref().is_none_or(|owner| owner.is_held())
    }

    /// Whether the records say that the pool was let go in order: nothing is written any more.
    pub(super) fn is_let_go(&self) -> bool {
        self.activity
            .as_ref()
            .is_some_and(|owner| owner.is_closed())
    }

    /// Whether the records have to say so, and do not begin to.
    pub(super) fn is_to_be_let_go(&self) -> bool {
        let owner = self.activity.as_ref();
        owner.is_some_and(|owner| !owner.is_closing() && !owner.is_closed())
    }

    /// The last that is written before a host lets a pool go: that it did so in order.
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

    /// When something of that is due.
    pub(super) fn activity_due_us(&self) -> Option<u64> {
        let owner = self.activity.as_ref().filter(|_| self.stopped.is_none());
        owner.and_then(|owner| owner.deadline_us())
    }

    /// Says that the pool is this host's, where that is due.
    pub(super) fn activity_go_on(&mut self) {
        if (self.activity_due_us()).is_some_and(|due_us| self.now_us < due_us) {
            return;
        }
        self.use_leaves();
        let now_us = self.now_us;
        let Some(owner) = self.activity.as_mut().filter(|_| self.stopped.is_none()) else {
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
        let used = self.labelled_leaves();
        if let Some(owner) = &mut self.activity {
            owner.use_leaves(&used, self.now_us);
        }
    }

    fn read_record(&mut self, leaf: LeafId, copy: usize) {
        let at = self.record_offset(leaf, copy);
        let tag = self.tag(Tag::Activity(leaf.0));
        let (now, out) = (self.now_us, &mut self.array_output);
        let len = SECTOR_SIZE as u32;
        self.array.read_leaf(tag, leaf, at, len, now, out);
    }

    /// Where a record lies; beyond every device where there is no such label copy.
    fn record_offset(&self, leaf: LeafId, copy: usize) -> u64 {
        let offset = self.array.label_offset(leaf, copy);
        offset.map_or(u64::MAX - u64::MAX % SECTOR_SIZE as u64, |at| {
            at + ACTIVITY_OFFSET as u64
        })
    }

    /// A record was read or written.
    pub(super) fn activity_done(&mut self, leaf: LeafId, done: ArrayDone) {
        let now_us = self.now_us;
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

    /// Whether the pool is still this host's at the time that is known. Leaves that are not, and can be done without, are
    /// given up; else the pool stops.
    pub(super) fn is_owned(&mut self) -> bool {
        if self.now_us < self.owned_until_us() {
            return true;
        }
        let Some(owner) = self.activity.as_ref().filter(|_| self.stopped.is_none()) else {
            return false;
        };
        let expired = owner.expired(self.now_us);
        let silent = Stop::Silent(owner.silent_for_us(self.now_us));
        let is_over = owner.is_over(&expired, self.now_us);
        if is_over || expired.iter().any(|leaf| !self.give_up_leaf(*leaf)) {
            self.stop(silent);
            return false;
        }
        self.use_leaves();
        true
    }

    /// Uses a leaf no more, where the pool can do without it.
    fn give_up_leaf(&mut self, leaf: LeafId) -> bool {
        let is_log = self.array.top_levels().any(|top| {
            let mut leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
            top.class == Class::Log && leaves.any(|of| of.leaf == leaf)
        });
        let (now, out) = (self.now_us, &mut self.array_output);
        let reason = "no activity record could be written on it for too long";
        self.array.give_up_leaf(leaf, is_log, reason, now, out)
    }

    /// A device that says that another host has reserved it has not failed, and is not given up: the pool stops.
    pub(super) fn heed_reservation(&mut self, outcome: &DeviceOutcome) {
        if let Err(error) = outcome
            && error.kind == DeviceErrorKind::Reserved
        {
            self.stop(Stop::Reserved(error.context.clone()));
        }
    }

    /// Another host has the pool, or may have it.
    pub(super) fn stop(&mut self, stop: Stop) {
        if self.stopped.is_some() {
            return;
        }
        let reason = stop.reason();
        // In the place of whatever stopped the pool before: this is worse.
        self.suspended = Some(reason.clone());
        self.stopped = Some(stop);
        self.output.events.push(Event::Suspended { reason });
    }
}

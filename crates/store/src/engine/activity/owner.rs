//! Owner of a pool: decides which record it writes, where and when, and whether the pool is still
//! its own.
//!
//! The code here is pure; the pool carries out what it decides (`../activity.rs`).

use std::collections::BTreeMap;

use pages::Pages;

use super::pace::{Pace, Turns};
use super::protection::{COPIES, Protection, Seen};
use crate::format::{Activity, ActivityState, PoolKey, Who};
use crate::vdev::LeafId;

/// Number of last records, of which the shortest promise counts. An opener that looks and then
/// claims may miss all but the first of them.
const TOLD: usize = 3;

/// State of the host that has the pool.
#[derive(Debug)]
pub(in super::super) struct Owner {
    key: PoolKey,
    who: Who,
    opening: u64,
    turn: u64,
    sequence: u64,
    pace: Pace,
    seen: BTreeMap<u64, [Seen; COPIES]>,
    leaves: BTreeMap<LeafId, OnLeaf>,
    phase: Phase,
    /// Whether the pool is new, so that no other host can know its first leaves.
    is_new: bool,
    /// Time until which the pool is this host's, by the records on leaves. If no leaf is in use any
    /// more, the last records count.
    owned_us: u64,
    /// Earliest time at which a record is out of date.
    until_us: u64,
    /// Records that were written.
    pub(super) records: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing may be done, since not every leaf has a record of this opening yet.
    Beginning,
    Open,
    /// The last records are to be written; the number counts the writes under way.
    Closing(Option<usize>),
    Closed,
}

#[derive(Debug)]
struct OnLeaf {
    guid: u64,
    copy: usize,
    step: Step,
    next_us: u64,
    /// Time at which the last good record was begun; before the first one, the time at which the
    /// leaf came.
    since_us: u64,
    is_held: bool,
    told: [u64; TOLD],
    turns: Turns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    Reading {
        since_us: u64,
    },
    Writing {
        read_us: u64,
        since_us: u64,
        promise_us: u64,
    },
}

/// Action that follows from a look at a record.
#[derive(Debug)]
pub(super) enum Next {
    Nothing,
    /// Look again, since too much time has passed since the read began.
    Read(usize),
    Write(usize, Pages),
    /// Stop: another host has the pool.
    Lost(Box<Activity>),
}

impl OnLeaf {
    fn until_us(&self) -> u64 {
        let promise_us = self.told.into_iter().min().unwrap_or(0);
        self.since_us.saturating_add(promise_us)
    }

    /// Moves on to the next copy.
    fn rest(&mut self, next_us: u64) {
        (self.step, self.next_us) = (Step::Idle, next_us);
        self.copy = (self.copy + 1) % COPIES;
    }
}

impl Owner {
    /// Makes an owner. With `is_new`, no other host knows the pool, so it is held from the
    /// beginning.
    pub(super) fn new(key: PoolKey, protection: Protection, is_new: bool) -> Self {
        Self {
            key,
            who: protection.who,
            opening: protection.opening,
            turn: protection.turn,
            sequence: protection.sequence,
            pace: protection.pace,
            seen: protection.seen,
            leaves: BTreeMap::new(),
            phase: if is_new {
                Phase::Open
            } else {
                Phase::Beginning
            },
            is_new,
            owned_us: u64::MAX,
            until_us: u64::MAX,
            records: 0,
        }
    }

    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    /// Reports whether every leaf that was there at the beginning has a record of this opening.
    pub(super) fn is_held(&self) -> bool {
        self.phase != Phase::Beginning
    }

    pub(super) fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing(_))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Sets the leaves that the pool uses.
    pub(super) fn use_leaves(&mut self, used: &[(LeafId, u64)], now_us: u64) {
        let is_used = |leaf: &LeafId| used.iter().any(|(of, _)| of == leaf);
        self.leaves.retain(|leaf, _| is_used(leaf));
        let is_new = std::mem::take(&mut self.is_new);
        for (leaf, guid) in used {
            let told = [self.pace.promise_us; TOLD];
            self.leaves.entry(*leaf).or_insert_with(|| OnLeaf {
                guid: *guid,
                copy: 0,
                step: Step::Idle,
                next_us: now_us,
                since_us: now_us,
                is_held: is_new,
                told,
                turns: Turns::default(),
            });
        }
        if self.phase == Phase::Beginning && self.leaves.values().all(|on| on.is_held) {
            self.phase = Phase::Open;
        }
        self.count();
    }

    fn count(&mut self) {
        self.until_us = match self.phase {
            // Nothing is done yet, or nothing is done any more.
            Phase::Beginning | Phase::Closed => u64::MAX,
            Phase::Open | Phase::Closing(_) => {
                let held = self.leaves.values().filter(|on| on.is_held);
                let held_us = held.map(OnLeaf::until_us).min();
                self.owned_us = held_us.unwrap_or(self.owned_us);
                let all = self.leaves.values().map(OnLeaf::until_us);
                all.chain([self.owned_us]).min().unwrap_or(u64::MAX)
            }
        };
    }

    /// Returns the time until which this host surely owns the pool.
    pub(super) fn until_us(&self) -> u64 {
        self.until_us
    }

    /// Returns the leaves on which the last record is too old.
    pub(super) fn expired(&self, now_us: u64) -> Vec<LeafId> {
        let leaves = self.leaves.iter();
        let expired = leaves.filter(|(_, on)| now_us >= on.until_us());
        expired.map(|(leaf, _)| *leaf).collect()
    }

    /// Returns the age of the oldest of the leaves' last records.
    pub(super) fn silent_for_us(&self, now_us: u64) -> u64 {
        let since = self.leaves.values().map(|on| on.since_us).min();
        now_us.saturating_sub(since.unwrap_or(now_us))
    }

    /// Reports whether this host owns no leaf any more, given the leaves whose records are too old.
    pub(super) fn is_over(&self, expired: &[LeafId], now_us: u64) -> bool {
        let mut held = self.leaves.iter().filter(|(_, on)| on.is_held).peekable();
        match held.peek() {
            Some(_) => held.all(|(leaf, _)| expired.contains(leaf)),
            None => now_us >= self.owned_us,
        }
    }

    /// Returns the time at which something is due.
    pub(super) fn deadline_us(&self) -> Option<u64> {
        if !matches!(self.phase, Phase::Beginning | Phase::Open) {
            return (self.until_us < u64::MAX).then_some(self.until_us);
        }
        let idle = self.leaves.values().filter(|on| on.step == Step::Idle);
        let next = idle.map(|on| on.next_us).min();
        next.into_iter()
            .chain((self.until_us < u64::MAX).then_some(self.until_us))
            .min()
    }

    /// Begins the turns that are due; returns the leaves and copies to read.
    pub(super) fn begin_turns(&mut self, now_us: u64) -> Vec<(LeafId, usize)> {
        if !matches!(self.phase, Phase::Beginning | Phase::Open) {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (leaf, on) in &mut self.leaves {
            if on.step == Step::Idle && on.next_us <= now_us {
                on.step = Step::Reading { since_us: now_us };
                due.push((*leaf, on.copy));
            }
        }
        due
    }

    /// Takes a record that was read; `None` if it could not be.
    pub(super) fn looked(&mut self, leaf: LeafId, sector: Option<&Pages>, now_us: u64) -> Next {
        let found = sector.and_then(|sector| Activity::decode(sector, self.key));
        let Some(on) = self.leaves.get_mut(&leaf) else {
            return Next::Nothing;
        };
        let Step::Reading { since_us } = on.step else {
            return Next::Nothing;
        };
        if let Some(found) = found.filter(|found| found.opening != self.opening) {
            let seen = &mut self.seen.entry(on.guid).or_default()[on.copy];
            let it = Seen::Other(found.opening, found.sequence);
            // A host that came after this opening's first record has a later turn. Its record is
            // unexpected unless it is closed.
            let is_later = self.records > 0 && found.turn > self.turn;
            match *seen {
                Seen::Unknown if !is_later || found.state == ActivityState::Closed => {
                    *seen = it;
                    self.turn = self.turn.max(found.turn + 1);
                }
                seen if seen == it => {}
                _ => return Next::Lost(Box::new(found)),
            }
        }
        let is_open = matches!(self.phase, Phase::Beginning | Phase::Open);
        if sector.is_none() || !is_open {
            on.rest(now_us + self.pace.interval_us / 4);
            return Next::Nothing;
        }
        // Another host may have written a record since.
        if now_us > since_us.saturating_add(self.pace.interval_us) {
            on.step = Step::Reading { since_us: now_us };
            return Next::Read(on.copy);
        }
        on.step = Step::Writing {
            read_us: since_us,
            since_us: now_us,
            promise_us: self.pace.promise_us,
        };
        let copy = on.copy;
        Next::Write(copy, self.record(ActivityState::Open))
    }

    fn record(&mut self, state: ActivityState) -> Pages {
        self.sequence += 1;
        let record = Activity {
            state,
            who: self.who.clone(),
            opening: self.opening,
            turn: self.turn,
            sequence: self.sequence,
            interval_us: self.pace.interval_us,
            promise_us: self.pace.promise_us,
        };
        record.encode(self.key)
    }

    /// Takes the end of a record's write.
    pub(super) fn wrote(&mut self, leaf: LeafId, is_good: bool, now_us: u64) {
        if let Phase::Closing(Some(left)) = &mut self.phase {
            *left -= 1;
            if *left == 0 {
                self.phase = Phase::Closed;
                self.count();
            }
            return;
        }
        let interval_us = self.pace.interval_us;
        let is_first = |on: &OnLeaf| on.turns.is_none();
        let (number, count) = (
            self.leaves.range(..leaf).count() as u64,
            self.leaves.len() as u64,
        );
        let Some(on) = self.leaves.get_mut(&leaf) else {
            return;
        };
        let Step::Writing {
            read_us,
            since_us,
            promise_us,
        } = on.step
        else {
            return;
        };
        if !is_good {
            return on.rest(now_us + interval_us / 4);
        }
        self.records += 1;
        self.seen.entry(on.guid).or_default()[on.copy] = Seen::Own;
        // The leaves' first turns are spread over an interval.
        let phase_us = if is_first(on) {
            interval_us * (number + 1) / count.max(1)
        } else {
            interval_us
        };
        on.turns.note(now_us - read_us);
        on.told.rotate_left(1);
        on.told[TOLD - 1] = promise_us;
        (on.since_us, on.is_held) = (since_us, true);
        on.rest(since_us + phase_us);
        self.pace.adapt(self.leaves.values().map(|on| &on.turns));
        if self.phase == Phase::Beginning && self.leaves.values().all(|on| on.is_held) {
            self.phase = Phase::Open;
        }
        self.count();
    }

    /// Closes in order, as soon as no turn is under way; returns the records to write then.
    pub(super) fn close(&mut self) -> Vec<(LeafId, usize, Pages)> {
        if matches!(self.phase, Phase::Open | Phase::Beginning) {
            self.phase = Phase::Closing(None);
        }
        let is_idle = self.leaves.values().all(|on| on.step == Step::Idle);
        if self.phase != Phase::Closing(None) || !is_idle {
            return Vec::new();
        }
        let record = self.record(ActivityState::Closed);
        let leaves = self.leaves.keys();
        let all: Vec<(LeafId, usize, Pages)> = leaves
            .flat_map(|leaf| (0..COPIES).map(|copy| (*leaf, copy, record.clone())))
            .collect();
        self.phase = match all.len() {
            0 => Phase::Closed,
            count => Phase::Closing(Some(count)),
        };
        self.count();
        all
    }
}

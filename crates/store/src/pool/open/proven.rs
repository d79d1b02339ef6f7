//! Groups of the log that are known to have been durable are brought onto all their leaves, like
//! those that are not known to have been.
//!
//! A leaf may have the newest root and yet be a copy of a moment before the last groups: nothing in
//! its labels tells. What it lacks was acknowledged, and lies on the other leaves. If it counted as
//! it is, and these were put aside, that would be lost without a word. So every copy of these
//! groups is read here, and what is not there is written, before the pool is open. That is at most
//! what was written since the last checkpoint, and nothing where the pool was closed in order.
//!
//! No group is given up for this: one that was durable counts, whatever a leaf has of it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::request::Event;
use super::{Block, Opening, Wanted};
use crate::log::replay::{self, Found};
use crate::vdev::{LeafId, VdevEvent};

/// What was found of groups that were durable.
#[derive(Debug, Default)]
pub(super) struct Proven {
    /// The number of the group that was looked at last.
    seq: Option<u64>,
    is_under_way: bool,
    /// Events of the array before it.
    before: usize,
    /// A leaf lacked something of it.
    pub(super) is_lacking: bool,
    /// Blocks and records that were written to leaves that lacked them.
    written: BTreeMap<LeafId, u64>,
}

impl Opening {
    /// Asks for all copies of a group; `false`: that is done, or there is nothing to compare.
    pub(super) fn begin_proof(&mut self, found: &Found) -> bool {
        // Behind a root that is not the newest, something else may lie there by now.
        let seq = Some(found.record.seq);
        if self.rewind.is_some() || self.proven.seq == seq {
            return false;
        }
        let tops = self.pool.array.top_levels();
        let tops: Vec<bool> = tops
            .map(|top| {
                top.slots
                    .iter()
                    .map(|slot| slot.leaves.len())
                    .sum::<usize>()
                    > 1
            })
            .collect();
        if !tops.contains(&true) {
            return false;
        }
        let blocks = replay::blocks(&found.record).map(|pointer| Block::verified(&pointer));
        let all = std::iter::once(self.record_of(found)).chain(blocks);
        let all: Vec<Block> = all
            .filter(|block| {
                let mut places = std::iter::once(block.address).chain(block.second);
                places.any(|place| tops[usize::from(place.vdev())])
            })
            .collect();
        (self.proven.seq, self.proven.is_lacking) = (seq, false);
        self.proven.is_under_way = !all.is_empty();
        self.proven.before = self.pool.array_output.events.len();
        for block in all {
            let tag = self.note_tag(Wanted::Proof);
            let pool = &mut self.pool;
            let (now, out) = (pool.now_us, &mut pool.array_output);
            pool.array.scrub_block(tag, block, now, out);
        }
        self.proven.is_under_way
    }

    /// Takes what all copies of a group were found to be; whether any were asked for.
    pub(super) fn end_proof(&mut self) -> bool {
        if !std::mem::take(&mut self.proven.is_under_way) {
            return false;
        }
        self.got.remove(&Wanted::Proof);
        let events = &mut self.pool.array_output.events;
        let own = events.split_off(self.proven.before.min(events.len()));
        let bad: BTreeSet<(LeafId, u64)> = (own.iter())
            .filter_map(|event| match event {
                VdevEvent::ChecksumError { leaf, offset, .. } => Some((*leaf, *offset)),
                _ => None,
            })
            .collect();
        for event in own {
            match &event {
                VdevEvent::Repaired { leaf, .. } => {
                    *self.proven.written.entry(*leaf).or_default() += 1;
                    self.proven.is_lacking = true;
                }
                // One that could only not be read now may have it.
                VdevEvent::Unrepaired { leaf, offset, .. } if !bad.contains(&(*leaf, *offset)) => {
                    continue;
                }
                _ => {}
            }
            self.pool.array_output.events.push(event);
        }
        true
    }

    /// Tells of leaves that are behind, of those that have caught up, and of devices that shrank.
    pub(super) fn tell_old_copies(&mut self) {
        let pool = &mut self.pool;
        let behind = pool.behind.values().cloned();
        let behind = behind.map(|behind| Event::Behind { behind });
        let written = std::mem::take(&mut self.proven.written).into_iter();
        let caught_up = written.map(|(leaf, blocks)| Event::CaughtUp { leaf, blocks });
        let short = pool
            .short
            .iter()
            .map(|short| Event::Short { short: *short });
        let lost = self.is_lone.then_some(Event::LabelsLost);
        let events: Vec<Event> = lost
            .into_iter()
            .chain(behind)
            .chain(short)
            .chain(caught_up)
            .collect();
        pool.output.events.extend(events);
    }
}

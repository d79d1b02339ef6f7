//! Brings groups of the log that are known to be durable onto all their leaves, like groups that
//! are not known to be.
//!
//! A leaf may have the newest root and still be a copy of a moment before the last groups; nothing
//! in its labels tells. The groups that it lacks were acknowledged, and lie on the other leaves. If
//! the leaf counted as it is, and the others were taken offline, these groups would be lost
//! silently. So every copy of these groups is read here, and missing ones are written, before the
//! pool is open. At most this covers the groups since the last checkpoint, and none if the pool was
//! closed in order.
//!
//! No group is given up for this: a durable group counts, whatever a leaf has of it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::request::Event;
use super::{Block, Opening, Wanted};
use crate::log::replay::{self, FoundGroup};
use crate::vdev::{LeafId, VdevEvent};

/// Progress through the groups that were durable.
#[derive(Debug, Default)]
pub(super) struct Proven {
    /// Number of the group that was looked at last.
    seq: Option<u64>,
    is_under_way: bool,
    /// Events of the array before that group.
    before: usize,
    /// Whether a leaf lacked a part of the group.
    pub(super) is_lacking: bool,
    /// Blocks and records that were written to leaves that lacked them.
    written: BTreeMap<LeafId, u64>,
}

impl Opening {
    /// Asks for all copies of a group. Returns `false` if that is done, or there is nothing to
    /// compare.
    pub(super) fn begin_proof(&mut self, found: &FoundGroup) -> bool {
        // After a root that is not the newest, other data may lie there by now.
        let seq = Some(found.record.seq);
        if self.rewind.is_some() || self.proven.seq == seq {
            return false;
        }
        let tops = self.pool.tops();
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
        self.proven.before = self.pool.disk_events();
        for block in all {
            let tag = self.note_tag(Wanted::Proof);
            self.pool.scrub_block(tag, block);
        }
        self.proven.is_under_way
    }

    /// Takes the state of all copies of a group. Returns whether any were asked for.
    pub(super) fn end_proof(&mut self) -> bool {
        if !std::mem::take(&mut self.proven.is_under_way) {
            return false;
        }
        self.got.remove(&Wanted::Proof);
        let own = self.pool.take_disk_events_after(self.proven.before);
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
                // A leaf may have the data if the data only could not be read now.
                VdevEvent::Unrepaired { leaf, offset, .. } if !bad.contains(&(*leaf, *offset)) => {
                    continue;
                }
                _ => {}
            }
            self.pool.keep_disk_event(event);
        }
        true
    }

    /// Reports leaves that are behind, leaves that have caught up, and devices that shrank.
    pub(super) fn tell_old_copies(&mut self) {
        let pool = &mut self.pool;
        let behind = pool.old_devices.behind().cloned();
        let behind = behind.map(|behind| Event::Behind { behind });
        let written = std::mem::take(&mut self.proven.written).into_iter();
        let caught_up = written.map(|(leaf, blocks)| Event::CaughtUp { leaf, blocks });
        let short = (pool.old_devices.short().iter()).map(|short| Event::Short { short: *short });
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

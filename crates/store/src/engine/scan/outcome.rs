//! Handles the results of a scan's blocks, and its end.
//!
//! Unreadable data is reported. Rebuilt data counts when it is durable, for each leaf by itself: a
//! leaf that did not get all that it misses stays incomplete.

use std::collections::BTreeSet;

use super::targets::Place;
use super::under_way::{Short, keep_worst};
use super::{ScanBlock, ScanKind, ScanState};
use crate::engine::state::Pool;
use crate::vdev::{ArrayDone, ArrayError, ArrayErrorKind, Class, LeafId, Resilver, Scrubbed};

impl Pool {
    /// Notes that a node or list cannot be read, so that no leaf gets the blocks below it.
    pub(super) fn lose_all(&mut self, place: Option<Place>) {
        let tops = self.tops().filter(|top| top.class == Class::Log);
        let slots = tops.flat_map(|top| top.slots);
        let of_logs: Vec<LeafId> = slots
            .flat_map(|slot| slot.leaves)
            .map(|leaf| leaf.leaf)
            .collect();
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        scan.batch_lost.push(place);
        // Log vdevs hold nothing that trees lead to.
        for of in scan.leaves.iter().filter(|of| !of_logs.contains(&of.leaf)) {
            keep_worst(&mut scan.batch_short, of.leaf, Short::Lost);
        }
    }

    /// Takes the result of a block.
    pub(in crate::engine) fn scanned(&mut self, block: &ScanBlock, done: ArrayDone) {
        let (number, checkpoints) = (block.number, self.checkpoints_made());
        let Some(scan) = self
            .scans
            .present
            .as_mut()
            .filter(|scan| scan.number == number)
        else {
            return;
        };
        scan.in_flight = scan.in_flight.saturating_sub(block.sectors);
        let result: Result<Scrubbed, ArrayError> = match done {
            ArrayDone::Scrubbed(result) => result,
            ArrayDone::Rebuilt(result) => result.map(|()| Scrubbed {
                bad: 0,
                repaired: 1,
            }),
            _ => return,
        };
        match result {
            Ok(scrubbed) => {
                scan.status.bad += u64::from(scrubbed.bad);
                scan.status.repaired += u64::from(scrubbed.repaired);
                if scan.status.kind == ScanKind::Scrub {
                    scan.note_verified(block);
                }
            }
            // The block may be free by now; if not, it is gathered and examined again.
            Err(_) if checkpoints > block.gathered + 1 => {}
            Err(error) => {
                let short = match error.kind {
                    ArrayErrorKind::NotRebuilt => Short::Refused,
                    _ => Short::Lost,
                };
                if short == Short::Lost {
                    scan.batch_lost.push(block.place);
                }
                if let Some(leaf) = block.leaf {
                    keep_worst(&mut scan.batch_short, leaf, short);
                }
            }
        }
    }

    /// Counts the blocks of the batch that could not be read or written, and reports which bytes
    /// cannot be read.
    pub(super) fn tell_lost(&mut self) {
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        let lost = std::mem::take(&mut scan.batch_lost);
        for (leaf, short) in std::mem::take(&mut scan.batch_short) {
            keep_worst(&mut scan.short, leaf, short);
        }
        let blocks = lost.iter().map(|place| self.blocks_lost_with(*place));
        let blocks: u64 = blocks.sum();
        if let Some(scan) = &mut self.scans.present {
            scan.status.unrecoverable += blocks;
        }
        for place in lost.into_iter().flatten() {
            self.tell_lost_blocks(place.dataset, Some(place.blocks()));
        }
    }

    /// Counts the blocks that cannot be read with this one. For a node: all blocks that it may lead
    /// to, up to its volume's end.
    fn blocks_lost_with(&self, place: Option<Place>) -> u64 {
        let of = place.and_then(|place| Some((place, self.contents_of(place.dataset)?)));
        let Some((place, of)) = of else {
            return 1;
        };
        let end = of.size.div_ceil(of.block_size.into());
        let blocks = place.blocks();
        blocks.end.min(end).saturating_sub(blocks.start).max(1)
    }

    /// Ends the scan when all blocks were worked off. Rebuilt data counts when a checkpoint has
    /// flushed it.
    pub(super) fn end_scan(&mut self) {
        let next = self.next_checkpoint();
        let time_s = self.time_s();
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        if scan.status.kind == ScanKind::Scrub {
            scan.status.state = ScanState::Finished;
            scan.status.ended_s = time_s;
            if scan.status.unrecoverable == 0 {
                // Data that could not be rebuilt before can be now, or is gone.
                self.scans.unrebuilt.clear();
            }
            // The checkpoint will record the new state.
            self.want_checkpoint();
        } else if scan.ends_with.is_none() {
            scan.ends_with = Some(next);
            self.want_checkpoint();
        }
    }

    /// Ends a resilver whose blocks are durable.
    pub(super) fn complete_resilver(&mut self) {
        let time_s = self.time_s();
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        scan.ends_with = None;
        let is_refused = scan.short.values().any(|short| *short == Short::Refused);
        scan.status.state = match is_refused || scan.has_left {
            true => ScanState::Canceled,
            false => ScanState::Finished,
        };
        scan.status.ended_s = time_s;
        let short = std::mem::take(&mut scan.short);
        let is_short = |resilver: &Resilver| short.contains_key(&resilver.leaf);
        let (left, rebuilt): (Vec<Resilver>, Vec<Resilver>) = std::mem::take(&mut scan.leaves)
            .into_iter()
            .partition(is_short);
        self.scans.unrebuilt = match scan.is_to_be_repeated {
            true => BTreeSet::new(),
            false => left.into_iter().map(|resilver| resilver.leaf).collect(),
        };
        // The checkpoint will record the new state, and which leaves are whole.
        self.want_checkpoint();
        for resilver in rebuilt {
            let ended = self.finish_resilver(&resilver);
            // If the leaf has missed more, there is another resilver.
            if ended == Ok(true) {
                self.is_current(resilver.leaf);
            }
        }
        self.config_changed();
    }

    /// Lets a resilver try again, since something has changed: data that could not be rebuilt
    /// before may be now.
    pub(in crate::engine) fn rebuild_again(&mut self) {
        self.scans.unrebuilt.clear();
        if let Some(scan) = &mut self.scans.present {
            scan.is_to_be_repeated = true;
        }
    }

    /// Continues without a leaf that is not used any more. Data rebuilt on it is not waited for:
    /// when the leaf is back, it is rebuilt anew.
    pub(in crate::engine) fn scan_without(&mut self, leaf: LeafId) {
        if self.scans.present.is_none() {
            return;
        }
        let is_detached = !self.leaf_statuses().any(|status| status.leaf == leaf);
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        let before = scan.leaves.len();
        scan.leaves.retain(|of| of.leaf != leaf);
        scan.has_left |= scan.leaves.len() < before && !is_detached;
        let is_vain = scan.leaves.is_empty() && before > 0;
        if !is_vain || !scan.is_active() {
            return;
        }
        self.tell_lost();
        let time_s = self.time_s();
        if let Some(scan) = &mut self.scans.present {
            (scan.ends_with, scan.is_gathering) = (None, false);
            scan.batch.clear();
            scan.status.state = ScanState::Canceled;
            scan.status.ended_s = time_s;
        }
        // The checkpoint will record the new state.
        self.want_checkpoint();
    }
}

//! Copies of groups on log vdevs: groups that were promised there and had not reached the chain
//! when the power failed.
//!
//! The part of log vdevs that is used for copies is read once, leaf by leaf, and copies newer than
//! the checkpoint are noted. A copy is used if the chain has no record there, or the group in the
//! chain lacks blocks. The copy must fit by its number, and by the checksum of the record before.
//! The copy's record and blocks are then written into the chain, as if the power had failed later.
//! A copy also proves how far the log was durable. If it proves more than can be found, the log is
//! damaged.
//!
//! At the end unused copies are wiped. Their groups were never promised, and must not be taken for
//! the groups that come in their places.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pages::Pages;

use super::{Block, OpenError, OpenErrorKind, Opening, OpeningStage, Wanted};
use crate::format::{Address, Epoch, Pointer, Record, SECTOR_SIZE};
use crate::log::replay::{self, Damage, FoundGroup};
use crate::log::ring::MOST_SECTORS;
use crate::vdev::{Class, LeafId, Priority, VdevState, Verify, layout};

/// Sectors that are read at once; the next constant counts the reads.
const CHUNK: u64 = 256;
const CHUNKS_AT_ONCE: usize = 16;

/// Copies that were found.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Copies by the number of their groups.
    found: BTreeMap<u64, Vec<Copy>>,
    /// Leaves that are still to be read.
    leaves: VecDeque<Scan>,
    /// Sectors that could not be read, with the number of failed leaves among those that have all
    /// copies.
    unread: BTreeMap<(u16, u64), usize>,
    /// Number of leaves of each vdev that have all copies.
    whole: BTreeMap<u16, usize>,
    /// Groups that the chain does not have, with their copies.
    pub(super) used: BTreeMap<u64, Copy>,
    /// Group whose blocks are read from its copy.
    restoring: Option<FoundGroup>,
}

/// Copy of a group on a log vdev.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    address: Address,
    previous: u128,
    /// Checksum of the group's record as it is in the chain.
    checksum: u128,
    /// Last group that was durable when the copy was written.
    proven_seq: u64,
    was_tried: bool,
}

#[derive(Debug)]
struct Scan {
    leaf: LeafId,
    /// Whether the leaf has all copies that are newer than the checkpoint.
    is_whole: bool,
    vdev: u16,
    next: u64,
    end: u64,
    /// Single sectors to read, since they could not be read together.
    single: Vec<u64>,
}

impl Copies {
    /// Chooses a copy of a group that fits and was not tried. The copy counts as the group's from
    /// now on.
    fn choose(&mut self, seq: u64, fits: impl Fn(&Copy) -> bool) -> Option<Copy> {
        let mut copies = self.found.get_mut(&seq)?.iter_mut();
        let copy = copies.find(|copy| !copy.was_tried && fits(copy))?;
        copy.was_tried = true;
        self.used.insert(seq, *copy);
        Some(*copy)
    }
}

impl Opening {
    /// Begins to read the log vdevs.
    pub(super) fn begin_copies(&mut self) -> Result<(), OpenError> {
        self.stage = OpeningStage::Copies;
        self.got.clear();
        let tops = self.pool.tops();
        for top in tops.filter(|top| top.class == Class::Log) {
            let end = top.sectors.min(MOST_SECTORS);
            let leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
            for leaf in leaves.filter(|leaf| leaf.state == VdevState::Online) {
                let missing = self.pool.missing_of(leaf.leaf);
                let last = missing.ranges().last();
                // Copies that one leaf lacks may be only on the others, which may be unreadable.
                let is_whole = last.is_none_or(|(_, last)| *last <= self.root.epoch);
                *self.copies.whole.entry(top.vdev).or_default() += usize::from(is_whole);
                self.copies.leaves.push_back(Scan {
                    leaf: leaf.leaf,
                    is_whole,
                    vdev: top.vdev,
                    next: 0,
                    end,
                    single: Vec::new(),
                });
            }
        }
        self.read_copies()
    }

    /// Asks for the next part, or continues to the chain.
    fn read_copies(&mut self) -> Result<(), OpenError> {
        for _ in 0..CHUNKS_AT_ONCE {
            let Some(scan) = self.copies.leaves.front_mut() else {
                break;
            };
            let (leaf, vdev) = (scan.leaf, scan.vdev);
            let part = match scan.single.pop() {
                Some(sector) => Some((sector, 1)),
                None if scan.next < scan.end => {
                    let sector = scan.next;
                    scan.next = scan.end.min(sector + CHUNK);
                    Some((sector, scan.next - sector))
                }
                None => None,
            };
            let Some((sector, count)) = part else {
                // Reads under way may still ask for single sectors.
                if self.reading.is_empty() {
                    self.copies.leaves.pop_front();
                    continue;
                }
                break;
            };
            let tag = self.note_tag(Wanted::Copies {
                leaf,
                vdev,
                sector,
                count,
            });
            let offset = layout::sector_offset(sector);
            let len = (count * SECTOR_SIZE as u64) as u32;
            self.pool.read_leaf(tag, leaf, offset, len);
        }
        if !self.reading.is_empty() || !self.copies.leaves.is_empty() {
            return Ok(());
        }
        let lost = self.copies.unread.iter().find(|((vdev, _), leaves)| {
            let all = self.copies.whole.get(vdev);
            all.is_some_and(|all| *leaves >= all)
        });
        if let Some(((vdev, sector), _)) = lost {
            return Err(unreadable(&format!("sector {sector} of vdev {vdev}")));
        }
        self.stage = OpeningStage::Log;
        self.want_record();
        Ok(())
    }

    /// Notes that a part of a leaf of a log vdev could not be read.
    pub(super) fn copies_unread(&mut self, vdev: u16, sector: u64, count: u64) {
        let Some(scan) = self.copies.leaves.front_mut() else {
            return;
        };
        if count > 1 {
            scan.single.extend(sector..sector + count);
        } else if scan.is_whole {
            *self.copies.unread.entry((vdev, sector)).or_default() += 1;
        }
    }

    /// Notes the copies in the sectors read.
    pub(super) fn take_copies(&mut self) -> Result<(), OpenError> {
        for (wanted, data) in std::mem::take(&mut self.got) {
            let Wanted::Copies {
                leaf, vdev, sector, ..
            } = wanted
            else {
                continue;
            };
            let missing = self.pool.missing_of(leaf);
            let sectors = data.chunks().flat_map(|run| run.chunks_exact(SECTOR_SIZE));
            for (number, bytes) in (0..).zip(sectors) {
                let Some((record, _)) = Record::decode(bytes, self.pool.key()) else {
                    continue;
                };
                let Some(promised) = record.copy else {
                    continue;
                };
                let is_new = record.seq > self.root.seq && record.epoch > self.root.epoch;
                if !is_new || missing.contains(record.epoch) {
                    continue;
                }
                let address = Address::new(vdev, sector + number);
                let (seq, previous) = (record.seq, record.previous);
                let proven_seq = promised.max(record.durable_seq);
                let (_, checksum) = record.without_copy().encode(self.pool.key());
                let copies = self.copies.found.entry(seq).or_default();
                if !copies.iter().any(|copy| copy.address == address) {
                    copies.push(Copy {
                        address,
                        previous,
                        checksum,
                        proven_seq,
                        was_tried: false,
                    });
                }
            }
        }
        self.read_copies()
    }

    /// Asks for the copy of the next group, which the chain does not have. Returns whether there is
    /// one.
    pub(super) fn want_copy(&mut self) -> bool {
        if self.is_at_end_of_rewind() {
            return false;
        }
        let replay = &self.replay.replay;
        let (seq, previous) = (replay.seq(), replay.previous());
        let Some(copy) = self.copies.choose(seq, |copy| copy.previous == previous) else {
            return false;
        };
        let key = self.pool.key();
        let is_it = move |data: &Pages| {
            chain_record(&data.to_vec(), key).is_some_and(|(_, checksum)| checksum == copy.checksum)
        };
        let block = Block {
            address: copy.address,
            second: None,
            sectors: 1,
            birth: Epoch(0),
            verify: Verify::Record(Arc::new(is_it)),
        };
        self.read(Wanted::Copy, block);
        true
    }

    /// Takes the record of a copy that was read. If there is none, the next copy is tried, or this
    /// is the end.
    pub(super) fn take_copy(&mut self, data: &Pages) -> Option<FoundGroup> {
        let (sector, _) = chain_record(&data.to_vec(), self.pool.key())?;
        self.replay.replay.follow(&sector.to_vec())
    }

    /// Reports whether a copy that was not tried yet may complete a group that the chain has in
    /// part.
    pub(super) fn has_copy_of(&mut self, found: &FoundGroup) -> bool {
        let checksum = found.checksum;
        let copy = self
            .copies
            .choose(found.record.seq, |copy| copy.checksum == checksum);
        copy.is_some()
    }

    /// Reads the blocks of a group from its copy.
    pub(super) fn begin_restore(&mut self, found: FoundGroup) {
        self.stage = OpeningStage::Restore;
        self.got.clear();
        let copy = self.copies.used.get(&found.record.seq).copied();
        let blocks: Vec<Pointer> = replay::blocks(&found.record).collect();
        self.copies.restoring = Some(found);
        let Some(copy) = copy else {
            return;
        };
        let mut sector = copy.address.sector() + 1;
        for (number, pointer) in blocks.iter().enumerate() {
            let block = Block {
                address: Address::new(copy.address.vdev(), sector),
                second: None,
                ..Block::verified(pointer)
            };
            sector += u64::from(pointer.sectors);
            self.read(Wanted::Inline(number), block);
        }
    }

    /// Writes a group into the chain whose blocks were read from its copy.
    pub(super) fn take_restored(&mut self) -> Result<(), OpenError> {
        let Some(found) = self.copies.restoring.take() else {
            self.stage = OpeningStage::Verify;
            return self.verify_next();
        };
        let pointers: Vec<Pointer> = replay::blocks(&found.record).collect();
        let got = std::mem::take(&mut self.got);
        if got.len() < pointers.len() {
            if self.has_copy_of(&found) {
                self.begin_restore(found);
                return Ok(());
            }
            return self.cut(&found);
        }
        let blocks: Vec<Pages> = got.into_values().collect();
        let stored = super::replay::stored_operation(&found.record);
        if let Some((number, _)) = stored {
            self.replay.stored = blocks.get(number).cloned();
        }
        self.do_group(&found)?;
        let record = found.record.encode(self.pool.key()).0;
        let data = pointers.iter().zip(blocks).flat_map(|(pointer, data)| {
            let places = pointer.places();
            places.map(move |place| (place, data.clone()))
        });
        let all = std::iter::once((found.address, record)).chain(data);
        let tag = self.note_tag(Wanted::Restored);
        let pool = &mut self.pool;
        pool.write_blocks(tag, all.collect(), Priority::SyncWrite);
        Ok(())
    }

    /// Returns the damage that copies prove: a group that was durable and is missing.
    pub(super) fn damage_by_copies(&self) -> Option<Damage> {
        let replay = &self.replay.replay;
        let (seq, address) = (replay.seq(), replay.address());
        let later = self.copies.found.range(seq + 1..);
        let mut proofs = later.filter(|(_, copies)| copies.iter().any(|of| of.proven_seq >= seq));
        proofs.next().map(|(proven_by, _)| Damage {
            seq,
            address,
            proven_by: *proven_by,
        })
    }

    /// Wipes copies of groups that do not count. If that fails on a device, the first group that
    /// becomes durable now takes their place. A rewind leaves the copies, since the pool continues
    /// above them.
    pub(super) fn wipe_copies(&mut self) {
        if self.rewound().is_some() {
            return;
        }
        let seq = self.replay.replay.seq();
        let stale = self.copies.found.range(seq..).flat_map(|(_, of)| of);
        let blank = |copy: &Copy| (copy.address, Pages::zeroes(SECTOR_SIZE as u32));
        let wiped: Vec<(Address, Pages)> = stale.map(blank).collect();
        for block in wiped {
            let tag = self.note_tag(Wanted::Wiped);
            self.pool
                .write_blocks(tag, vec![block], Priority::SyncWrite);
        }
    }
}

/// Makes the error for a part of a log vdev that cannot be read.
pub(super) fn unreadable(what: &str) -> OpenError {
    let context = format!(
        "a log vdev cannot be read ({what}): it may hold durable writes that are nowhere else"
    );
    OpenError::new(OpenErrorKind::LogMissing, context)
}

/// Returns the record of a copy as it is in the chain, and its checksum there.
fn chain_record(sector: &[u8], key: crate::format::PoolKey) -> Option<(Pages, u128)> {
    let (record, _) = Record::decode(sector, key)?;
    record.copy?;
    Some(record.without_copy().encode(key))
}

//! Replay of the log (sections 8.1 and 8.3).

use std::collections::VecDeque;

use super::Refusal;
use super::copies::Copies;
use super::datasets::Datasets;
use super::labels::ReadLabels;
use super::map::Pointer;
use super::record::{Entry, Record};
use super::search::is_durable_missing;
use super::vdevs::Vdevs;

/// A record that is looked for, and its place.
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) address: u64,
    pub(super) previous: u128,
    /// Epoch of the record before.
    epoch: u64,
}

/// A group of the log.
struct Group {
    address: u64,
    record: Record,
    /// Whether the chain has no record of the group.
    is_copy: bool,
}

/// Facts about the log: fields of [`super::Contents`].
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) places: Vec<u64>,
    pub(super) unproven: u64,
    pub(super) copied_records: u64,
    pub(super) copied_blocks: u64,
}

struct Log<'a, 'b> {
    vdevs: &'a mut Vdevs<'b>,
    found: &'a ReadLabels<'b>,
    copies: Copies,
    place: Place,
    proven: u64,
    groups: VecDeque<Group>,
    replayed: Replayed,
}

/// Replays the log.
pub(super) fn replay<'b>(
    vdevs: &mut Vdevs<'b>,
    found: &ReadLabels<'b>,
    datasets: &mut Datasets,
) -> Result<Replayed, Refusal> {
    let root = &found.root;
    let copies = Copies::find(vdevs, found)?;
    let place = Place {
        seq: root.seq + 1,
        address: root.log,
        previous: root.previous,
        epoch: root.epoch + 1,
    };
    let mut log = Log {
        vdevs,
        found,
        copies,
        place,
        proven: root.seq,
        groups: VecDeque::new(),
        replayed: Replayed::default(),
    };
    log.follow_chain()?;
    log.do_groups(datasets)?;
    let end = &log.place;
    let is_damaged = log.proven >= end.seq
        || log.copies.prove(end.seq)
        || is_durable_missing(log.vdevs, found, end, &log.replayed.places);
    match is_damaged {
        true => Err(Refusal::Damaged),
        false => Ok(log.replayed),
    }
}

impl Log<'_, '_> {
    /// Follows the chain (step 1).
    fn follow_chain(&mut self) -> Result<(), Refusal> {
        while let Some(group) = self.next_group() {
            let record = &group.record;
            self.proven = self.proven.max(record.durable_seq.min(record.seq));
            self.place = Place {
                seq: record.seq + 1,
                address: record.next,
                previous: record.checksum,
                epoch: record.epoch,
            };
            self.groups.push_back(group);
        }
        let (address, epoch) = (self.place.address, self.place.epoch);
        match self.vdevs.is_believed(address, epoch) {
            true => Ok(()),
            false => Err(Refusal::EndUnknown),
        }
    }

    fn next_group(&self) -> Option<Group> {
        let Place {
            seq,
            address,
            previous,
            ..
        } = self.place;
        let fits = |record: &Record| record.seq == seq && record.previous == previous;
        let chain = self.records(address).into_iter().find(fits);
        let is_copy = chain.is_none();
        let record = chain.or_else(|| self.copies.record(seq, previous))?;
        Some(Group {
            address,
            record,
            is_copy,
        })
    }

    /// Returns the records that the leaves have at an address.
    fn records(&self, address: u64) -> Vec<Record> {
        let sectors = self.vdevs.copies(address).into_iter();
        let records = sectors.filter_map(|sector| Record::parse(&sector, self.found));
        records.collect()
    }

    /// Applies the groups (steps 2 and 3).
    fn do_groups(&mut self, datasets: &mut Datasets) -> Result<(), Refusal> {
        let mut epoch = self.found.root.epoch + 1;
        while let Some(mut group) = self.groups.pop_front() {
            let is_proven = group.record.seq <= self.proven;
            if !is_proven && let Some(record) = self.mark_beside(&group) {
                group.record = record;
                group.is_copy = false;
                self.groups.clear();
                self.place = Place {
                    seq: group.record.seq + 1,
                    address: group.record.next,
                    previous: group.record.checksum,
                    epoch: group.record.epoch,
                };
                self.follow_chain()?;
            }
            if (!is_proven || group.is_copy) && !self.restore(&group) {
                self.place = Place {
                    seq: group.record.seq,
                    address: group.address,
                    previous: group.record.previous,
                    epoch,
                };
                return Ok(());
            }
            if group.record.epoch < epoch {
                return Err(Refusal::Damaged);
            }
            epoch = group.record.epoch;
            self.replayed.unproven += u64::from(!is_proven);
            self.replayed.copied_records += u64::from(group.is_copy);
            self.replayed.places.push(group.address);
            for entry in &group.record.entries {
                follow(self.vdevs, datasets, entry);
            }
        }
        Ok(())
    }

    /// Returns a mark on another leaf at the place of this group.
    fn mark_beside(&self, group: &Group) -> Option<Record> {
        let own = &group.record;
        let is_it = |record: &Record| {
            record.is_mark() && (record.seq, record.previous) == (own.seq, own.previous)
        };
        let marks = self.records(group.address).into_iter();
        marks.filter(|_| !own.is_mark()).find(is_it)
    }

    /// Reports whether every block of a group is there. Blocks that were read are known from now
    /// on.
    fn restore(&mut self, group: &Group) -> bool {
        let pointers: Vec<Pointer> = group.record.pointers().copied().collect();
        let in_chain = pointers.iter().map(|pointer| self.vdevs.try_read(pointer));
        let in_chain: Vec<Option<Vec<u8>>> = in_chain.collect();
        let lacks = in_chain.iter().filter(|payload| payload.is_none()).count();
        let payloads: Option<Vec<Vec<u8>>> = match group.is_copy || lacks > 0 {
            true => self.copies.payloads(self.vdevs, &group.record),
            false => in_chain.into_iter().collect(),
        };
        let Some(payloads) = payloads else {
            return false;
        };
        self.replayed.copied_blocks += lacks as u64;
        for (pointer, payload) in pointers.into_iter().zip(payloads) {
            self.vdevs.restore(pointer, payload);
        }
        true
    }
}

fn follow(vdevs: &Vdevs<'_>, datasets: &mut Datasets, entry: &Entry) {
    let mut operate =
        |bytes: &[u8]| datasets.operate(&serde_json::from_slice(bytes).expect("JSON"));
    match entry {
        Entry::Map {
            volume,
            block,
            pointer,
        } => datasets.write(*volume, *block, *pointer),
        Entry::Clear {
            volume,
            block,
            count,
        } => datasets.clear(*volume, *block, *count),
        Entry::Operation(bytes) => operate(bytes),
        Entry::Stored { len, pointer } => operate(&vdevs.read(pointer)[..*len]),
    }
}

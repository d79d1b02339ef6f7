//! Copies of groups on log vdevs (section 8.3).

use super::Refusal;
use super::labels::ReadLabels;
use super::map::Pointer;
use super::record::Record;
use super::vdevs::Vdevs;

/// Most sectors of a log vdev that hold copies, from its first on.
const COPIES: u64 = 65_536;

/// A copy, and its place.
struct Copy {
    address: u64,
    record: Record,
}

/// All copies of groups that the root does not have.
pub(super) struct Copies(Vec<Copy>);

impl Copies {
    /// Reads all of every log vdev. Refuses if a vdev is away that may have the only copies.
    pub(super) fn find(vdevs: &Vdevs<'_>, found: &ReadLabels<'_>) -> Result<Self, Refusal> {
        let mut all = Vec::new();
        for (first, sectors) in vdevs.logs(found.root.epoch)? {
            for address in first..first + sectors.min(COPIES) {
                let copy = |sector: &[u8]| {
                    let record = Record::parse_copy(sector, found)?;
                    Some((record.epoch, record))
                };
                let records = vdevs.online_copies(address, copy).into_iter();
                let newer = records.filter(|record| {
                    record.seq > found.root.seq && record.epoch > found.root.epoch
                });
                all.extend(newer.map(|record| Copy { address, record }));
            }
        }
        Ok(Self(all))
    }

    /// Returns a copy that may replace a record that is missing in the chain.
    pub(super) fn record(&self, seq: u64, previous: u128) -> Option<Record> {
        let mut records = self.0.iter().map(|copy| &copy.record);
        let fits = |record: &&Record| record.seq == seq && record.previous == previous;
        records.find(fits).cloned()
    }

    /// Returns the payloads of a group in their order, if a copy of it has all of them.
    pub(super) fn payloads(&self, vdevs: &Vdevs<'_>, group: &Record) -> Option<Vec<Vec<u8>>> {
        let of_group =
            |copy: &&Copy| (copy.record.seq, copy.record.checksum) == (group.seq, group.checksum);
        self.0.iter().filter(of_group).find_map(|copy| {
            let mut at = copy.address + 1;
            let payload = |pointer: &Pointer| {
                let runs = vdevs.runs(at, pointer.sectors);
                at += pointer.sectors;
                runs.into_iter().find(|bytes| pointer.is_of(bytes))
            };
            group.pointers().map(payload).collect()
        })
    }

    /// Reports whether a copy proves that a missing group was durable.
    pub(super) fn prove(&self, missing: u64) -> bool {
        let mut records = self.0.iter().map(|copy| &copy.record);
        records.any(|record| record.seq > missing && record.proves >= missing)
    }
}

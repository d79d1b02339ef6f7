//! Replay follows the chain of records after a crash, from the last checkpoint to its end.
//!
//! The first place without a fitting record is the end of the log, or damage. Groups that were not
//! durable at the power cut may be missing in any combination. So a gap behind the last group that
//! is *known to have been durable* is the end, and nothing is reported.
//!
//! But each later record says how far the log was durable when it was written. If a later record
//! says that the missing group was durable, something promised is lost. This is damage; it is
//! reported, never cut away. The later record lies near the place of the missing record, or the
//! record at that place leads to it. If the log goes on far away behind a record, that record is
//! written twice, the second time near its own place ([`crate::engine`]'s signposts).
//!
//! Data of groups that are known to be durable is believed here. Each of its blocks is verified
//! when it is read. Data of later groups is verified now: a group counts with all its blocks or not
//! at all.

use crate::format::{Address, Entry, Pointer, PoolKey, Record, SECTOR_SIZE};

/// Sectors before the end, and sectors behind it, that are searched for later records: 8 MiB each.
pub const SEARCH: u64 = (8 << 20) / SECTOR_SIZE as u64;

/// Reports whether a search around `place` finds a record at `record`.
pub fn is_near(place: Address, record: Address) -> bool {
    place.vdev() == record.vdev() && place.sector().abs_diff(record.sector()) < SEARCH
}

/// Returns the sectors by which `place` lies behind a nearby record, negative if it lies before the
/// record.
pub fn distance(record: Address, place: Address) -> i16 {
    let sectors = place.sector().wrapping_sub(record.sector()).cast_signed();
    // Near places are less than 2048 sectors away.
    i16::try_from(sectors).unwrap_or(0)
}

/// A group that replay found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundGroup {
    /// Address of the group's record.
    pub address: Address,
    /// Content of the record.
    pub record: Record,
    /// Checksum of the record.
    pub checksum: u128,
}

/// A record that must exist and is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the missing group.
    pub seq: u64,
    /// Address at which the missing record should lie.
    pub address: Address,
    /// Number of a later group whose record proves that the missing group was durable.
    pub proven_by: u64,
}

/// A record that was found near the end, of the group that is missing there or of a later group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Number of the record's group.
    pub seq: u64,
    /// Checksum of the record before.
    pub previous: u128,
    /// Checksum of this record.
    pub checksum: u128,
    /// Address of the record behind this one.
    pub next: Address,
    durable_seq: u64,
}

/// The search for the end of the chain.
#[derive(Debug)]
pub struct Replay {
    key: PoolKey,
    /// Number that the next record must have.
    seq: u64,
    address: Address,
    previous: u128,
    /// Number up to which all groups are known to have been durable.
    durable_seq: u64,
}

impl Replay {
    /// Starts a search at the first record behind a checkpoint. That record follows group `seq`,
    /// whose record had the checksum `previous`.
    pub fn new(key: PoolKey, seq: u64, address: Address, previous: u128) -> Self {
        Self {
            key,
            seq: seq + 1,
            address,
            previous,
            durable_seq: seq,
        }
    }

    /// Returns the address at which the next record must lie.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns the number that the next record must have.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the checksum of the record before the next one.
    pub fn previous(&self) -> u128 {
        self.previous
    }

    /// Returns the number up to which all groups were durable.
    pub fn durable_seq(&self) -> u64 {
        self.durable_seq
    }

    /// Follows the chain to the next group, if `sector` holds its record. `sector` must be the
    /// sector at [`Replay::address`].
    pub fn follow(&mut self, sector: &[u8]) -> Option<FoundGroup> {
        let (record, checksum) = Record::decode(sector, self.key)?;
        let is_next = record.seq == self.seq && record.previous == self.previous;
        if !is_next || record.copy.is_some() {
            return None;
        }
        let found = FoundGroup {
            address: self.address,
            checksum,
            record,
        };
        self.seq += 1;
        self.address = found.record.next;
        self.previous = checksum;
        self.durable_seq = self
            .durable_seq
            .max(found.record.durable_seq.min(found.record.seq));
        Some(found)
    }

    /// Goes back to the state before `found`, a group whose data is not complete.
    pub fn cut_before(&mut self, found: &FoundGroup) {
        self.seq = found.record.seq;
        self.address = found.address;
        self.previous = found.record.previous;
    }

    /// Reports whether the data of a group must be verified before the group counts.
    pub fn must_verify(&self, found: &FoundGroup) -> bool {
        found.record.seq > self.durable_seq
    }

    /// Returns the records in `bytes`, read near the end, of the group that is missing there or of
    /// later groups.
    pub fn traces(&self, bytes: &[u8]) -> impl Iterator<Item = Trace> {
        let sectors = bytes.chunks_exact(SECTOR_SIZE);
        sectors.filter_map(|sector| {
            let (record, checksum) = Record::decode(sector, self.key)?;
            let is_it = record.seq == self.seq && record.previous == self.previous;
            (is_it || record.seq > self.seq).then_some(Trace {
                seq: record.seq,
                previous: record.previous,
                checksum,
                next: record.next,
                durable_seq: record.durable_seq,
            })
        })
    }

    /// Returns the damage of the log, if one of the traces proves that the missing group was
    /// durable.
    pub fn damage_by<'a>(&self, traces: impl Iterator<Item = &'a Trace>) -> Option<Damage> {
        let proofs = traces.filter(|trace| trace.seq > self.seq && trace.durable_seq >= self.seq);
        let proof = proofs.max_by_key(|trace| trace.seq)?;
        Some(Damage {
            seq: self.seq,
            address: self.address,
            proven_by: proof.seq,
        })
    }
}

/// Returns the blocks of a group. All of them must be intact for the group to count.
pub fn blocks(record: &Record) -> impl Iterator<Item = Pointer> {
    record.entries.iter().filter_map(|entry| match entry {
        Entry::Map { pointer, .. } | Entry::StoredOperation { pointer, .. } => Some(*pointer),
        Entry::Clear { .. } | Entry::Operation(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Epoch;

    const KEY: PoolKey = PoolKey { guid: 5, secret: 6 };

    /// Returns records of groups 1.., each of which says that all groups before the last are
    /// durable.
    fn log(groups: u64) -> Vec<Vec<u8>> {
        let mut previous = 0;
        let mut sectors = Vec::new();
        for seq in 1..=groups {
            let record = Record {
                seq,
                epoch: Epoch(1),
                durable_seq: seq.saturating_sub(2),
                next: Address::new(0, seq + 1),
                previous,
                signpost: 0,
                copy: None,
                entries: Vec::new(),
            };
            let (pages, checksum) = record.encode(KEY);
            previous = checksum;
            sectors.push(pages.to_vec());
        }
        sectors
    }

    fn damage(replay: &Replay, sectors: &[Vec<u8>]) -> Option<Damage> {
        let traces: Vec<Trace> = replay.traces(&sectors.concat()).collect();
        replay.damage_by(traces.iter())
    }

    fn replay() -> Replay {
        Replay::new(KEY, 0, Address::new(0, 1), 0)
    }

    fn follow_all(replay: &mut Replay, sectors: &[Vec<u8>]) -> u64 {
        while let Some(sector) = sectors.get(replay.address().sector() as usize - 1) {
            if replay.follow(sector).is_none() {
                break;
            }
        }
        replay.seq() - 1
    }

    #[test]
    fn the_chain_is_followed_to_its_end() {
        let mut replay = replay();
        assert_eq!(follow_all(&mut replay, &log(5)), 5);
        assert_eq!(replay.durable_seq(), 3);
        assert_eq!(damage(&replay, &log(5)), None);
    }

    #[test]
    fn a_torn_tail_is_cut_and_a_hole_before_durable_groups_is_damage() {
        for missing in 1..=6 {
            let mut sectors = log(6);
            sectors[missing - 1].fill(0xee);
            let mut replay = replay();
            assert_eq!(follow_all(&mut replay, &sectors), missing as u64 - 1);
            let damage = damage(&replay, &sectors);
            let is_damage = missing <= 4;
            assert_eq!(damage.is_some(), is_damage, "{missing}: {damage:?}");
        }
    }

    #[test]
    fn what_fits_where_a_group_is_missing_leads_on_and_proves_nothing() {
        let (mut replay, sectors) = (replay(), log(4));
        replay.follow(&sectors[0]).expect("the first");
        let of_second = |replay: &Replay| replay.traces(&sectors[1]).next();
        let trace = of_second(&replay).expect("it is the one that is missing");
        assert_eq!((trace.seq, trace.next), (2, Address::new(0, 3)));
        assert_eq!(replay.damage_by([trace].iter()), None);
        replay.previous ^= 1;
        assert_eq!(of_second(&replay), None, "it fits behind another past");
    }

    #[test]
    fn a_group_of_another_past_does_not_fit() {
        let (mut replay, sectors) = (replay(), log(3));
        replay.follow(&sectors[0]).expect("the first");
        replay.previous ^= 1;
        assert_eq!(replay.follow(&sectors[1]), None);
    }

    #[test]
    fn what_is_behind_the_durable_groups_is_verified() {
        let (mut replay, sectors) = (replay(), log(4));
        let found: Vec<FoundGroup> = sectors
            .iter()
            .map_while(|sector| replay.follow(sector))
            .collect();
        let verified: Vec<bool> = found
            .iter()
            .map(|found| replay.must_verify(found))
            .collect();
        assert_eq!(verified, [false, false, true, true]);
        replay.cut_before(&found[2]);
        assert_eq!((replay.seq(), replay.address()), (3, Address::new(0, 3)));
        assert_eq!(replay.previous(), found[1].checksum);
    }
}

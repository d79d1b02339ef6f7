//! The chain of records: the place of the next record, and the facts about the last record that it
//! must repeat.

use std::collections::VecDeque;

use pages::Pages;

use crate::format::Address;

/// A sealed group that is being written, or that waits to become durable.
#[derive(Debug)]
pub struct Sealed {
    /// Number of the group.
    pub seq: u64,
    /// Bytes that the group takes in memory.
    pub bytes: usize,
    /// Blocks of the group by ascending address, in the form in which they are read. Memory may
    /// forget them when the group is written.
    pub blocks: Vec<(Address, Pages)>,
    /// Whether the whole group is on the devices (perhaps in their caches).
    pub is_written: bool,
}

/// The end of the log, and the groups that are under way there.
#[derive(Debug)]
pub struct Chain {
    /// Number of the next group.
    pub next_seq: u64,
    /// Address to which the next group's record goes.
    pub next: Address,
    /// Checksum of the last record.
    pub previous: u128,
    /// Sealed groups that are not known to be written, and all groups behind them, oldest first.
    under_way: VecDeque<Sealed>,
    /// Groups that become durable only by a later flush, in order.
    unflushed: VecDeque<u64>,
    /// Number up to which all groups are on the devices.
    pub written_seq: u64,
    /// Number up to which all groups outlive a power cut.
    pub durable_seq: u64,
    /// Bytes of the groups that are under way.
    pub bytes: usize,
}

impl Chain {
    /// Makes a log that goes on behind group `seq`. All groups up to `seq` are durable.
    pub fn new(seq: u64, next: Address, previous: u128) -> Self {
        Self {
            next_seq: seq + 1,
            next,
            previous,
            under_way: VecDeque::new(),
            unflushed: VecDeque::new(),
            written_seq: seq,
            durable_seq: seq,
            bytes: 0,
        }
    }

    /// Returns the number of the last sealed group.
    pub fn sealed_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// Returns the number of groups that are being written.
    pub fn being_written(&self) -> usize {
        (self.sealed_seq() - self.written_seq) as usize
    }

    /// Notes that a group was sealed. Its record went to `next`, and the record after it will lie
    /// at `then`.
    pub fn sealed(
        &mut self,
        bytes: usize,
        mut blocks: Vec<(Address, Pages)>,
        checksum: u128,
        then: Address,
    ) {
        blocks.sort_unstable_by_key(|(address, _)| address.to_bits());
        self.under_way.push_back(Sealed {
            seq: self.next_seq,
            bytes,
            blocks,
            is_written: false,
        });
        self.bytes += bytes;
        self.next_seq += 1;
        self.next = then;
        self.previous = checksum;
    }

    /// Returns the bytes of a block that is being written, by its future place.
    pub fn in_flight(&self, address: Address) -> Option<&Pages> {
        let bits = address.to_bits();
        self.under_way.iter().rev().find_map(|group| {
            let blocks = &group.blocks;
            let at = blocks.binary_search_by_key(&bits, |(of, _)| of.to_bits());
            Some(&blocks[at.ok()?].1)
        })
    }

    /// Notes that a group is on the devices. It counts from now on with all its predecessors, if
    /// there is no gap.
    pub fn written(&mut self, seq: u64) {
        if let Some(group) = self.under_way.iter_mut().find(|group| group.seq == seq) {
            group.is_written = true;
        }
        while let Some(group) = self.under_way.pop_front_if(|group| group.is_written) {
            self.written_seq = group.seq;
            self.bytes -= group.bytes;
        }
    }

    /// Notes that the last sealed group becomes durable only by a later flush.
    pub fn needs_flush(&mut self) {
        self.unflushed.push_back(self.sealed_seq());
    }

    /// Reports whether no group needs a flush. If so, the next group can become durable by being
    /// written.
    pub fn is_flushed(&self) -> bool {
        self.unflushed.is_empty()
    }

    /// Returns the number up to which all groups are durable by being written.
    pub fn proven_seq(&self) -> u64 {
        let first = self.unflushed.front().copied();
        first.map_or(self.written_seq, |first| self.written_seq.min(first - 1))
    }

    /// Notes that all groups up to `seq` are durable, for example all that were written before a
    /// flush began.
    pub fn durable(&mut self, seq: u64) {
        self.durable_seq = self.durable_seq.max(seq);
        while self.unflushed.pop_front_if(|of| *of <= seq).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_count_in_their_order_only() {
        let mut chain = Chain::new(6, Address::new(0, 1), 0);
        for number in 0..3_u64 {
            chain.sealed(10, Vec::new(), number.into(), Address::new(0, 2 + number));
        }
        assert_eq!(
            (chain.sealed_seq(), chain.being_written(), chain.bytes),
            (9, 3, 30)
        );
        chain.written(8);
        assert_eq!((chain.written_seq, chain.bytes), (6, 30));
        chain.written(7);
        assert_eq!((chain.written_seq, chain.bytes), (8, 10));
        assert_eq!((chain.next, chain.previous), (Address::new(0, 4), 2));
    }

    #[test]
    fn blocks_are_in_flight_until_their_group_counts() {
        let mut chain = Chain::new(6, Address::new(0, 1), 0);
        let block = |sector: u64| {
            let data = Pages::from_bytes(&[sector as u8]);
            (Address::new(0, sector), data)
        };
        for sectors in [[9, 7], [3, 8]] {
            chain.sealed(10, sectors.map(block).to_vec(), 0, Address::new(0, 2));
        }
        let held = |chain: &Chain| {
            let of = (0..10).filter_map(|sector| chain.in_flight(Address::new(0, sector)));
            of.map(|data| data.to_vec()[0]).collect::<Vec<u8>>()
        };
        assert_eq!(held(&chain), [3, 7, 8, 9]);
        chain.written(8);
        assert_eq!(held(&chain), [3, 7, 8, 9]);
        chain.written(7);
        assert_eq!(held(&chain), [0; 0]);
    }

    #[test]
    fn groups_that_need_a_flush_keep_those_behind_them_from_being_durable() {
        let mut chain = Chain::new(6, Address::new(0, 1), 0);
        for number in 0..3_u64 {
            chain.sealed(10, Vec::new(), number.into(), Address::new(0, 2 + number));
            if number == 1 {
                chain.needs_flush();
            }
        }
        assert_eq!((chain.proven_seq(), chain.is_flushed()), (6, false));
        for seq in 7..10 {
            chain.written(seq);
        }
        assert_eq!((chain.written_seq, chain.proven_seq()), (9, 7));
        chain.durable(8);
        assert_eq!((chain.proven_seq(), chain.is_flushed()), (9, true));
    }
}

//! Counts of the cache, for all volumes and for each.

use std::collections::BTreeMap;

/// Counts over all volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not find their block.
    pub misses: u64,
    /// Blocks thrown out to make room; invalidated ones are not counted.
    pub evictions: u64,
    /// Blocks here now.
    pub blocks: u64,
    /// Bytes of the pages of those blocks, with the lists of the pages.
    pub block_bytes: u64,
    /// All memory that counts against the cap, in bytes.
    pub bytes: u64,
}

impl Statistics {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            evictions: self.evictions + other.evictions,
            blocks: self.blocks + other.blocks,
            block_bytes: self.block_bytes + other.block_bytes,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Counts of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeStatistics {
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not find their block.
    pub misses: u64,
    /// Blocks thrown out to make room.
    pub evictions: u64,
    /// Blocks here now.
    pub blocks: u64,
    /// Bytes of the pages of those blocks, with the lists of the pages.
    pub block_bytes: u64,
}

impl VolumeStatistics {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            evictions: self.evictions + other.evictions,
            blocks: self.blocks + other.blocks,
            block_bytes: self.block_bytes + other.block_bytes,
        }
    }
}

/// Counts of each volume in one part. They are numbered, so that a hit finds its counts by a
/// number.
#[derive(Debug, Default)]
pub(super) struct VolumeCounts {
    counts: Vec<VolumeStatistics>,
    numbers: BTreeMap<u64, u32>,
    /// Volume that was asked for last, with its number. Mostly it is asked for again.
    latest: Option<(u64, u32)>,
    free: Vec<u32>,
}

impl VolumeCounts {
    /// Most bytes of memory that a volume costs: its counts while their list grows, and its share
    /// of the map's nodes, which are at least a third full.
    pub(super) const PER_VOLUME: usize = 3 * size_of::<VolumeStatistics>() + 64;

    /// Reports whether the volume has counts.
    pub(super) fn is_counted(&self, volume: u64) -> bool {
        self.latest.is_some_and(|(of, _)| of == volume) || self.numbers.contains_key(&volume)
    }

    /// Returns the number of the volume's counts.
    pub(super) fn number(&mut self, volume: u64) -> u32 {
        if let Some((_, number)) = self.latest.filter(|(of, _)| *of == volume) {
            return number;
        }
        let number = *self.numbers.entry(volume).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.counts.push(VolumeStatistics::default());
                (self.counts.len() - 1) as u32
            })
        });
        self.latest = Some((volume, number));
        number
    }

    pub(super) fn of(&mut self, number: u32) -> &mut VolumeStatistics {
        &mut self.counts[number as usize]
    }

    pub(super) fn get(&self, volume: u64) -> VolumeStatistics {
        self.numbers
            .get(&volume)
            .map_or_else(VolumeStatistics::default, |number| {
                self.counts[*number as usize]
            })
    }

    /// Forgets the counts of a volume that has no blocks here any more.
    pub(super) fn forget(&mut self, volume: u64) {
        self.latest = None;
        if let Some(number) = self.numbers.remove(&volume) {
            self.counts[number as usize] = VolumeStatistics::default();
            self.free.push(number);
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.counts.len() * Self::PER_VOLUME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_is_forgotten_is_not_taken_for_the_one_that_has_its_number_now() {
        let mut counts = VolumeCounts::default();
        let number = counts.number(1);
        counts.of(number).hits = 7;
        counts.forget(1);
        assert!(!counts.is_counted(1));
        let reused = counts.number(2);
        assert_eq!(reused, number);
        counts.of(reused).hits += 1;
        assert_ne!(counts.number(1), reused);
        assert_eq!((counts.get(1).hits, counts.get(2).hits), (0, 1));
        // The volume that was asked for last is another than the one that is forgotten.
        counts.forget(2);
        assert!(counts.is_counted(1) && !counts.is_counted(2));
        assert_eq!(counts.get(2), VolumeStatistics::default());
    }
}

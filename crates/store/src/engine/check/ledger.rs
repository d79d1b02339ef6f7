//! Bitmaps of needed sectors. They prove that no two owners share a sector, and that the space map
//! agrees.

use crate::format::Extent;
use crate::space::Space;

/// Bitmap of every top-level vdev's sectors.
#[derive(Debug, Default)]
pub(super) struct Bitmap {
    vdevs: Vec<Bits>,
    set: u64,
}

#[derive(Debug, Default)]
struct Bits {
    sectors: u64,
    words: Vec<u64>,
}

impl Bitmap {
    /// Makes a bitmap of a pool's sectors, with no bit set.
    pub(super) fn new(space: &Space) -> Self {
        let vdevs = (0..space.vdevs()).map(|vdev| {
            let sectors = space.size(vdev);
            let words = vec![0; sectors.div_ceil(64) as usize];
            Bits { sectors, words }
        });
        Self {
            vdevs: vdevs.collect(),
            set: 0,
        }
    }

    /// Returns the number of set bits.
    pub(super) fn count(&self) -> u64 {
        self.set
    }

    /// Reports whether these sectors exist.
    pub(super) fn holds(&self, extent: Extent) -> bool {
        let of = self.vdevs.get(usize::from(extent.vdev));
        of.is_some_and(|of| extent.sectors > 0 && extent.end() <= of.sectors)
    }

    /// Sets the bits of sectors that exist. Returns how many were not set before.
    pub(super) fn set(&mut self, extent: Extent) -> u32 {
        let words = &mut self.vdevs[usize::from(extent.vdev)].words;
        let mut new = 0;
        for (word, mask) in masks(extent) {
            new += (mask & !words[word]).count_ones();
            words[word] |= mask;
        }
        self.set += u64::from(new);
        new
    }

    /// Reports whether the bits of these sectors are all set.
    pub(super) fn has_all(&self, extent: Extent) -> bool {
        let words = |vdev: u16| &self.vdevs[usize::from(vdev)].words;
        self.holds(extent)
            && masks(extent).all(|(word, mask)| words(extent.vdev)[word] & mask == mask)
    }

    /// Sets the bits that are set in another bitmap of the same pool.
    pub(super) fn unite(&mut self, other: &Self) {
        for (own, other) in self.vdevs.iter_mut().zip(&other.vdevs) {
            for (own, other) in own.words.iter_mut().zip(&other.words) {
                self.set += u64::from((other & !*own).count_ones());
                *own |= other;
            }
        }
    }

    /// Clears the bits of sectors that exist. Returns how many were set before.
    pub(super) fn clear(&mut self, extent: Extent) -> u32 {
        let words = &mut self.vdevs[usize::from(extent.vdev)].words;
        let mut old = 0;
        for (word, mask) in masks(extent) {
            old += (mask & words[word]).count_ones();
            words[word] &= !mask;
        }
        self.set -= u64::from(old);
        old
    }

    /// Returns runs of sectors whose bits `differ` has set, given 64 bits of this bitmap and of
    /// another one.
    pub(super) fn differing(
        &self,
        vdev: u16,
        others: impl Iterator<Item = u64>,
        differ: impl Fn(u64, u64) -> u64,
    ) -> Vec<Extent> {
        let own = &self.vdevs[usize::from(vdev)];
        let mut runs: Vec<Extent> = Vec::new();
        for (number, (word, other)) in own.words.iter().zip(others).enumerate() {
            let mut bits = differ(*word, other);
            while bits != 0 {
                let sector = number as u64 * 64 + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                if sector >= own.sectors {
                    break;
                }
                match runs.last_mut() {
                    Some(run) if run.end() == sector && run.sectors < u32::MAX => run.sectors += 1,
                    _ => runs.push(Extent {
                        vdev,
                        sector,
                        sectors: 1,
                    }),
                }
            }
        }
        runs
    }

    /// Clears all set bits, and returns their runs of sectors.
    pub(super) fn take_all(&mut self) -> Vec<Extent> {
        if self.set == 0 {
            return Vec::new();
        }
        let mut runs = Vec::new();
        for vdev in 0..self.vdevs.len() as u16 {
            runs.append(&mut self.differing(vdev, std::iter::repeat(0), |own, _| own));
            self.vdevs[usize::from(vdev)].words.fill(0);
        }
        self.set = 0;
        runs
    }
}

/// Returns the words that hold an extent's bits, each with a mask of these bits.
fn masks(extent: Extent) -> impl Iterator<Item = (usize, u64)> {
    let (mut at, end) = (extent.sector, extent.end());
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let bit = at % 64;
            let bits = (64 - bit).min(end - at);
            let word = (at / 64) as usize;
            at += bits;
            (word, u64::MAX >> (64 - bits) << bit)
        })
    })
}

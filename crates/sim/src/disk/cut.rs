//! What a power cut may leave behind: what was safe, and of every other write any part.
//!
//! Order needs no thought of its own: of two unsafe writes to one slice, "the second, then the first"
//! leaves what "only the first" leaves, so all subsets in the order of their answers are all outcomes.

use std::collections::BTreeSet;
use std::ops::Range;

use pages::{Page, Pages};

use super::medium::{Medium, SECTOR_SIZE};
use crate::random::Random;

/// How finely a power cut tears a write that was not safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tearing {
    /// Each write survives whole or not at all.
    Never,
    /// Each sector of 4 KiB does.
    Sectors,
    /// Each slice of 512 bytes does.
    #[default]
    Slices,
    /// As `Slices`, and a torn sector may be unreadable, as on disks that lose power in mid-sector.
    Ruin,
}

/// A write or trim that is not safe yet.
#[derive(Clone, Debug)]
pub struct LooseWrite {
    /// Counts up in the order in which writes took effect.
    pub number: u64,
    /// The first sector.
    pub sector: u64,
    /// How many.
    pub count: u64,
    /// What was written; `None` for a trim.
    pub data: Option<Pages>,
}

impl LooseWrite {
    /// The sectors and what is to be on them.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, Page)> + '_ {
        let page = |at: u64| match &self.data {
            Some(data) => page_at(data, at as usize * SECTOR_SIZE),
            None => Page::zero(),
        };
        (0..self.count).map(move |at| (self.sector + at, page(at)))
    }

    /// The parts of it before and behind a range.
    pub fn outside(&self, range: &Range<u64>) -> impl Iterator<Item = Self> + use<> {
        let end = self.sector + self.count;
        let before = self.sector..end.min(range.start);
        let behind = self.sector.max(range.end)..end;
        let of = self.clone();
        let parts = [before, behind].into_iter();
        parts.filter(|part| !part.is_empty()).map(move |part| {
            let bytes = |sector: u64| (sector - of.sector) as usize * SECTOR_SIZE;
            let (from, to) = (bytes(part.start), bytes(part.end));
            Self {
                number: of.number,
                sector: part.start,
                count: part.end - part.start,
                data: of.data.as_ref().map(|data| data.slice(from..to)),
            }
        })
    }

    /// All of it.
    pub fn apply(&self, medium: &mut Medium) {
        for (sector, page) in self.sectors() {
            medium.put(sector, page);
        }
    }

    /// The part that the seed says.
    fn tear(&self, medium: &mut Medium, tearing: Tearing, random: &mut Random) {
        for (sector, page) in self.sectors() {
            let whole = if random.per_mille(500) { u8::MAX } else { 0 };
            let slices = match tearing {
                Tearing::Never | Tearing::Sectors => whole,
                // Most sectors of a torn write are whole or missing; one is being written.
                _ if random.per_mille(600) => whole,
                _ => random.within(0..256) as u8,
            };
            medium.put_slices(sector, &page, slices);
            let torn = slices != 0 && slices != u8::MAX;
            if torn && tearing == Tearing::Ruin && random.per_mille(500) {
                medium.ruin(sector);
            }
        }
    }
}

/// The page at an offset of sectors, by reference where it can be.
fn page_at(data: &Pages, offset: usize) -> Page {
    match data.whole_page(offset) {
        Some(page) => page.clone(),
        None => {
            let mut page = pages::PageMut::zeroed();
            data.slice(offset..offset + SECTOR_SIZE)
                .copy_to(&mut page[..]);
            page.freeze()
        }
    }
}

/// A disk at the moment of a power cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// What is safe.
    pub durable: Medium,
    /// What is not, in the order in which it took effect; what was in flight comes last.
    pub loose: Vec<LooseWrite>,
}

impl Cut {
    /// One of the media that may be found when the power is back.
    pub fn image(&self, tearing: Tearing, random: &mut Random) -> Medium {
        let mut medium = self.durable.clone();
        // Cuts after which nearly all or nearly nothing is there find what even odds never find.
        let survive_per_mille = random.one_of(&[0, 60, 500, 500, 940, 1000]);
        let tear_per_mille = match tearing {
            Tearing::Never => 0,
            _ => random.one_of(&[0, 100, 500]),
        };
        for write in &self.loose {
            if random.per_mille(tear_per_mille) {
                write.tear(&mut medium, tearing, random);
            } else if random.per_mille(survive_per_mille) {
                write.apply(&mut medium);
            }
        }
        medium
    }

    /// Up to `limit` media that may be found: all subsets of whole writes where they are that few; else
    /// those with none, all, all but one, only one, and all before one. The rest is torn by the seed.
    pub fn images(&self, limit: usize, tearing: Tearing, random: &mut Random) -> Vec<Medium> {
        let count = self.loose.len();
        let mut subsets: Vec<BTreeSet<usize>> = Vec::new();
        if count < usize::BITS as usize - 1 && 1 << count <= limit {
            let bits = |subset: usize| (0..count).filter(move |at| subset >> at & 1 == 1);
            subsets.extend((0..1 << count).map(|subset| bits(subset).collect()));
        } else {
            subsets.extend([BTreeSet::new(), (0..count).collect()]);
            let near = |at: usize| {
                let all_but = (0..count).filter(|other| *other != at).collect();
                [all_but, BTreeSet::from([at]), (0..at).collect()]
            };
            let mut order: Vec<usize> = (0..count).collect();
            random.shuffle(&mut order);
            let share = (limit / 2).div_ceil(3).min(count);
            subsets.extend(order[..share].iter().copied().flat_map(near));
        }
        subsets.truncate(limit);
        let mut media: Vec<Medium> = subsets.iter().map(|subset| self.with(subset)).collect();
        if tearing != Tearing::Never && count > 0 {
            media.extend((media.len()..limit).map(|_| self.image(tearing, random)));
        }
        media
    }

    /// What is there when exactly these loose writes survived.
    pub fn with(&self, survivors: &BTreeSet<usize>) -> Medium {
        let mut medium = self.durable.clone();
        for survivor in survivors {
            self.loose[*survivor].apply(&mut medium);
        }
        medium
    }
}

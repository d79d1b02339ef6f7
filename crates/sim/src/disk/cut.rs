//! The possible results of a power cut: the safe content, and any part of every other write.
//!
//! Order needs no treatment of its own. Of two unsafe writes to one slice, "the second, then the
//! first" leaves what "only the first" leaves. So all subsets in the order of their answers are all
//! outcomes.

use std::collections::BTreeSet;
use std::ops::Range;

use pages::{Page, Pages};

use super::medium::{Medium, SECTOR_SIZE};
use crate::random::Random;

/// Granularity at which a power cut tears a write that was not safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tearing {
    /// Each write survives whole or not at all.
    Never,
    /// Each sector of 4 KiB survives whole or not at all.
    Sectors,
    /// Each slice of 512 bytes survives whole or not at all.
    #[default]
    Slices,
    /// Each slice survives whole or not at all. A torn sector may also be unreadable, as on disks
    /// that lose power in mid-sector.
    Ruin,
}

/// A write or trim that is not safe yet.
#[derive(Clone, Debug)]
pub struct LooseWrite {
    /// Number, which counts up in the order in which writes took effect.
    pub number: u64,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub count: u64,
    /// Data that was written; `None` for a trim.
    pub data: Option<Pages>,
}

impl LooseWrite {
    /// Returns the sectors, and the page for each.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, Page)> + '_ {
        let page = |at: u64| match &self.data {
            Some(data) => page_at(data, at as usize * SECTOR_SIZE),
            None => Page::zero(),
        };
        (0..self.count).map(move |at| (self.sector + at, page(at)))
    }

    /// Returns the parts of the write before and behind a range.
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

    /// Applies the whole write.
    pub fn apply(&self, medium: &mut Medium) {
        for (sector, page) in self.sectors() {
            medium.put(sector, page);
        }
    }

    /// Applies the part that the seed chooses.
    fn tear(&self, image: &mut Image, tearing: Tearing, random: &mut Random) {
        let medium = &mut image.medium;
        let mut masks = Vec::new();
        for (sector, page) in self.sectors() {
            let whole = if random.per_mille(500) { u8::MAX } else { 0 };
            let slices = match tearing {
                Tearing::Never | Tearing::Sectors => whole,
                // Most sectors of a torn write are whole or missing. One is being written.
                _ if random.per_mille(600) => whole,
                _ => random.within(0..256) as u8,
            };
            medium.put_slices(sector, &page, slices);
            let torn = slices != 0 && slices != u8::MAX;
            if torn && tearing == Tearing::Ruin && random.per_mille(500) {
                medium.ruin(sector);
            }
            masks.push(slices);
        }
        image.count(&masks);
    }

    /// Applies a part that is neither all of the write nor nothing, if that is possible. The part
    /// is some of the first or of the last sectors, any of them, or all but one. Of one of them,
    /// only some slices are applied.
    fn tear_surely(&self, image: &mut Image, tearing: Tearing, random: &mut Random) {
        let count = self.count;
        let some = random.within(0..count + 1);
        let way = random.within(0..4);
        let mut is_kept = |at: u64| match way {
            0 => at < some,
            1 => at >= some,
            2 => random.per_mille(500),
            _ => at != some % count,
        };
        let kept = (0..count).map(|at| if is_kept(at) { u8::MAX } else { 0 });
        let mut masks: Vec<u8> = kept.collect();
        if count > 1 && masks.iter().all(|mask| *mask == masks[0]) {
            let other = random.within(0..count) as usize;
            masks[other] = !masks[other];
        }
        let is_fine = matches!(tearing, Tearing::Slices | Tearing::Ruin);
        if is_fine && (count == 1 || random.per_mille(600)) {
            let torn = random.within(0..count) as usize;
            masks[torn] = random.within(1..u64::from(u8::MAX)) as u8;
        }
        for ((sector, page), mask) in self.sectors().zip(&masks) {
            image.medium.put_slices(sector, &page, *mask);
            let is_torn = ![0, u8::MAX].contains(mask);
            if is_torn && tearing == Tearing::Ruin && random.per_mille(500) {
                image.medium.ruin(sector);
            }
        }
        image.count(&masks);
    }
}

/// A possible content of a disk when the power is back.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Content of the disk.
    pub medium: Medium,
    /// Number of writes of which some sectors or slices are there and others are not.
    pub torn_writes: u64,
    /// Number of sectors of which some slices are there and others are not.
    pub torn_sectors: u64,
}

impl Image {
    fn of(medium: Medium) -> Self {
        Self {
            medium,
            ..Self::default()
        }
    }

    /// Counts a write. These slices of each of its sectors are there.
    fn count(&mut self, masks: &[u8]) {
        let is_part = |mask: &&u8| ![0, u8::MAX].contains(*mask);
        let parts = masks.iter().filter(is_part).count() as u64;
        let is_torn = parts > 0 || masks.iter().any(|mask| *mask != masks[0]);
        self.torn_sectors += parts;
        self.torn_writes += u64::from(is_torn);
    }
}

/// Fate at a power cut of the writes that a flush covers, or of those that came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    /// Each write is kept or lost.
    Any,
    /// A write at least is torn. Each other one is kept, lost or torn.
    Torn,
}

/// Fates of the writes that a flush covers, and of later ones. Volatile caches may keep later
/// writes and lose earlier ones, though nobody expects that.
const FATES: [(Fate, Fate); 8] = [
    (Fate::Torn, Fate::Torn),
    (Fate::Torn, Fate::Kept),
    (Fate::Torn, Fate::Lost),
    (Fate::Torn, Fate::Any),
    (Fate::Kept, Fate::Torn),
    (Fate::Lost, Fate::Torn),
    (Fate::Lost, Fate::Kept),
    (Fate::Any, Fate::Any),
];

/// Returns the page at an offset of sectors, by reference if possible.
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

/// State of a disk at the moment of a power cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Content that is safe.
    pub durable: Medium,
    /// Writes that are not safe, in the order in which they took effect. Writes in flight come
    /// last.
    pub loose: Vec<LooseWrite>,
    /// Number of those writes, from the first on, that the flush under way makes safe when it ends
    /// well.
    pub covered: usize,
}

impl Cut {
    /// Returns one of the media that may be found when the power is back.
    pub fn image(&self, tearing: Tearing, random: &mut Random) -> Image {
        let mut image = Image::of(self.durable.clone());
        // Cuts that leave nearly all or nearly nothing find what even odds never find.
        let survive_per_mille = random.one_of(&[0, 60, 500, 500, 940, 1000]);
        let tear_per_mille = match tearing {
            Tearing::Never => 0,
            _ => random.one_of(&[0, 100, 500]),
        };
        for write in &self.loose {
            if random.per_mille(tear_per_mille) {
                write.tear(&mut image, tearing, random);
            } else if random.per_mille(survive_per_mille) {
                write.apply(&mut image.medium);
            }
        }
        image
    }

    /// Returns one of the media that may be found after a power cut at a flush. The writes that the
    /// flush covers have one fate, later ones another. Most often some of them are torn.
    pub fn image_at_flush(&self, tearing: Tearing, random: &mut Random) -> Image {
        let mut image = Image::of(self.durable.clone());
        let fates = random.one_of(&FATES);
        let (covered, later) = self.loose.split_at(self.covered);
        for (writes, fate) in [(covered, fates.0), (later, fates.1)] {
            let fate = match fate {
                Fate::Torn if tearing == Tearing::Never => Fate::Any,
                fate => fate,
            };
            let surely = random.within(0..writes.len().max(1) as u64) as usize;
            let torn_per_mille = random.one_of(&[0, 200, 700]);
            let survive_per_mille = random.one_of(&[0, 500, 1000]);
            for (number, write) in writes.iter().enumerate() {
                let is_torn = number == surely || random.per_mille(torn_per_mille);
                if fate == Fate::Torn && is_torn {
                    write.tear_surely(&mut image, tearing, random);
                    continue;
                }
                let is_there = match fate {
                    Fate::Kept => true,
                    Fate::Lost => false,
                    Fate::Any | Fate::Torn => random.per_mille(survive_per_mille),
                };
                if is_there {
                    write.apply(&mut image.medium);
                }
            }
        }
        image
    }

    /// Returns up to `limit` media that may be found. If there are so few subsets of whole writes,
    /// all of them are returned. Otherwise the subsets are those with none, all, all but one, only
    /// one, and all before one. For the rest, the seed tears writes.
    pub fn images(&self, limit: usize, tearing: Tearing, random: &mut Random) -> Vec<Image> {
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
        let whole = subsets.iter().map(|subset| Image::of(self.with(subset)));
        let mut media: Vec<Image> = whole.collect();
        if tearing != Tearing::Never && count > 0 {
            media.extend((media.len()..limit).map(|_| self.image(tearing, random)));
        }
        media
    }

    /// Returns the content if exactly these loose writes survived.
    pub fn with(&self, survivors: &BTreeSet<usize>) -> Medium {
        let mut medium = self.durable.clone();
        for survivor in survivors {
            self.loose[*survivor].apply(&mut medium);
        }
        medium
    }
}

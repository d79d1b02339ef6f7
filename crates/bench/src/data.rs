//! Written data: bytes that a target can or cannot compress and deduplicate.
//!
//! A target that compresses or deduplicates answers zeros faster than data. So the pattern is part
//! of every result, and the bytes have the properties that the pattern's name states:
//!
//! - `zeros`: as `dd if=/dev/zero` writes; a thin target may not even store them;
//! - `repeating`: each write holds one byte value throughout, as IOmeter's default does;
//! - `random`: cannot be compressed. The bytes come from 16 MiB made once, so a deduplicating
//!   target finds blocks again after 4,096 pages;
//! - `compressible:C`: C percent of each 4 KiB page are zeros, and no two pages are equal;
//! - `duplicated:D`: D percent of the pages are one of 16 that return all the time; all other pages
//!   are unique, and cannot be compressed;
//! - `mixed:C:D`: both properties.
//!
//! The first three patterns cost nothing while measuring; the others are made page by page.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::deck::Deck;
use super::random::Random;
use block::{Pages, PagesMut};
use pages::{PAGE_SIZE, Page, PageMut};

/// Length of the pool of random bytes that is made once.
const POOL: usize = 16 << 20;

/// Number of distinct pages from which a duplicating pattern takes its duplicates.
const DUPLICATES: u64 = 16;

/// Pattern of the bytes; the module describes the patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum DataPattern {
    /// Zeros only.
    Zeros,
    /// One byte value per write.
    Repeating,
    /// Incompressible, from a pool.
    #[default]
    Random,
    /// Pages made one by one.
    Mixed {
        /// Share of zeros in each page, in percent.
        compressible_percent: u8,
        /// Share of pages that return, in percent.
        duplicated_percent: u8,
    },
}

impl fmt::Display for DataPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Zeros => f.write_str("zeros"),
            Self::Repeating => f.write_str("repeating"),
            Self::Random => f.write_str("random"),
            Self::Mixed {
                compressible_percent,
                duplicated_percent,
            } => match (compressible_percent, duplicated_percent) {
                (compressible, 0) => write!(f, "compressible:{compressible}"),
                (0, duplicated) => write!(f, "duplicated:{duplicated}"),
                (compressible, duplicated) => write!(f, "mixed:{compressible}:{duplicated}"),
            },
        }
    }
}

impl FromStr for DataPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a pattern; choose zeros, repeating, random, compressible:PERCENT, \
                 duplicated:PERCENT or mixed:COMPRESSIBLE:DUPLICATED"
            )
        };
        let percent = |text: &str| match text.trim_end_matches('%').parse() {
            Ok(percent @ 0..=100) => Ok(percent),
            _ => Err(wrong()),
        };
        let mixed = |compressible_percent, duplicated_percent| Self::Mixed {
            compressible_percent,
            duplicated_percent,
        };
        let words: Vec<&str> = text.split(':').collect();
        Ok(match words[..] {
            ["zeros"] => Self::Zeros,
            ["repeating"] => Self::Repeating,
            ["random"] => Self::Random,
            ["compressible", share] => mixed(percent(share)?, 0),
            ["duplicated", share] => mixed(0, percent(share)?),
            ["mixed", compressible, duplicated] => {
                mixed(percent(compressible)?, percent(duplicated)?)
            }
            _ => return Err(wrong()),
        })
    }
}

impl From<DataPattern> for String {
    fn from(pattern: DataPattern) -> Self {
        pattern.to_string()
    }
}

impl TryFrom<String> for DataPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Source of one worker's written bytes.
#[derive(Debug)]
pub struct DataSource {
    random: Random,
    kind: DataKind,
}

#[derive(Debug)]
enum DataKind {
    /// Zeros, cut to length.
    Zeros(Pages),
    /// One run of pages for each byte value.
    Repeating(Vec<Pages>),
    /// Pool from which any piece is cut.
    Pool(Pages),
    Made(Maker),
}

impl DataSource {
    /// Creates a source for writes of at most `largest` bytes.
    pub fn new(pattern: DataPattern, largest: u32, mut random: Random) -> Self {
        let kind = match pattern {
            DataPattern::Zeros => DataKind::Zeros(Pages::zeroes(largest)),
            DataPattern::Repeating => {
                DataKind::Repeating((0..=255).map(|byte| repeated(byte, largest)).collect())
            }
            DataPattern::Random => DataKind::Pool(pool(&mut random, POOL.max(largest as usize))),
            DataPattern::Mixed {
                compressible_percent,
                duplicated_percent,
            } => DataKind::Made(Maker::new(
                compressible_percent,
                duplicated_percent,
                &mut random,
            )),
        };
        Self { random, kind }
    }

    /// Returns the bytes of the next write.
    #[inline]
    pub fn next_bytes(&mut self, len: u32) -> Pages {
        let bytes = len as usize;
        match &mut self.kind {
            DataKind::Zeros(zeros) => zeros.slice(0..bytes),
            DataKind::Repeating(runs) => {
                let value = self.random.below(runs.len() as u64) as usize;
                runs[value].slice(0..bytes)
            }
            DataKind::Pool(pool) => {
                let places = (pool.len() - bytes) / PAGE_SIZE + 1;
                let start = self.random.below(places as u64) as usize * PAGE_SIZE;
                pool.slice(start..start + bytes)
            }
            DataKind::Made(maker) => maker.make(bytes, &mut self.random),
        }
    }
}

fn repeated(byte: u8, len: u32) -> Pages {
    let mut page = PageMut::zeroed();
    page.fill(byte);
    let page = page.freeze();
    let count = (len as usize).div_ceil(PAGE_SIZE);
    Pages::from_pages((0..count).map(|_| page.clone()), 0, len)
}

fn pool(random: &mut Random, len: usize) -> Pages {
    let mut pages = PagesMut::allocate(len);
    for chunk in pages.chunks_mut(0, len) {
        random.fill(chunk);
    }
    pages.mark_filled(0, len);
    pages.freeze()
}

/// Maker of single pages.
#[derive(Debug)]
struct Maker {
    /// Number of incompressible bytes at the start of each page.
    dense: usize,
    duplicated: Deck,
    duplicates: Vec<Page>,
    template: PageMut,
}

impl Maker {
    fn new(compressible_percent: u8, duplicated_percent: u8, random: &mut Random) -> Self {
        let dense = PAGE_SIZE - PAGE_SIZE * usize::from(compressible_percent) / 100;
        let mut template = PageMut::zeroed();
        let mut duplicate = || {
            random.fill(&mut template[..dense]);
            PageMut::copy_of(&template).freeze()
        };
        Self {
            dense,
            duplicated: Deck::yes(duplicated_percent),
            duplicates: (0..DUPLICATES).map(|_| duplicate()).collect(),
            template,
        }
    }

    fn make(&mut self, len: usize, random: &mut Random) -> Pages {
        let pages = (0..len.div_ceil(PAGE_SIZE)).map(|_| {
            if self.duplicated.says_yes(random) {
                return self.duplicates[random.below(DUPLICATES) as usize].clone();
            }
            // Each 256 bytes get other bytes. This makes the page unique even for a target that
            // looks at blocks of 512 bytes, and is far cheaper than a page of new random bytes.
            let mut page = PageMut::copy_of(&self.template);
            let mark = random.next_u64().to_le_bytes();
            for start in (0..self.dense).step_by(256) {
                let end = (start + mark.len()).min(self.dense);
                page[start..end].copy_from_slice(&mark[..end - start]);
            }
            page.freeze()
        });
        let pages: Vec<Page> = pages.collect();
        Pages::from_pages(pages.into_iter(), 0, len as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn pages(pattern: &str, count: usize) -> Vec<Vec<u8>> {
        let pattern = pattern.parse().expect("a pattern");
        let mut source = DataSource::new(pattern, 64 << 10, Random::new(1));
        let pages = (0..count.div_ceil(16)).flat_map(|_| {
            let bytes = source.next_bytes(64 << 10).to_vec();
            bytes
                .chunks(PAGE_SIZE)
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        });
        pages.take(count).collect()
    }

    fn zeros_at_the_end(page: &[u8]) -> usize {
        page.iter().rev().take_while(|byte| **byte == 0).count()
    }

    #[test]
    fn patterns_are_written_as_they_are_read() {
        for text in [
            "zeros",
            "repeating",
            "random",
            "compressible:50",
            "duplicated:30",
            "mixed:50:30",
        ] {
            let pattern: DataPattern = text.parse().expect(text);
            assert_eq!(pattern.to_string(), text);
        }
        for text in [
            "",
            "ones",
            "compressible",
            "compressible:101",
            "mixed:1",
            "random:1",
        ] {
            assert!(text.parse::<DataPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn plain_patterns_are_what_they_are_called() {
        assert!(pages("zeros", 32).iter().flatten().all(|byte| *byte == 0));
        for page in pages("repeating", 64) {
            assert!(page.iter().all(|byte| *byte == page[0]));
        }
        let random = pages("random", 64).concat();
        let ones: u32 = random.iter().map(|byte| byte.count_ones()).sum();
        let bits = random.len() as u32 * 8;
        assert!(ones.abs_diff(bits / 2) < bits / 500, "{ones} of {bits}");
    }

    #[test]
    fn shares_of_a_mixed_pattern_are_true() {
        let pages = pages("mixed:25:40", 4000);
        for page in &pages {
            assert!((1024..1034).contains(&zeros_at_the_end(page)));
        }
        let mut seen: HashMap<&[u8], u32> = HashMap::new();
        for page in &pages {
            *seen.entry(page).or_default() += 1;
        }
        let unique = seen.values().filter(|count| **count == 1).count();
        assert_eq!(unique, 2400, "60 percent are unlike any other");
        assert_eq!(seen.len(), 2416);
    }

    #[test]
    fn every_half_kibibyte_of_a_new_page_is_new() {
        let pages = pages("compressible:0", 64).concat();
        let mut blocks: Vec<&[u8]> = pages.chunks(512).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 64 * 8);
    }
}

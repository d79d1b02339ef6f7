//! Search and change of the bits of one region, a word at a time. All that must be fast in a full
//! and fragmented pool is here. A set bit is a sector in use.

/// Number of sectors of a region: 16 MiB.
pub(super) const REGION: u32 = 4096;
/// Number of words of a region.
const WORDS: usize = (REGION / u64::BITS) as usize;

/// Bits of one region.
pub(super) type Region = [u64; WORDS];
/// Region in which all sectors are in use.
pub(super) const FULL: Region = [u64::MAX; WORDS];

/// Returns the words that hold `length` bits from `start` on, each with a mask of those bits.
fn masks(start: u32, length: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = start + length;
    let mut at = start;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let bit = at % u64::BITS;
            let bits = (u64::BITS - bit).min(end - at);
            let word = at / u64::BITS;
            at += bits;
            (word as usize, u64::MAX >> (u64::BITS - bits) << bit)
        })
    })
}

/// Sets bits.
#[inline]
pub(super) fn set(region: &mut Region, start: u32, length: u32) {
    masks(start, length).for_each(|(word, mask)| region[word] |= mask);
}

/// Clears bits, and returns how many of them were set.
#[inline]
pub(super) fn clear(region: &mut Region, start: u32, length: u32) -> u32 {
    masks(start, length)
        .map(|(word, mask)| {
            let count = (region[word] & mask).count_ones();
            region[word] &= !mask;
            count
        })
        .sum()
}

/// Returns how many of these bits are set.
#[inline]
pub(super) fn count(region: &Region, start: u32, length: u32) -> u32 {
    masks(start, length)
        .map(|(word, mask)| (region[word] & mask).count_ones())
        .sum()
}

/// Returns the first bit from `from` on that differs from the bits of `other`, or the region's end.
#[inline]
fn next_unlike(region: &Region, from: u32, other: u64) -> u32 {
    let mut word = (from / u64::BITS) as usize;
    let mut mask = u64::MAX << (from % u64::BITS);
    while word < WORDS {
        let unlike = (region[word] ^ other) & mask;
        if unlike != 0 {
            return word as u32 * u64::BITS + unlike.trailing_zeros();
        }
        mask = u64::MAX;
        word += 1;
    }
    REGION
}

/// Returns the runs of clear bits, ascending, as start and length.
pub(super) fn runs(region: &Region) -> impl Iterator<Item = (u32, u32)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = next_unlike(region, at, u64::MAX);
        (start < REGION).then(|| {
            at = next_unlike(region, start, 0);
            (start, at - start)
        })
    })
}

/// Returns the start of the first run of at least `length` clear bits, not before `from`. If `from`
/// lies in a run, the run counts from there.
#[inline]
pub(super) fn find(region: &Region, from: u32, length: u32) -> Option<u32> {
    if from >= REGION {
        None
    } else if length <= u64::BITS {
        find_short(region, from, length)
    } else {
        find_long(region, from, length)
    }
}

/// Finds a short run, with all starts in a word at once. A run of n clear bits begins where n
/// shifted copies of the free bits agree. Each step doubles the number of copies.
#[inline]
fn find_short(region: &Region, from: u32, length: u32) -> Option<u32> {
    let first = (from / u64::BITS) as usize;
    let mut mask = u64::MAX << (from % u64::BITS);
    for word in first..WORDS {
        let free = !region[word] & mask;
        mask = u64::MAX;
        if free == 0 {
            continue;
        }
        let starts = if length == 1 {
            free
        } else {
            let following = region.get(word + 1).map_or(0, |next| !next);
            let both = u128::from(following) << u64::BITS | u128::from(free);
            starts_of_runs(both, length) as u64
        };
        if starts != 0 {
            return Some(word as u32 * u64::BITS + starts.trailing_zeros());
        }
    }
    None
}

/// Returns the bits at which at least `length` set bits begin.
#[inline]
fn starts_of_runs(mut free: u128, length: u32) -> u128 {
    let mut reached = 1;
    while reached < length {
        let step = reached.min(length - reached);
        free &= free >> step;
        reached += step;
    }
    free
}

fn find_long(region: &Region, from: u32, length: u32) -> Option<u32> {
    let mut at = from;
    loop {
        let start = next_unlike(region, at, u64::MAX);
        if start + length > REGION {
            return None;
        }
        at = next_unlike(region, start, 0);
        if at - start >= length {
            return Some(start);
        }
    }
}

/// Returns the number of clear bits from `start` on, counted up to `most`.
#[inline]
pub(super) fn run_at(region: &Region, start: u32, most: u32) -> u32 {
    (next_unlike(region, start, 0) - start).min(most)
}

/// Returns the length of the longest run of clear bits.
pub(super) fn longest(region: &Region) -> u32 {
    let (mut longest, mut carried) = (0, 0);
    for word in region {
        let free = !word;
        if free == u64::MAX {
            carried += u64::BITS;
            continue;
        }
        longest = longest.max(carried + free.trailing_ones());
        carried = free.leading_ones();
        // A free bit inside of the word ends below it, so the length 64 is never asked for here.
        if longest < u64::BITS {
            let mut starts = starts_of_runs(u128::from(free), longest + 1);
            while starts != 0 {
                longest += 1;
                starts &= u128::from(free) >> longest;
            }
        }
    }
    longest.max(carried)
}

/// Returns the length of the run of clear bits that contains these clear bits.
pub(super) fn run_around(region: &Region, start: u32, length: u32) -> u32 {
    let mut first = start;
    while first > 0 {
        let word = ((first - 1) / u64::BITS) as usize;
        let bits = (first - 1) % u64::BITS + 1;
        let below = region[word] << (u64::BITS - bits);
        let clear = below.leading_zeros().min(bits);
        first -= clear;
        if clear < bits {
            break;
        }
    }
    next_unlike(region, start + length - 1, 0) - first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates regions of runs of all lengths, from crumbs to hundreds of sectors.
    fn regions() -> impl Strategy<Value = Region> {
        let runs = prop::collection::vec(
            prop_oneof![4 => 1..6_u32, 2 => 1..70_u32, 1 => 60..700_u32],
            1..400,
        );
        (runs, any::<bool>()).prop_map(|(runs, mut is_set)| {
            let mut region = [0; WORDS];
            let mut at = 0;
            for run in runs {
                let run = run.min(REGION - at);
                if is_set {
                    set(&mut region, at, run);
                }
                is_set = !is_set;
                at += run;
            }
            region
        })
    }

    fn bit(region: &Region, at: u32) -> bool {
        region[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    /// Finds the runs one bit after the other.
    fn plain_runs(region: &Region, from: u32) -> Vec<(u32, u32)> {
        let mut runs = Vec::new();
        for at in from..REGION {
            if !bit(region, at) {
                match runs.last_mut() {
                    Some((start, length)) if *start + *length == at => *length += 1,
                    _ => runs.push((at, 1)),
                }
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn searches_find_what_plain_counting_finds(
            region in regions(),
            from in 0..=REGION,
            length in prop_oneof![1..6_u32, 1..140_u32, 1..=REGION],
        ) {
            let from_there = plain_runs(&region, from);
            let expected = from_there.iter().find(|run| run.1 >= length).map(|run| run.0);
            prop_assert_eq!(find(&region, from, length), expected);
            let all = plain_runs(&region, 0);
            prop_assert_eq!(longest(&region), all.iter().map(|run| run.1).max().unwrap_or(0));
            prop_assert_eq!(runs(&region).collect::<Vec<_>>(), all.clone());
            for (start, length) in all {
                let inside = from % length;
                prop_assert_eq!(run_around(&region, start + inside, 1), length);
                prop_assert_eq!(run_around(&region, start + inside, length - inside), length);
                prop_assert_eq!(run_at(&region, start + inside, REGION), length - inside);
            }
        }

        #[test]
        fn ranges_change_their_bits_and_no_others(
            region in regions(), start in 0..REGION, length in 0..=REGION,
        ) {
            let length = length.min(REGION - start);
            let inside = |at| (start..start + length).contains(&at);
            let (mut filled, mut cleared) = (region, region);
            set(&mut filled, start, length);
            let were_set = clear(&mut cleared, start, length);
            prop_assert_eq!(were_set, count(&region, start, length));
            prop_assert_eq!(were_set, (start..start + length).filter(|at| bit(&region, *at)).count() as u32);
            for at in 0..REGION {
                prop_assert_eq!(bit(&filled, at), inside(at) || bit(&region, at));
                prop_assert_eq!(bit(&cleared, at), !inside(at) && bit(&region, at));
            }
        }
    }
}

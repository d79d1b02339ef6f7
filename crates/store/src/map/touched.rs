//! Estimates of the most nodes of a tree that changes touch. A checkpoint writes each of these
//! nodes anew, so there must be room for them before a change is taken.

use std::ops::RangeInclusive;

use crate::format::node::FAN_OUT;

const BITS: u32 = FAN_OUT.trailing_zeros();

/// Returns the number of leaves that these blocks lie in.
pub fn leaves_over(blocks: &RangeInclusive<u64>) -> u64 {
    (blocks.end() >> BITS) - (blocks.start() >> BITS) + 1
}

/// Returns the number of nodes above changed blocks in a tree of `height` levels. The blocks lie in
/// `leaves` leaves, all between the first and the last of `blocks`. In each level at most as many
/// nodes are touched as in the level below.
pub fn nodes_over(blocks: &RangeInclusive<u64>, leaves: u64, height: u8) -> u64 {
    let shifts = (1..=u32::from(height)).map(|level| level * BITS);
    let spans = shifts.map(|shift| {
        let node = |block: &u64| block.checked_shr(shift).unwrap_or(0);
        node(blocks.end()) - node(blocks.start()) + 1
    });
    spans.map(|span| span.min(leaves)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_side_by_side_share_a_path() {
        assert_eq!(nodes_over(&(0..=511), 1, 1), 1);
        assert_eq!(nodes_over(&(0..=511), 1, 4), 4);
        assert_eq!(nodes_over(&(511..=512), 2, 2), 3);
        // Two halves of a tree have two paths, which meet in the root.
        assert_eq!(nodes_over(&(0..=(1 << 27)), 2, 4), 7);
    }

    #[test]
    fn no_level_has_more_than_the_one_below() {
        assert_eq!(nodes_over(&(0..=(1 << 36) - 1), 10, 4), 31);
        assert_eq!(nodes_over(&(0..=(1 << 62)), 3, 7), 3 * 6 + 1);
    }
}

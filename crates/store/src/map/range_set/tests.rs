//! Tests of ranges against a set of numbers.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn ranges_are_the_set_of_their_members(
        ranges in prop::collection::vec((0..200_u64, 0..30_u64), 0..40),
        (start, len) in (0..200_u64, 0..60_u64),
    ) {
        let mut set = RangeSet::new();
        let mut model = BTreeSet::new();
        for (start, len) in ranges {
            set.insert(start..start + len);
            model.extend(start..start + len);
        }
        let members: Vec<_> = set.iter().flatten().collect();
        prop_assert!(members.iter().copied().eq(model.iter().copied()));
        let apart: Vec<_> = set.iter().collect();
        prop_assert!(apart.windows(2).all(|pair| pair[0].end < pair[1].start));
        prop_assert_eq!(apart.len(), set.len());
        let range = start..start + len;
        prop_assert_eq!(set.contains(start), model.contains(&start));
        prop_assert_eq!(set.next(start), model.range(start..).next().copied());
        prop_assert_eq!(set.covers(&range), range.clone().all(|at| model.contains(&at)));
        let within: Vec<_> = set.within(range.clone()).flatten().collect();
        prop_assert!(within.into_iter().eq(model.range(range).copied()));
    }
}

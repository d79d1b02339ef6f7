//! Serial number arithmetic (RFC 1982, 32 bits), to compare CmdSN, StatSN and DataSN once they
//! wrap.
//!
//! A plain `<` is wrong for every sequence number of iSCSI (RFC 7143 §4.2.2.1), because the numbers
//! lie on a circle. Two numbers exactly 2^31 apart are not ordered. Here neither is then "before"
//! the other.

use std::cmp::Ordering;

/// Compares `a` with `b`. Returns `None` if they are exactly 2^31 apart.
#[inline]
pub const fn compare(a: u32, b: u32) -> Option<Ordering> {
    let distance = a.wrapping_sub(b).cast_signed();
    match distance {
        0 => Some(Ordering::Equal),
        i32::MIN => None,
        d if d < 0 => Some(Ordering::Less),
        _ => Some(Ordering::Greater),
    }
}

/// Reports whether `a` precedes `b`.
#[inline]
pub const fn before(a: u32, b: u32) -> bool {
    let distance = a.wrapping_sub(b).cast_signed();
    distance < 0 && distance != i32::MIN
}

/// Reports whether `a` precedes `b` or is `b`.
#[inline]
pub const fn at_or_before(a: u32, b: u32) -> bool {
    a == b || before(a, b)
}

/// Reports whether `first ≤ value ≤ last` on the circle: the CmdSN window test (RFC 7143 §4.2.2.1).
/// An empty window is written as `last == first - 1`.
#[inline]
pub const fn in_window(value: u32, first: u32, last: u32) -> bool {
    at_or_before(first, value) && at_or_before(value, last)
}

/// Returns the number of values in `first..=last`, or 0 if `last` precedes `first`.
#[inline]
pub const fn window_size(first: u32, last: u32) -> u32 {
    if at_or_before(first, last) {
        last.wrapping_sub(first).wrapping_add(1)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wraps() {
        assert!(before(u32::MAX, 0));
        assert!(!before(0, u32::MAX));
        assert!(in_window(1, u32::MAX, 3));
        assert!(!in_window(4, u32::MAX, 3));
        assert!(!in_window(0, 0, u32::MAX), "an empty window holds nothing");
        assert_eq!(window_size(u32::MAX, 3), 5);
        assert_eq!(window_size(0, u32::MAX), 0);
        assert_eq!(compare(0, 1 << 31), None);
    }

    proptest! {
        #[test]
        fn adding_less_than_half_the_circle_goes_forward(a: u32, step in 1..(1u32 << 31)) {
            prop_assert!(before(a, a.wrapping_add(step)));
            prop_assert!(!before(a.wrapping_add(step), a));
            prop_assert_eq!(compare(a, a.wrapping_add(step)), Some(Ordering::Less));
        }

        #[test]
        fn window_size_counts_members(first: u32, size in 0u32..64) {
            let last = first.wrapping_add(size).wrapping_sub(1);
            prop_assert_eq!(window_size(first, last), size);
            let members = (0..128u32).filter(|i| in_window(first.wrapping_sub(32).wrapping_add(*i), first, last)).count();
            prop_assert_eq!(members, size as usize);
        }
    }
}

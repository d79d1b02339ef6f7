//! Parity of raidz: the field GF(2⁸) with the polynomial x⁸+x⁴+x³+x²+1 (0x11d) and the generator 2,
//! and its arithmetic over whole sectors.
//!
//! With data columns D₀…Dₙ₋₁ the parity columns are P = ΣDₖ, Q = Σ2ⁿ⁻¹⁻ᵏ·Dₖ and R = Σ4ⁿ⁻¹⁻ᵏ·Dₖ, as
//! in ZFS. All loops run over byte arrays of fixed size and without branches, so that the compiler
//! makes vector code of them.

/// Bytes processed at once: a multiple of every vector's width.
const LANE: usize = 64;
type Lane = [u8; LANE];

const POLYNOMIAL: u8 = 0x1d;

/// Returns a number times 2.
const fn double(value: u8) -> u8 {
    // The carry is all ones if the top bit falls out.
    let carry = 0_u8.wrapping_sub(value >> 7);
    (value << 1) ^ (carry & POLYNOMIAL)
}

/// Powers of 2, and their exponents.
const POWERS: ([u8; 255], [u8; 256]) = {
    let (mut powers, mut exponents) = ([0; 255], [0; 256]);
    let (mut value, mut exponent) = (1_u8, 0);
    while exponent < 255 {
        powers[exponent] = value;
        exponents[value as usize] = exponent as u8;
        value = double(value);
        exponent += 1;
    }
    (powers, exponents)
};

/// Returns `base` to the power of `exponent`; `base` is not 0.
pub(in crate::vdev) fn power(base: u8, exponent: usize) -> u8 {
    POWERS.0[usize::from(POWERS.1[usize::from(base)]) * exponent % 255]
}

/// Returns the product of two numbers.
pub(in crate::vdev) fn product(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    let exponent =
        usize::from(POWERS.1[usize::from(left)]) + usize::from(POWERS.1[usize::from(right)]);
    POWERS.0[exponent % 255]
}

/// Returns one divided by `value`, which is not 0.
pub(in crate::vdev) fn inverse(value: u8) -> u8 {
    POWERS.0[(255 - usize::from(POWERS.1[usize::from(value)])) % 255]
}

fn lanes<'a>(
    target: &'a mut [u8],
    source: &'a [u8],
) -> impl Iterator<Item = (&'a mut Lane, &'a Lane)> {
    let (targets, rest) = target.as_chunks_mut::<LANE>();
    let (sources, _) = source.as_chunks::<LANE>();
    debug_assert!(
        rest.is_empty() && targets.len() == sources.len(),
        "whole sectors"
    );
    targets.iter_mut().zip(sources)
}

/// Computes `target += source`.
pub(in crate::vdev) fn add(target: &mut [u8], source: &[u8]) {
    for (target, source) in lanes(target, source) {
        for at in 0..LANE {
            target[at] ^= source[at];
        }
    }
}

/// Computes `target = 2·target + source`.
pub(in crate::vdev) fn double_and_add(target: &mut [u8], source: &[u8]) {
    for (target, source) in lanes(target, source) {
        for at in 0..LANE {
            target[at] = double(target[at]) ^ source[at];
        }
    }
}

/// Computes `target = 4·target + source`.
pub(in crate::vdev) fn quadruple_and_add(target: &mut [u8], source: &[u8]) {
    for (target, source) in lanes(target, source) {
        for at in 0..LANE {
            target[at] = double(double(target[at])) ^ source[at];
        }
    }
}

/// Computes `target = 2·target`.
pub(in crate::vdev) fn double_all(target: &mut [u8]) {
    target.iter_mut().for_each(|byte| *byte = double(*byte));
}

/// Computes `target += factor·source`.
pub(in crate::vdev) fn add_product(target: &mut [u8], source: &[u8], factor: u8) {
    // A mask is all ones for each set bit of the factor.
    let masks: [u8; 8] = std::array::from_fn(|bit| 0_u8.wrapping_sub(factor >> bit & 1));
    for (target, source) in lanes(target, source) {
        let mut multiple = *source;
        for mask in masks {
            for at in 0..LANE {
                target[at] ^= multiple[at] & mask;
                multiple[at] = double(multiple[at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies by the book: shift and subtract.
    fn slow_product(left: u8, right: u8) -> u8 {
        let mut product = 0_u16;
        for bit in 0..8 {
            if right >> bit & 1 == 1 {
                product ^= u16::from(left) << bit;
            }
        }
        for bit in (8..15).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11d << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn it_is_the_field() {
        for left in 0..=255 {
            for right in 0..=255 {
                assert_eq!(product(left, right), slow_product(left, right));
            }
            assert_eq!(double(left), slow_product(left, 2));
            if left != 0 {
                assert_eq!(product(left, inverse(left)), 1);
                assert_eq!(power(left, 0), 1);
                assert_eq!(power(left, 3), product(left, product(left, left)));
            }
        }
    }

    #[test]
    fn whole_sectors_are_as_their_bytes() {
        let source: Vec<u8> = (0..4096).map(|at| (at * 31 + at / 256) as u8).collect();
        let before: Vec<u8> = (0..4096).map(|at| (at * 7 + 3 + at / 99) as u8).collect();
        let check = |change: &dyn Fn(&mut [u8], &[u8]), byte: &dyn Fn(u8, u8) -> u8| {
            let mut target = before.clone();
            change(&mut target, &source);
            for at in 0..4096 {
                assert_eq!(target[at], byte(before[at], source[at]), "byte {at}");
            }
        };
        check(&add, &|old, new| old ^ new);
        check(&double_and_add, &|old, new| slow_product(old, 2) ^ new);
        check(&quadruple_and_add, &|old, new| slow_product(old, 4) ^ new);
        check(&|target, _| double_all(target), &|old, _| {
            slow_product(old, 2)
        });
        for factor in 0..=255 {
            check(
                &|target, source| add_product(target, source, factor),
                &|old, new| old ^ slow_product(new, factor),
            );
        }
    }
}

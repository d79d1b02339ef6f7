//! Numbers in 16 bits: six bits of exponent and ten of mantissa, so each is known to half a
//! thousandth of its value.
//!
//! They reach from 3 × 10⁻⁵ to 2.8 × 10¹⁴. Smaller numbers are zero, larger ones are the largest.

/// Code of a value that does not exist.
const NONE: u16 = u16::MAX;
/// Code of the largest value.
const LARGEST: u16 = NONE - 1;
/// Bits of an `f64` below the mantissa that is kept.
const DROPPED: u32 = 42;
/// Exponent, in the code, of the value 1.
const EXPONENT_OF_ONE: u64 = 16;
/// Exponent, in an `f64`, of the value 1.
const BIAS: u64 = 1023;

/// Encodes a value that is not negative.
pub(crate) fn pack(value: Option<f64>) -> u16 {
    let Some(value) = value.filter(|value| !value.is_nan()) else {
        return NONE;
    };
    // The exponent and the mantissa of an f64 are one number, so a carry needs no care.
    let rounded = (value.max(0.0).to_bits() + (1 << (DROPPED - 1))) >> DROPPED;
    let code = rounded.saturating_sub((BIAS - EXPONENT_OF_ONE) << 10);
    match code {
        // Codes of exponent zero would not tell small values from zero.
        ..1024 => 0,
        code => u16::try_from(code).map_or(LARGEST, |code| code.min(LARGEST)),
    }
}

/// Decodes a value.
pub(crate) fn unpack(code: u16) -> Option<f64> {
    match code {
        NONE => None,
        ..1024 => Some(0.0),
        code => {
            let bits = u64::from(code) + ((BIAS - EXPONENT_OF_ONE) << 10);
            Some(f64::from_bits(bits << DROPPED))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_is_known_to_half_a_thousandth(value in 3.1e-5f64..2.8e14) {
            let told = unpack(pack(Some(value))).expect("a value");
            prop_assert!((told - value).abs() <= value / 2000.0, "{value} became {told}");
        }

        #[test]
        fn every_code_stays_itself(code: u16) {
            let again = pack(unpack(code));
            let expected = if code < 1024 { 0 } else { code };
            prop_assert_eq!(again, expected);
        }
    }

    #[test]
    fn values_beyond_the_range_are_at_its_ends() {
        for (value, expected) in [
            (Some(0.0), Some(0.0)),
            (Some(-1.0), Some(0.0)),
            (Some(1e-9), Some(0.0)),
            (Some(1.0), Some(1.0)),
            (Some(1e300), unpack(LARGEST)),
            (Some(f64::INFINITY), unpack(LARGEST)),
            (Some(f64::NAN), None),
            (None, None),
        ] {
            assert_eq!(unpack(pack(value)), expected, "{value:?}");
        }
        assert!(unpack(LARGEST) > Some(2.8e14));
    }
}

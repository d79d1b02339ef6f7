//! Logical unit numbers of one level (SAM-5 4.7): eight bytes on the wire, in one of two forms
//! below 256.
//!
//! Initiators write 0001h (peripheral device addressing) or 4001h (flat space addressing) for one
//! unit. Some use one form in commands and the other in task management functions. So two LUNs are
//! compared by [`is_same`], never as bytes.

/// LUN below which peripheral device addressing is used.
const PERIPHERAL: u16 = 256;

/// Reads the LUN of a single-level structure in peripheral device (below 256) or flat space
/// addressing.
#[inline]
pub fn from_wire(wire: u64) -> Option<u16> {
    let [a, b, rest @ ..] = wire.to_be_bytes();
    if rest != [0; 6] {
        return None;
    }
    match a >> 6 {
        0b00 if a == 0 => Some(u16::from(b)),
        0b01 => Some(u16::from_be_bytes([a & 0x3f, b])),
        _ => None,
    }
}

/// Writes a LUN, as the inverse of [`from_wire`]: peripheral device addressing below 256, flat
/// space above.
pub fn to_wire(lun: u16) -> u64 {
    let method = if lun < PERIPHERAL { 0 } else { 0x4000 };
    u64::from(lun | method) << 48
}

/// Reports whether two LUNs on the wire name one unit. Two LUNs that name no unit are equal if
/// their bytes are.
pub fn is_same(a: u64, b: u64) -> bool {
    a == b || from_wire(a).is_some_and(|lun| from_wire(b) == Some(lun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_round_trip_in_both_addressing_methods() {
        for lun in [0, 1, 255, 256, 16_383] {
            assert_eq!(from_wire(to_wire(lun)), Some(lun));
        }
        assert_eq!(
            from_wire(0x4001_0000_0000_0000),
            Some(1),
            "flat space below 256"
        );
        assert_eq!(from_wire(0x0101_0000_0000_0000), None, "another bus");
        assert_eq!(from_wire(0x0001_0001_0000_0000), None, "a second level");
        assert_eq!(from_wire(0xc101_0000_0000_0000), None, "a well-known LUN");
    }

    #[test]
    fn luns_are_the_same_in_either_way() {
        let (peripheral, flat) = (0x0001_0000_0000_0000, 0x4001_0000_0000_0000);
        assert!(is_same(peripheral, flat) && is_same(flat, peripheral));
        assert!(!is_same(peripheral, 0x4002_0000_0000_0000));
        // These two name no unit.
        let (bus, well_known) = (0x0101_0000_0000_0000, 0xc101_0000_0000_0000);
        assert!(is_same(bus, bus) && !is_same(bus, well_known));
        assert!(!is_same(bus, peripheral));
    }
}

//! What one session sees: its logical units by LUN.

use std::collections::BTreeMap;
use std::sync::Arc;

use scsi::itl_nexus::ItlNexus;
use scsi::view::TargetView;

use super::unit::MappedUnit;

/// LUNs below this are found by an array index.
const DIRECT: u16 = 256;

/// The logical units of one session.
#[derive(Debug, Default)]
pub(super) struct View {
    direct: Vec<Option<Arc<MappedUnit>>>,
    others: BTreeMap<u16, Arc<MappedUnit>>,
}

impl View {
    /// The unit that the wire's eight bytes of LUN name (SAM-5 4.6), if it is mapped.
    #[inline]
    pub(super) fn find(&self, wire_lun: u64) -> Option<&Arc<MappedUnit>> {
        let lun = lun_from_wire(wire_lun)?;
        if lun < DIRECT {
            self.direct.get(usize::from(lun))?.as_ref()
        } else {
            self.others.get(&lun)
        }
    }

    /// Maps a unit.
    pub(super) fn insert(&mut self, mapped: Arc<MappedUnit>) {
        let lun = mapped.lun;
        if lun >= DIRECT {
            self.others.insert(lun, mapped);
            return;
        }
        let at = usize::from(lun);
        if self.direct.len() <= at {
            self.direct.resize(at + 1, None);
        }
        self.direct[at] = Some(mapped);
    }

    /// All mapped units, ascending by LUN.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<MappedUnit>> {
        self.direct.iter().flatten().chain(self.others.values())
    }
}

impl TargetView for View {
    fn luns(&self) -> Vec<u64> {
        self.iter().map(|mapped| lun_to_wire(mapped.lun)).collect()
    }

    fn itl_nexuses(&self) -> Vec<Arc<ItlNexus>> {
        self.iter().map(|mapped| mapped.itl.clone()).collect()
    }

    fn by_naa(&self, naa: &[u8]) -> Option<Arc<ItlNexus>> {
        self.iter()
            .find(|mapped| mapped.itl.unit().config().naa == naa)
            .map(|mapped| mapped.itl.clone())
    }
}

/// The LUN of a single-level structure in peripheral device (below 256) or flat space addressing.
pub(super) fn lun_from_wire(wire: u64) -> Option<u16> {
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

/// The inverse: peripheral device addressing below 256, flat space above.
pub(super) fn lun_to_wire(lun: u16) -> u64 {
    let method = if lun < DIRECT { 0 } else { 0x4000 };
    u64::from(lun | method) << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_round_trip_in_both_addressing_methods() {
        for lun in [0, 1, 255, 256, 16_383] {
            assert_eq!(lun_from_wire(lun_to_wire(lun)), Some(lun));
        }
        assert_eq!(
            lun_from_wire(0x4001_0000_0000_0000),
            Some(1),
            "flat space below 256"
        );
        assert_eq!(lun_from_wire(0x0101_0000_0000_0000), None, "another bus");
        assert_eq!(lun_from_wire(0x0001_0001_0000_0000), None, "a second level");
        assert_eq!(
            lun_from_wire(0xc101_0000_0000_0000),
            None,
            "a well-known LUN"
        );
    }
}

//! Where things lie on a leaf:
//!
//! ```text
//!  0         512 KiB     1 MiB                                  end - 512 KiB      end
//!  +----+----+-----------+-------------------------------- … ---+- … -+----+----+
//!  | L0 | L1 | reserved  | data: sector 0, 1, …                 |     | L2 | L3 |
//!  +----+----+-----------+-------------------------------- … ---+- … -+----+----+
//! ```
//!
//! The data area is cut to whole MiB, so that devices of nearly the same size take one another's
//! place. The end is the device's size cut to a multiple of a label's, 256 KiB.

use crate::format::SECTOR_SIZE;
use crate::format::label::{COPIES, LABEL_SIZE, Label};

/// Where sector 0 lies, in bytes.
pub const DATA_START: u64 = 1 << 20;
/// Bytes that the labels at the end take.
const REAR: u64 = 2 * LABEL;
const LABEL: u64 = LABEL_SIZE as u64;
/// The data area is a multiple of this.
const GRAIN: u64 = 1 << 20;

/// Where label `number` (0 to 3) of a device of `size` bytes lies; `None` where the device is too
/// small to be a leaf, or there is no such label.
pub fn label_offset(number: u64, size: u64) -> Option<u64> {
    let is_one = data_sectors(size).is_some() && number < COPIES;
    is_one.then(|| Label::offset(number, size - size % LABEL))
}

/// Sectors in the data area of a device of `size` bytes; `None` where it is too small for one.
pub fn data_sectors(size: u64) -> Option<u64> {
    let end = size - size % LABEL;
    let bytes = end.checked_sub(DATA_START + REAR)?;
    let whole = bytes - bytes % GRAIN;
    (whole > 0).then_some(whole / SECTOR_SIZE as u64)
}

/// Where a sector of the data area begins, in bytes.
pub fn sector_offset(sector: u64) -> u64 {
    DATA_START + sector * SECTOR_SIZE as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_labels_do_not_meet() {
        for size in [0, 1 << 20, (5 << 19) - 1] {
            assert_eq!(data_sectors(size), None);
            assert_eq!(label_offset(0, size), None);
        }
        for size in [5 << 19, (5 << 19) + 4095, 3 << 20, (1 << 40) + 12_345] {
            let sectors = data_sectors(size).expect("large enough");
            let end = sector_offset(sectors);
            let labels: Vec<u64> = (0..4)
                .filter_map(|number| label_offset(number, size))
                .collect();
            assert_eq!(labels[..2], [0, LABEL]);
            assert!(labels[2] >= end && labels[3] == labels[2] + LABEL);
            assert!(labels[3] + LABEL <= size);
            assert!(
                size - end < GRAIN + REAR + LABEL,
                "at most a MiB is given away"
            );
        }
        assert_eq!(label_offset(4, 3 << 20), None);
    }
}

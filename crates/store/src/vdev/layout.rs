//! Layout of a leaf:
//!
//! ```text
//!  0         512 KiB     1 MiB                                  end - 512 KiB      end
//!  +----+----+-----------+-------------------------------- … ---+- … -+----+----+
//!  | L0 | L1 | reserved  | data: sector 0, 1, …                 |     | L2 | L3 |
//!  +----+----+-----------+-------------------------------- … ---+- … -+----+----+
//! ```
//!
//! The data area is cut to whole MiB, so that devices of nearly one size can replace one another.
//! The end is the device's size cut to a multiple of a label's, 256 KiB.
//!
//! Two more labels may lie inside of the data area, far from both ends: the *inner labels*. A
//! partitioning tool, or `dd` over the ends of a disk, destroys the four others and leaves these.

use crate::format::SECTOR_SIZE;
use crate::format::label::{COPIES, LABEL_SIZE, Label};

/// Offset of sector 0, in bytes.
pub const DATA_START: u64 = 1 << 20;
/// Bytes that the labels at the end take.
const REAR: u64 = 2 * LABEL;
const LABEL: u64 = LABEL_SIZE as u64;
/// Unit of the data area's size, in bytes.
const GRAIN: u64 = 1 << 20;

/// Returns the offset of label `number` (0 to 3) on a device of `size` bytes. Returns `None` if the
/// device is too small to be a leaf, or there is no such label.
pub fn label_offset(number: u64, size: u64) -> Option<u64> {
    let is_one = data_sectors(size).is_some() && number < COPIES;
    is_one.then(|| Label::offset(number, size - size % LABEL))
}

/// Returns the sectors in the data area of a device of `size` bytes; `None` if it is too small for
/// one.
pub fn data_sectors(size: u64) -> Option<u64> {
    let end = size - size % LABEL;
    let bytes = end.checked_sub(DATA_START + REAR)?;
    let whole = bytes - bytes % GRAIN;
    (whole > 0).then_some(whole / SECTOR_SIZE as u64)
}

/// Sectors that a label takes of each leaf.
pub const LABEL_SECTORS: u64 = LABEL / SECTOR_SIZE as u64;
/// Alignment of inner labels, in sectors of the data area, and so in bytes of the device too.
pub const INNER_GRAIN: u64 = GRAIN / SECTOR_SIZE as u64;
/// Fewest sectors of each leaf for which a vdev gets inner labels: 32 MiB.
const LEAST_WITH_INNER: u64 = 32 * INNER_GRAIN;

/// Returns the first sectors of the two inner labels on each leaf of a new vdev that uses
/// `leaf_sectors` sectors of each. Returns `None` if that is too small for them.
pub fn inner_labels(leaf_sectors: u64) -> Option<[u64; 2]> {
    let third = leaf_sectors / 3;
    let at = |sector: u64| sector - sector % INNER_GRAIN;
    (leaf_sectors >= LEAST_WITH_INNER).then(|| [at(third), at(2 * third)])
}

/// Returns the byte at which a sector of the data area begins.
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

    #[test]
    fn inner_labels_lie_apart_and_far_from_both_ends() {
        assert_eq!(inner_labels(LEAST_WITH_INNER - 1), None);
        for sectors in [LEAST_WITH_INNER, 15_872, 1 << 28] {
            let [first, second] = inner_labels(sectors).expect("large enough");
            assert!(first >= 10 * INNER_GRAIN && first + LABEL_SECTORS <= second);
            assert!(second + 10 * INNER_GRAIN <= sectors);
            assert!(sector_offset(first).is_multiple_of(GRAIN));
        }
    }
}

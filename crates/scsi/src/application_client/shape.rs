//! Size and limits of a logical unit (SBC-3 5.15, 5.16, 6.5.2, 6.5.3, 6.5.4, 6.4.5). The sources
//! are READ CAPACITY, Block Limits, Block Device Characteristics, Logical Block Provisioning, and
//! the caching mode page.

/// Number and size of blocks, and provisioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of logical blocks.
    pub blocks: u64,
    /// Bytes of a logical block.
    pub block_length: u32,
    /// Bytes of a physical block.
    pub physical_length: u32,
    /// LOWEST ALIGNED LOGICAL BLOCK ADDRESS: the place at which the first physical block begins.
    pub lowest_aligned: u16,
    /// LBPME: blocks may be unmapped.
    pub provisioned: bool,
    /// LBPRZ: unmapped blocks read as zeros.
    pub reads_zeros: bool,
}

impl Capacity {
    /// Reads the data of READ CAPACITY (16). Returns `None` if the data is short, or if no disk has
    /// this block length or size.
    pub fn parse_16(data: &[u8]) -> Option<Self> {
        let last = u64::from_be_bytes(*data.first_chunk()?);
        let fields: &[u8; 4] = data.get(12..16)?.first_chunk()?;
        let exponent = u32::from(fields[1] & 0xf);
        let block_length = block_length(data.get(8..12)?.first_chunk()?)?;
        let capacity = Self {
            blocks: last.checked_add(1)?,
            block_length,
            physical_length: block_length
                .checked_shl(exponent)
                .filter(|len| *len >> exponent == block_length)?,
            lowest_aligned: u16::from_be_bytes([fields[2], fields[3]]) & 0x3fff,
            provisioned: fields[2] & 0x80 != 0,
            reads_zeros: fields[2] & 0x40 != 0,
        };
        // A size that does not fit into a file offset fits nowhere.
        let bytes = capacity.bytes()?;
        i64::try_from(bytes).is_ok().then_some(capacity)
    }

    /// Reads the data of READ CAPACITY (10).
    pub fn parse_10(data: &[u8]) -> Option<Self> {
        // All ones mean more blocks than this command can report.
        let last =
            Some(u32::from_be_bytes(*data.first_chunk()?)).filter(|last| *last < u32::MAX)?;
        let block_length = block_length(data.get(4..8)?.first_chunk()?)?;
        Some(Self {
            blocks: u64::from(last) + 1,
            block_length,
            physical_length: block_length,
            lowest_aligned: 0,
            provisioned: false,
            reads_zeros: false,
        })
    }

    /// Returns the size in bytes, or `None` if the number does not fit.
    pub fn bytes(&self) -> Option<u64> {
        self.blocks.checked_mul(u64::from(self.block_length))
    }
}

fn block_length(bytes: &[u8; 4]) -> Option<u32> {
    let length = u32::from_be_bytes(*bytes);
    (length.is_power_of_two() && (512..=1 << 20).contains(&length)).then_some(length)
}

/// Limits of one command. A value of 0 means not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLimits {
    /// MAXIMUM TRANSFER LENGTH in blocks.
    pub max_transfer: u32,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY in blocks.
    pub transfer_granularity: u16,
    /// OPTIMAL TRANSFER LENGTH in blocks.
    pub optimal_transfer: u32,
    /// MAXIMUM WRITE SAME LENGTH in blocks.
    pub max_write_same: u64,
    /// OPTIMAL UNMAP GRANULARITY in blocks.
    pub unmap_granularity: u32,
    /// UNMAP GRANULARITY ALIGNMENT in blocks, or 0 if it is not valid.
    pub unmap_alignment: u32,
}

impl BlockLimits {
    /// Reads page B0h. Fields beyond its end are 0.
    pub fn parse(page: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = page.get(at..at + 4).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        if page.get(1) != Some(&0xb0) {
            return Self::default();
        }
        Self {
            max_transfer: word(8),
            // The word also holds WSNZ and MAXIMUM COMPARE AND WRITE LENGTH.
            transfer_granularity: (word(4) & 0xffff) as u16,
            optimal_transfer: word(12),
            unmap_granularity: word(28),
            unmap_alignment: match word(32) {
                // UGAVALID.
                valid if valid >> 31 == 1 => valid & 0x7fff_ffff,
                _ => 0,
            },
            max_write_same: u64::from(word(36)) << 32 | u64::from(word(40)),
        }
    }
}

/// Reports whether WRITE SAME (16) may unmap (LBPWS of page B2h).
pub fn write_same_unmaps(page: &[u8]) -> bool {
    matches!(page, [_, 0xb2, _, _, _, flags, ..] if flags & 0x40 != 0)
}

/// Returns MEDIUM ROTATION RATE of page B1h (SBC-3 6.6.2): 0 if it is not reported or reserved, 1
/// if the medium does not rotate, or else rotations per minute.
pub fn rotation_rate(page: &[u8]) -> u16 {
    match page {
        [_, 0xb1, _, _, high, low, ..] => match u16::from_be_bytes([*high, *low]) {
            rate @ (0x0001 | 0x0401..=0xfffe) => rate,
            _ => 0,
        },
        _ => 0,
    }
}

/// Reports whether the write cache is on (WCE of the caching page), from MODE SENSE (6). A device
/// that does not say is assumed to have one, because flushing in vain loses nothing.
pub fn write_cache_enabled(data: &[u8]) -> bool {
    let Some(header) = data.first_chunk::<4>() else {
        return true;
    };
    match data.get(4 + usize::from(header[3])..) {
        Some([code, _, flags, ..]) if code & 0x3f == 0x08 => flags & 0x04 != 0,
        _ => true,
    }
}

/// Returns the `(blocks, mapped)` runs from GET LBA STATUS that begin at `lba`. An answer that does
/// not cover it in order gives nothing.
pub fn lba_status(data: &[u8], lba: u64) -> Vec<(u64, bool)> {
    let mut runs = Vec::new();
    let mut next = lba;
    for descriptor in data.get(8..).unwrap_or_default().as_chunks::<16>().0 {
        let start = u64::from_be_bytes(descriptor[..8].try_into().unwrap_or_default());
        let blocks = u32::from_be_bytes(descriptor[8..12].try_into().unwrap_or_default());
        if start > next || blocks == 0 {
            break;
        }
        // The first descriptor may begin before the requested block.
        let end = start.saturating_add(u64::from(blocks));
        if end <= next {
            continue;
        }
        runs.push((end - next, descriptor[12] & 0xf != 1));
        next = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_capacity_is_read_or_refused() {
        let mut data = [0; 32];
        data[..8].copy_from_slice(&99u64.to_be_bytes());
        data[8..12].copy_from_slice(&512u32.to_be_bytes());
        (data[13], data[14], data[15]) = (3, 0xc0, 7);
        let capacity = Capacity::parse_16(&data).expect("a disk's");
        assert_eq!((capacity.blocks, capacity.physical_length), (100, 4096));
        assert_eq!(capacity.lowest_aligned, 7);
        assert!(capacity.provisioned && capacity.reads_zeros);
        assert_eq!(capacity.bytes(), Some(51_200));
        data[11] = 1;
        assert_eq!(Capacity::parse_16(&data), None);
        assert_eq!(Capacity::parse_16(&[0xff; 32]), None);
        let ten = [0, 0, 0, 9, 0, 0, 0x10, 0];
        assert_eq!(
            Capacity::parse_10(&ten).map(|c| (c.blocks, c.block_length)),
            Some((10, 4096))
        );
    }

    #[test]
    fn block_limits_are_read_as_far_as_the_page_goes() {
        let mut page = [0; 64];
        (page[1], page[3]) = (0xb0, 60);
        (page[4], page[5]) = (1, 0xff);
        page[6..8].copy_from_slice(&128u16.to_be_bytes());
        let words = [
            (8, 512u32),
            (12, 256),
            (28, 64),
            (32, 1 << 31 | 63),
            (40, 9),
        ];
        for (at, value) in words {
            page[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        let all = BlockLimits {
            max_transfer: 512,
            transfer_granularity: 128,
            optimal_transfer: 256,
            max_write_same: 9,
            unmap_granularity: 64,
            unmap_alignment: 63,
        };
        assert_eq!(BlockLimits::parse(&page), all);
        let cut = BlockLimits::parse(&page[..32]);
        assert_eq!((cut.unmap_granularity, cut.unmap_alignment), (64, 0));
        // An alignment without UGAVALID says nothing.
        page[32] = 0;
        assert_eq!(BlockLimits::parse(&page).unmap_alignment, 0);
        page[1] = 0xb1;
        assert_eq!(BlockLimits::parse(&page), BlockLimits::default());
    }

    #[test]
    fn a_rotation_rate_is_one_of_the_standard_or_none() {
        for (told, read) in [
            (0x0000, 0),
            (0x0001, 1),
            (0x0002, 0),
            (0x0400, 0),
            (7200, 7200),
            (0xffff, 0),
        ] {
            let [high, low] = u16::to_be_bytes(told);
            assert_eq!(rotation_rate(&[0, 0xb1, 0, 60, high, low]), read, "{told}");
        }
        assert_eq!(rotation_rate(&[0, 0xb1, 0, 60, 0]), 0);
        assert_eq!(rotation_rate(&[0, 0xb0, 0, 60, 0, 1]), 0);
    }

    #[test]
    fn the_write_cache_is_found_behind_block_descriptors() {
        let page = [0x08, 0x12, 0x04];
        let with = |descriptors: &[u8], page: &[u8]| {
            let header = [0, 0, 0, descriptors.len() as u8];
            write_cache_enabled(&[&header[..], descriptors, page].concat())
        };
        assert!(with(&[], &page));
        assert!(with(&[0; 8], &page));
        assert!(!with(&[0; 8], &[0x88, 0x12, 0]));
        assert!(with(&[], &[]));
    }

    #[test]
    fn lba_status_covers_what_was_asked_for() {
        let mut data = vec![0; 8];
        for (start, blocks, status) in [(0u64, 10u32, 0u8), (10, 5, 1), (20, 1, 0)] {
            data.extend_from_slice(&start.to_be_bytes());
            data.extend_from_slice(&blocks.to_be_bytes());
            data.extend_from_slice(&[status, 0, 0, 0]);
        }
        assert_eq!(lba_status(&data, 4), [(6, true), (5, false)]);
        assert_eq!(lba_status(&data, 15), []);
    }

    proptest! {
        #[test]
        fn arbitrary_data_never_panics(data in proptest::collection::vec(any::<u8>(), 0..100), lba: u64) {
            let _ = Capacity::parse_16(&data);
            let _ = Capacity::parse_10(&data);
            let _ = BlockLimits::parse(&data);
            let _ = rotation_rate(&data);
            let _ = write_cache_enabled(&data);
            let _ = lba_status(&data, lba);
        }
    }
}

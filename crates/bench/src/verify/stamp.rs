//! Stamp of each block of a verified run, in its first 32 bytes:
//!
//! ```text
//!  0        8        16       24    28    32            block length
//!  +--------+--------+--------+-----+-----+-- - - - - - - - --+
//!  | magic  |  run   |  LBA   | gen | CRC |  body             |
//!  +--------+--------+--------+-----+-----+-- - - - - - - - --+
//! ```
//!
//! All numbers are little-endian. The CRC-32 covers everything but itself, so it reveals a block of
//! which only a part was written.

/// Bytes of the stamp.
pub const STAMP_LEN: usize = 32;

const MAGIC: [u8; 8] = *b"SNDSTNV1";
const CRC_AT: std::ops::Range<usize> = 28..32;

/// Identity of a block: its place, its run, and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number that tells runs apart.
    pub run: u64,
    /// Number of the block on the device.
    pub lba: u64,
    /// Number of times that the block has been written, including this time.
    pub generation: u32,
}

/// Kind of block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A block as it was written, at any place and time.
    Whole(Identity),
    /// A damaged block, or a part of one.
    Damaged,
    /// Zeros only.
    Zeros,
    /// Any other data.
    Foreign,
}

impl Identity {
    /// Writes the stamp over the start of a block whose body is complete.
    pub fn put(&self, block: &mut [u8]) {
        block[0..8].copy_from_slice(&MAGIC);
        block[8..16].copy_from_slice(&self.run.to_le_bytes());
        block[16..24].copy_from_slice(&self.lba.to_le_bytes());
        block[24..28].copy_from_slice(&self.generation.to_le_bytes());
        let crc = checksum(block);
        block[CRC_AT].copy_from_slice(&crc.to_le_bytes());
    }

    /// Returns a number that differs between neighbours and generations.
    pub fn mixed(&self) -> u64 {
        let mixed = self.lba.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ u64::from(self.generation).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (mixed ^ (mixed >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
    }
}

/// Determines the kind of a block.
pub fn read(block: &[u8]) -> Reading {
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&block[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    if block[0..8] != MAGIC {
        return if block.iter().all(|byte| *byte == 0) {
            Reading::Zeros
        } else {
            Reading::Foreign
        };
    }
    let last = number(24);
    if (last >> 32) as u32 != checksum(block) {
        return Reading::Damaged;
    }
    Reading::Whole(Identity {
        run: number(8),
        lba: number(16),
        generation: last as u32,
    })
}

fn checksum(block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..CRC_AT.start]);
    hasher.update(&block[CRC_AT.end..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        run: 7,
        lba: 99,
        generation: 3,
    };

    fn block() -> Vec<u8> {
        let mut block: Vec<u8> = (0..512u32).map(|n| (n * 7) as u8).collect();
        IDENTITY.put(&mut block);
        block
    }

    #[test]
    fn a_block_is_known_by_its_stamp() {
        assert_eq!(read(&block()), Reading::Whole(IDENTITY));
        assert_eq!(read(&[0; 512]), Reading::Zeros);
        assert_eq!(read(&[1; 512]), Reading::Foreign);
    }

    #[test]
    fn every_bit_counts() {
        for bit in 64..512 * 8 {
            let mut block = block();
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&block), Reading::Damaged, "bit {bit}");
        }
    }
}

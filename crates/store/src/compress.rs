//! Compression of blocks, with the checksums of the results, and the test for zeros.
//!
//! A packed block is the payload's length (4 bytes, little-endian), the payload (an LZ4 block or a
//! Zstandard frame) and zeros up to a whole sector. A block is kept packed only if that saves at
//! least one sector, so blocks of one sector are never touched.
//!
//! Incompressible data must cost next to nothing. For LZ4, no sample is taken. After some misses,
//! LZ4's search takes ever longer steps by itself. It passes over 16 KiB of noise in 3 µs and over
//! 128 KiB in 15 µs, a quarter of the cost that the whole block may have. A sample would also miss
//! the blocks that are half full. Zstandard pays up to 13 µs for 16 KiB of noise. So Zstandard is
//! asked only if LZ4 found repetitions, or if the distribution of the bytes alone allows a sector
//! to be saved ([`may_gain_by_coding`]).
//!
//! Unpacking is total: whatever the bytes are, the result is exactly as long as the caller said, or
//! there is no result.

use std::cell::RefCell;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use pages::{PAGE_SIZE, Pages, PagesMut};
use zstd::bulk::{Compressor, Decompressor};

use crate::checksum;
use crate::format::{Algorithm, Compression, SECTOR_SIZE};

/// Length of the longest block that is packed or unpacked, in bytes. It bounds the memory that a
/// thread keeps for compression.
pub const MAX_BLOCK: usize = 1 << 20;

/// Levels of Zstandard that an administrator can choose. The nearest of them replaces any other
/// level.
pub const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = 1..=19;

/// Bytes of the payload's length.
const PREFIX: usize = 4;

/// Bytes of a block that are counted to estimate what coding can gain.
const SAMPLE: usize = 2048;
/// Length of the runs, evenly spread over the block, in which the sample is taken, in bytes.
const SAMPLE_RUN: usize = 64;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Payload of a block: the bytes that the devices get.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Packed block; `None` if the block's own bytes are written.
    pub packed: Option<Pages>,
    /// Checksum of the bytes that are written.
    pub checksum: u128,
}

/// Packs `data` into fewer sectors, and makes the checksum of the result. The block stays as it is
/// if packing would save no sector, for [`Compression::Off`], and for more than [`MAX_BLOCK`]
/// bytes. `level` is Zstandard's ([`ZSTD_LEVELS`]); LZ4 has none.
///
/// Both happen in one function because a block in many pieces is gathered for the compressor. The
/// gathered bytes lie in the processor's cache and in one piece. With their checksum in place of
/// that of the pieces, writes of 4 KiB into blocks of 64 KiB became 9 % quicker.
pub fn pack(compression: Compression, level: i32, algorithm: Algorithm, data: &Pages) -> Payload {
    let sectors = data.len().div_ceil(SECTOR_SIZE);
    if compression == Compression::Off || sectors < 2 || data.len() > MAX_BLOCK {
        return Payload {
            packed: None,
            checksum: checksum::of(algorithm, data),
        };
    }
    let most = (sectors - 1) * SECTOR_SIZE - PREFIX;
    SCRATCH.with_borrow_mut(|Scratch { gathered, packer }| {
        let plain = in_one_piece(data, gathered);
        let len = match compression {
            Compression::Off => None,
            Compression::Lz4 => packer.pack_lz4(plain).filter(|len| *len <= most),
            Compression::Zstd => packer.pack_zstd(plain, level, most),
        };
        let packed = len.map(|len| seal(&packer.result[..len]));
        Payload {
            checksum: match &packed {
                Some(packed) => checksum::of(algorithm, packed),
                None => checksum::of_bytes(algorithm, plain),
            },
            packed,
        }
    })
}

/// Unpacks the `len` bytes that were packed into `data`. Returns `None` if [`pack`] did not make
/// `data` from `len` bytes. The result never has more or fewer than `len` bytes.
pub fn unpack(compression: Compression, data: &Pages, len: usize) -> Option<Pages> {
    if compression == Compression::Off {
        return (data.len() >= len).then(|| data.slice(0..len));
    }
    if len > MAX_BLOCK || data.len() > MAX_BLOCK {
        return None;
    }
    SCRATCH.with_borrow_mut(|Scratch { gathered, packer }| {
        let (prefix, rest) = in_one_piece(data, gathered).split_first_chunk::<PREFIX>()?;
        let payload = rest.get(..u32::from_le_bytes(*prefix) as usize)?;
        make_room(&mut packer.result, len);
        let target = &mut packer.result[..len];
        let written = match compression {
            Compression::Off => return None,
            Compression::Lz4 => lz4_flex::block::decompress_into(payload, target).ok()?,
            Compression::Zstd => {
                let decompressor = match &mut packer.decompressor {
                    Some(decompressor) => decompressor,
                    none => none.insert(Decompressor::new().ok()?),
                };
                decompressor.decompress_to_buffer(payload, target).ok()?
            }
        };
        (written == len).then(|| Pages::from_bytes(&packer.result[..len]))
    })
}

/// Reports whether all bytes are zero. The test costs nothing for pages that were never written,
/// and little for data that does not begin with zeros.
pub fn is_zero(data: &Pages) -> bool {
    let mut at = 0;
    data.chunks().all(|chunk| {
        let page = (chunk.len() == PAGE_SIZE)
            .then(|| data.whole_page(at))
            .flatten();
        at += chunk.len();
        page.is_some_and(pages::Page::is_zero) || is_zero_bytes(chunk)
    })
}

fn is_zero_bytes(bytes: &[u8]) -> bool {
    // Wide steps let the compiler use vectors. A check after each step finds data early.
    let (steps, rest) = bytes.as_chunks::<128>();
    steps
        .iter()
        .all(|step| step.iter().fold(0, |all, byte| all | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}

/// Returns a packed block: the prefix, the payload, and zeros up to a whole sector.
fn seal(payload: &[u8]) -> Pages {
    let end = PREFIX + payload.len();
    let mut sealed = PagesMut::allocate(end.next_multiple_of(SECTOR_SIZE));
    sealed.copy_from(0, &(payload.len() as u32).to_le_bytes());
    sealed.copy_from(PREFIX, payload);
    // `freeze` fills the rest with zeros.
    sealed.freeze()
}

/// Returns the bytes as the compressors want them. Bytes in several pieces are copied together.
fn in_one_piece<'a>(data: &'a Pages, gathered: &'a mut Vec<u8>) -> &'a [u8] {
    data.in_one_piece().unwrap_or_else(|| {
        gathered.clear();
        gathered.reserve(data.len());
        data.chunks()
            .for_each(|chunk| gathered.extend_from_slice(chunk));
        gathered
    })
}

/// Memory that a thread keeps between blocks.
struct Scratch {
    gathered: Vec<u8>,
    packer: Packer,
}

/// Compressors of a thread. Making their tables costs more than using them.
struct Packer {
    /// Bytes that were packed or unpacked last.
    result: Vec<u8>,
    /// Table for blocks below 64 KiB.
    small_table: CompressTable,
    large_table: CompressTable,
    compressor: Option<(i32, Compressor<'static>)>,
    decompressor: Option<Decompressor<'static>>,
}

impl Scratch {
    fn new() -> Self {
        Self {
            gathered: Vec::new(),
            packer: Packer {
                result: Vec::new(),
                small_table: CompressTable::small(),
                large_table: CompressTable::large(),
                compressor: None,
                decompressor: None,
            },
        }
    }
}

impl Packer {
    /// Packs with LZ4 and returns the result's length.
    fn pack_lz4(&mut self, plain: &[u8]) -> Option<usize> {
        make_room(&mut self.result, get_maximum_output_size(plain.len()));
        let table = if plain.len() < usize::from(u16::MAX) {
            &mut self.small_table
        } else {
            &mut self.large_table
        };
        compress_into_with_table(plain, &mut self.result, table).ok()
    }

    /// Packs with Zstandard and returns the result's length, if it is at most `most` bytes.
    fn pack_zstd(&mut self, plain: &[u8], level: i32, most: usize) -> Option<usize> {
        let found = self.pack_lz4(plain)?;
        let has_repetitions = found < plain.len() - plain.len() / 64;
        if !has_repetitions && !may_gain_by_coding(plain, most) {
            return None;
        }
        let level = level.clamp(*ZSTD_LEVELS.start(), *ZSTD_LEVELS.end());
        let compressor = match &mut self.compressor {
            Some((of, compressor)) if *of == level => compressor,
            other => &mut other.insert((level, Compressor::new(level).ok()?)).1,
        };
        // The compressor gives up as soon as the room does not suffice.
        compressor
            .compress_to_buffer(plain, &mut self.result[..most])
            .ok()
    }
}

fn make_room(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
}

/// Reports whether shorter codes for frequent bytes could bring the block down to `most` bytes. The
/// answer comes from a sample. With `p` the share of each byte value, no such code needs fewer bits
/// per byte than Shannon's entropy. The entropy is at least `-log2(sum of p²)`, which is cheap to
/// count. An eighth of a bit is left for the sample's error (noise is off by 0.02).
fn may_gain_by_coding(plain: &[u8], most: usize) -> bool {
    let runs = SAMPLE / SAMPLE_RUN;
    let step = (plain.len() / runs).max(SAMPLE_RUN);
    // With several tables, equal bytes in a row do not wait for one another.
    let mut counts = [[0_u16; 256]; 4];
    let [first, second, third, fourth] = &mut counts;
    let mut sampled = 0_u64;
    for start in (0..plain.len()).step_by(step) {
        let (fours, _) = plain[start..plain.len().min(start + SAMPLE_RUN)].as_chunks();
        sampled += 4 * fours.len() as u64;
        for [a, b, c, d] in fours {
            first[usize::from(*a)] += 1;
            second[usize::from(*b)] += 1;
            third[usize::from(*c)] += 1;
            fourth[usize::from(*d)] += 1;
        }
    }
    let same_pairs: u64 = (0..256)
        .map(|byte| counts.iter().map(|table| u64::from(table[byte])).sum())
        .map(|count: u64| count * count.saturating_sub(1))
        .sum();
    let pairs = sampled * (sampled.max(1) - 1);
    let bits_per_byte = -(same_pairs.max(1) as f64 / pairs.max(1) as f64).log2();
    bits_per_byte - 0.125 <= 8.0 * most as f64 / plain.len() as f64
}

#[cfg(test)]
mod tests;

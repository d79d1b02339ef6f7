//! Blocks that a read beside the engine brought, verified by their pointers.

use std::ops::Range;

use pages::{PAGE_SIZE, Pages};
use smallvec::SmallVec;

use crate::format::{Compression, Pointer};
use crate::volume::blocks;
use crate::{checksum, compress};

/// Bytes of neighbouring blocks. Blocks that lie in a row on a device share one piece.
#[derive(Debug, Default)]
pub struct Verified {
    /// Pieces with the indexes of their first blocks, in order.
    pieces: SmallVec<[(usize, Pages); 1]>,
}

impl Verified {
    /// Verifies blocks by their pointers. `bytes` is what their device has, from the first block's
    /// place on. Returns nothing if a block is wrong.
    pub(super) fn of(
        pointers: &[Pointer],
        blocks: Range<usize>,
        bytes: &Pages,
        block_size: usize,
    ) -> Option<Self> {
        let base = pointers.get(blocks.start)?.address.sector();
        let mut pieces = SmallVec::new();
        // Bytes of blocks that are not compressed, and follow one another here as in the volume.
        let mut row: Option<(usize, Range<usize>)> = None;
        let piece = |(first, range): (usize, Range<usize>)| (first, bytes.slice(range));
        for number in blocks {
            let pointer = pointers.get(number)?;
            if pointer.is_hole() {
                pieces.extend(row.take().map(piece));
                continue;
            }
            let before = pointer.address.sector().checked_sub(base)?;
            let start = usize::try_from(before).ok()?.checked_mul(PAGE_SIZE)?;
            let end = start + usize::from(pointer.sectors) * PAGE_SIZE;
            let payload = (end <= bytes.len()).then(|| bytes.slice(start..end))?;
            is_right(pointer, &payload).then_some(())?;
            if pointer.compression == Compression::Off && payload.len() == block_size {
                match &mut row {
                    Some((_, range)) if range.end == start => range.end = end,
                    row => pieces.extend(row.replace((number, start..end)).map(piece)),
                }
            } else {
                pieces.extend(row.take().map(piece));
                let data = compress::unpack(pointer.compression, &payload, block_size)?;
                pieces.push((number, data));
            }
        }
        pieces.extend(row.map(piece));
        Some(Self { pieces })
    }

    /// Returns the zeros of the holes among blocks.
    pub(super) fn holes(pointers: &[Pointer], block_size: usize) -> Self {
        let mut pieces = SmallVec::new();
        let mut first = 0;
        for alike in pointers.chunk_by(|one, next| one.is_hole() == next.is_hole()) {
            if alike[0].is_hole() {
                let len = (alike.len() * block_size) as u32;
                pieces.push((first, Pages::zeroes(len)));
            }
            first += alike.len();
        }
        Self { pieces }
    }

    /// Adds other blocks of the same read.
    pub fn add(&mut self, others: Self) {
        match self.pieces.is_empty() {
            true => self.pieces = others.pieces,
            false => {
                self.pieces.extend(others.pieces);
                self.pieces.sort_by_key(|(first, _)| *first);
            }
        }
    }

    /// Returns each block with its index.
    pub(super) fn each(&self, block_size: usize) -> impl Iterator<Item = (usize, Pages)> {
        self.pieces.iter().flat_map(move |(first, data)| {
            let starts = (0..data.len()).step_by(block_size);
            let blocks = starts.map(move |start| data.slice(start..start + block_size));
            blocks
                .enumerate()
                .map(move |(number, data)| (first + number, data))
        })
    }

    /// Returns a part of the bytes, counted from the beginning of the first block.
    pub fn part(&self, range: Range<usize>, block_size: usize) -> Pages {
        let parts = self.pieces.iter().filter_map(|(first, data)| {
            let at = first * block_size;
            let (from, to) = (range.start.max(at), range.end.min(at + data.len()));
            (from < to).then(|| data.slice(from - at..to - at))
        });
        let parts: SmallVec<[Pages; 1]> = parts.collect();
        blocks::joined(&parts)
    }
}

/// Verifies one block by its pointer, and unpacks it. `payload` is what its device has of it.
pub(super) fn block(pointer: &Pointer, payload: Pages, block_size: usize) -> Option<Pages> {
    let has_all = payload.len() == usize::from(pointer.sectors) * PAGE_SIZE;
    (has_all && is_right(pointer, &payload)).then_some(())?;
    match pointer.compression == Compression::Off && payload.len() == block_size {
        true => Some(payload),
        false => compress::unpack(pointer.compression, &payload, block_size),
    }
}

/// Reports whether the bytes of a block are those that its pointer tells of.
fn is_right(pointer: &Pointer, payload: &Pages) -> bool {
    checksum::of(pointer.algorithm, payload) == pointer.checksum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Address, Algorithm};

    const SIZE: usize = 2 * PAGE_SIZE;

    fn block(number: u8) -> Vec<u8> {
        (0..SIZE).map(|at| (at / 7) as u8 ^ number).collect()
    }

    fn pointer(sector: u64, compression: Compression, payload: &Pages) -> Pointer {
        Pointer {
            address: Address::new(0, sector),
            sectors: (payload.len() / PAGE_SIZE) as u16,
            compression,
            algorithm: Algorithm::Xxh3,
            checksum: checksum::of(Algorithm::Xxh3, payload),
            ..Pointer::HOLE
        }
    }

    /// Returns the pointers of blocks, the bytes of their device, and those of the volume. A gap, a
    /// hole and a compressed block are there.
    fn read() -> (Vec<Pointer>, Vec<u8>, Vec<u8>) {
        let (mut pointers, mut device, mut volume) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..6 {
            let data = Pages::from_bytes(&block(number));
            let (compression, payload) = match number {
                2 => {
                    pointers.push(Pointer::HOLE);
                    volume.extend(vec![0; SIZE]);
                    continue;
                }
                4 => {
                    let made = compress::pack(Compression::Lz4, 0, Algorithm::Xxh3, &data);
                    (Compression::Lz4, made.packed.expect("it can be compressed"))
                }
                _ => (Compression::Off, data.clone()),
            };
            if number == 1 {
                device.extend(vec![9; PAGE_SIZE]);
            }
            let sector = 100 + (device.len() / PAGE_SIZE) as u64;
            pointers.push(pointer(sector, compression, &payload));
            device.extend(payload.to_vec());
            volume.extend(block(number));
        }
        (pointers, device, volume)
    }

    fn verified(pointers: &[Pointer], device: &[u8]) -> Option<Verified> {
        let bytes = Pages::from_bytes(device);
        let brought = Verified::of(pointers, 0..pointers.len(), &bytes, SIZE)?;
        let mut all = Verified::holes(pointers, SIZE);
        all.add(brought);
        Some(all)
    }

    #[test]
    fn every_part_of_the_blocks_is_there() {
        let (pointers, device, volume) = read();
        let all = verified(&pointers, &device).expect("all are right");
        for range in [
            0..volume.len(),
            0..1,
            SIZE - 1..2 * SIZE + 5,
            SIZE / 2..5 * SIZE,
        ] {
            assert!(
                all.part(range.clone(), SIZE).to_vec() == volume[range.clone()],
                "{range:?}"
            );
        }
        let each: Vec<_> = all.each(SIZE).collect();
        assert_eq!(each.len(), 6);
        for (number, data) in each {
            assert!(data.to_vec() == volume[number * SIZE..][..SIZE], "{number}");
        }
    }

    #[test]
    fn one_wrong_byte_or_a_missing_one_spoils_all() {
        let (pointers, device, _) = read();
        for at in [0, SIZE + PAGE_SIZE, device.len() - PAGE_SIZE] {
            let mut device = device.clone();
            device[at] ^= 1;
            assert!(verified(&pointers, &device).is_none(), "{at}");
        }
        assert!(verified(&pointers, &device[..device.len() - 1]).is_none());
        // The gap may hold anything.
        let mut device = device;
        device[SIZE] ^= 1;
        assert!(verified(&pointers, &device).is_some());
    }
}

//! The bytes that a change writes. Every slice of 512 bytes tells which change wrote it and where.
//!
//! So a slice that is found needs no look-up to be named, and a slice that landed elsewhere is
//! found out.

use pages::{Pages, PagesMut};

use super::{ChangeId, SLICE_SIZE};

/// Odd number that makes the words of one slice differ, so that most slices do not compress.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Content of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceContent {
    /// Zeros.
    Zeros,
    /// Bytes that a change wrote, in their place.
    Change(ChangeId),
    /// Bytes that a change wrote to this other slice.
    Elsewhere(ChangeId, u64),
    /// Bytes that no change wrote.
    Garbage,
    /// An error instead of bytes, or nothing was asked.
    Unreadable,
}

/// Returns the first word, and the number that is added from word to word.
fn words(change: ChangeId, slice: u64) -> (u64, u64) {
    let first = u64::from(change.0) << 32 | (slice & u64::from(u32::MAX));
    // A quarter of all changes write bytes that compress.
    let stride = if change.0.is_multiple_of(4) {
        0
    } else {
        STRIDE
    };
    (first, stride)
}

/// Fills a slice of a volume with the bytes that `change` writes there.
pub fn fill(bytes: &mut [u8], change: ChangeId, slice: u64) {
    let (mut word, stride) = words(change, slice);
    for eight in bytes.chunks_exact_mut(8) {
        eight.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(stride);
    }
}

/// Returns the bytes that `change` writes to `count` slices from `first` on.
pub fn pages(change: ChangeId, first: u64, count: u64) -> Pages {
    let len = count as usize * SLICE_SIZE;
    let mut buffer = PagesMut::allocate(len);
    let mut slice = first;
    for chunk in buffer.chunks_mut(0, len) {
        for bytes in chunk.chunks_exact_mut(SLICE_SIZE) {
            fill(bytes, change, slice);
            slice += 1;
        }
    }
    buffer.mark_filled(0, len);
    buffer.freeze()
}

/// Recognises the content of a slice.
///
/// # Panics
/// The bytes are not one slice.
pub fn recognise(bytes: &[u8], slice: u64) -> SliceContent {
    let bytes: &[u8; SLICE_SIZE] = bytes.try_into().expect("one slice");
    let (eights, _) = bytes.as_chunks::<8>();
    let first = u64::from_le_bytes(eights[0]);
    if first == 0 && *bytes == [0; SLICE_SIZE] {
        return SliceContent::Zeros;
    }
    let change = ChangeId((first >> 32) as u32);
    let at = first & u64::from(u32::MAX);
    let (_, stride) = words(change, at);
    // The loop has no branch per word: judging a history spends most of its time here.
    let mut expected = first;
    let mut difference = 0;
    for eight in eights {
        difference |= u64::from_le_bytes(*eight) ^ expected;
        expected = expected.wrapping_add(stride);
    }
    match difference == 0 && change.0 > 0 {
        true if at == slice => SliceContent::Change(change),
        true => SliceContent::Elsewhere(change, at),
        false => SliceContent::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slice_is_recognised_and_no_mixture_is() {
        for number in 1..40 {
            let bytes = pages(ChangeId(number), 7, 9).to_vec();
            for (slice, bytes) in (7..).zip(bytes.chunks(SLICE_SIZE)) {
                assert_eq!(
                    recognise(bytes, slice),
                    SliceContent::Change(ChangeId(number))
                );
                let elsewhere = SliceContent::Elsewhere(ChangeId(number), slice);
                assert_eq!(recognise(bytes, slice + 1), elsewhere);
            }
            let mut mixed = bytes[..SLICE_SIZE].to_vec();
            fill(&mut mixed[256..], ChangeId(number + 1), 7);
            assert_eq!(recognise(&mixed, 7), SliceContent::Garbage);
            let mut rotten = bytes[..SLICE_SIZE].to_vec();
            rotten[8 * 63] ^= 4;
            assert_eq!(recognise(&rotten, 7), SliceContent::Garbage);
        }
        assert_eq!(recognise(&[0; SLICE_SIZE], 3), SliceContent::Zeros);
    }
}

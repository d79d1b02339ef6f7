//! Content of test blocks: the writing operation, the intended place, and a checksum.
//!
//! A torn or misdirected write therefore shows in the block itself.

use std::ops::Range;

use iscsi::digest::crc32c;

/// Content of one block, as the model knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Value {
    /// Zeros: never written, or unmapped.
    Zero,
    /// Written by this operation.
    Written(u64),
}

/// Returns a block that `operation` of the run `seed` writes to each of `blocks`.
///
/// The range is one block, or the range of a WRITE SAME.
pub(crate) fn block(seed: u64, operation: u64, blocks: Range<u64>, block_len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(block_len);
    for word in [seed, operation, blocks.start, blocks.end] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let mut state = (seed ^ operation.rotate_left(32) ^ blocks.start.rotate_left(16)) | 1;
    while bytes.len() < block_len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    let sum = crc32c(&bytes[..block_len - 4]);
    bytes[block_len - 4..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns the content of a block that was found at `lba`.
///
/// # Errors
/// If the block is torn, of another run, or was meant for another place.
pub(crate) fn parse(seed: u64, lba: u64, bytes: &[u8]) -> Result<Value, String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Value::Zero);
    }
    let word = |index: usize| {
        u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("8 bytes"))
    };
    let (found_seed, operation, blocks) = (word(0), word(1), word(2)..word(3));
    if found_seed != seed || bytes != block(seed, operation, blocks.clone(), bytes.len()) {
        return Err(format!(
            "block {lba} is torn: its header says operation {operation} to {blocks:?}"
        ));
    }
    if !blocks.contains(&lba) {
        return Err(format!(
            "block {lba} holds what operation {operation} wrote to {blocks:?}"
        ));
    }
    Ok(Value::Written(operation))
}

#[test]
fn tears_and_wrong_places_are_seen() {
    let good = block(1, 7, 5..6, 512);
    assert_eq!(parse(1, 5, &good), Ok(Value::Written(7)));
    assert_eq!(parse(1, 5, &[0; 512]), Ok(Value::Zero));
    assert!(parse(1, 6, &good).is_err());
    assert!(parse(2, 5, &good).is_err());
    for at in [0, 9, 17, 100, 511] {
        let mut torn = good.clone();
        torn[at] ^= 1;
        assert!(parse(1, 5, &torn).is_err(), "byte {at}");
    }
    let other = block(1, 8, 5..6, 512);
    let torn = [&good[..256], &other[256..]].concat();
    assert!(parse(1, 5, &torn).is_err());
}

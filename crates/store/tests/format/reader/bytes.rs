//! Numbers, hexadecimal digits, checksums.

use twox_hash::XxHash3_128;

/// Reads a number of up to 8 bytes.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    assert!(bytes.len() <= 8);
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Reads a number of 16 bytes.
pub(crate) fn wide(bytes: &[u8]) -> u128 {
    u128::from(number(&bytes[8..16])) << 64 | u128::from(number(&bytes[..8]))
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Computes a checksum by algorithm 1 or 2 (section 5).
pub(crate) fn checksum(algorithm: u8, bytes: &[u8]) -> u128 {
    match algorithm {
        1 => XxHash3_128::oneshot(bytes),
        2 => wide(blake3::hash(bytes).as_bytes()),
        other => panic!("checksum by {other}"),
    }
}

/// Computes the keyed checksum of all bytes, with zeros at its own place `at` (section 5).
pub(crate) fn keyed(key: u64, bytes: &[u8], at: usize) -> u128 {
    let mut blank = bytes.to_vec();
    blank[at..at + 16].fill(0);
    XxHash3_128::oneshot_with_seed(key, &blank)
}

/// Reports whether the keyed checksum at `at` is right (section 5).
pub(crate) fn is_keyed(key: u64, bytes: &[u8], at: usize) -> bool {
    keyed(key, bytes, at) == wide(&bytes[at..])
}

//! Label of a pool from a disk that lies, and the configuration in it. There is never a panic, and
//! a label that was read is equal when it is written and read again.
//!
//! Input: a label as it lies on the disk. Its checksum is corrected, since no fuzzer finds one.

use store::checksum;
use store::engine::PoolConfig;
use store::format::Label;

/// Number of bytes before the configuration.
const HEADER: usize = 96;
const CHECKSUM: std::ops::Range<usize> = 48..64;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let _ = Label::decode(data);
    let _ = PoolConfig::decode(data);
    let mut bytes = data.to_vec();
    bytes.resize(data.len().max(HEADER), 0);
    let told = u64::from_le_bytes([40, 41, 42, 43, 44, 45, 46, 47].map(|at| bytes[at]));
    let len = usize::try_from(told).map_or(usize::MAX, |len| len.saturating_add(HEADER));
    bytes[CHECKSUM].fill(0);
    let covered = bytes.get(..len).unwrap_or(&bytes);
    let checksum = checksum::keyed(0, covered).to_le_bytes();
    bytes[CHECKSUM].copy_from_slice(&checksum);
    let Ok(label) = Label::decode(&bytes) else {
        return;
    };
    assert_eq!(Label::decode(&label.encode()), Ok(label.clone()));
    if let Ok(config) = PoolConfig::decode(&label.config) {
        let again = PoolConfig::decode(&config.encode()).ok();
        assert_eq!(again, Some(config), "another meaning when written");
    }
}

//! Manifest of a checkpoint from a disk that lies. There is never a panic, and a manifest that was
//! read is equal when it is written and read again.
//!
//! Input: the manifest, JSON.

use store::engine::normal_manifest;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    if let Ok(written) = normal_manifest(data) {
        let again = normal_manifest(&written).ok();
        assert_eq!(again, Some(written), "another meaning when written");
    }
}

//! The manifest of a checkpoint from a disk that lies: never a panic, and what was read is the same when it
//! is written and read again.
//!
//! Input: the manifest, JSON.

use store::pool::normal_manifest;

/// See the module.
pub fn run(data: &[u8]) {
    if let Ok(written) = normal_manifest(data) {
        let again = normal_manifest(&written).ok();
        assert_eq!(again, Some(written), "another meaning when written");
    }
}

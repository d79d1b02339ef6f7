//! Chunks of lists, and the records of dead lists, from a disk that lies. There is never a panic,
//! and a record or chunk that was read is written as equal bytes.
//!
//! Input: one byte, whose lowest bit chooses between the two, then the bytes as they lie on the
//! disk. A chunk is cut where only zeros follow.

use store::format::SECTOR_SIZE;
use store::format::list::Chunk;
use store::pages::Pages;
use store::snapshot::deadlist::Deadlist;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    if which & 1 == 1 {
        if let Some(list) = Deadlist::decode(bytes) {
            assert_eq!(list.encode(), bytes, "other records when written");
            assert!(list.sectors() >= list.blocks());
        }
        return;
    }
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(SECTOR_SIZE), 0);
    if let Some(chunk) = Chunk::decode(&Pages::from_bytes(&bytes)) {
        let written = chunk.encode().to_vec();
        // A chunk may have more space than it needs.
        assert_eq!(written[..], bytes[..written.len()], "other bytes");
        assert!(bytes[written.len()..].iter().all(|byte| *byte == 0));
    }
}

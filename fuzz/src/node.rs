//! Node of a volume's map from a disk that lies. There is never a panic, and a node that was read
//! is written as equal bytes, except for the filling of the last sector.
//!
//! Input: the node as it lies on the disk. Its place and birth are trusted.

use store::format::{DatasetId, Epoch, Node, NodeId};

use crate::input::Bytes;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut header = Bytes::new(data);
    let _ = header.take(10);
    let level = header.u8();
    let _ = header.take(5);
    let volume = DatasetId(u32::from_le_bytes(header.array()));
    let _ = header.take(4);
    let index = u64::from_le_bytes(header.array());
    let birth = Epoch(u64::from_le_bytes(header.array()));
    let id = NodeId {
        volume,
        level,
        index,
    };
    let node = match Node::<512>::decode(id, birth, data) {
        Ok(node) => node,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!((node.id(), node.birth()), (id, birth));
    assert!(node.iter().all(|pointer| pointer.birth <= birth));
    let again = Node::<512>::decode(id, birth, &node.encode());
    assert_eq!(again, Ok(node), "another node when written");
}

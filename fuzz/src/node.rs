//! A node of a volume's map from a disk that lies: never a panic, and what was read is written as the same
//! bytes, but for what fills the last sector.
//!
//! Input: the node as it lies on the disk. Its place and birth are believed.

use store::format::{DatasetId, Epoch, Node, NodeId};

use crate::input::Bytes;

/// See the module.
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

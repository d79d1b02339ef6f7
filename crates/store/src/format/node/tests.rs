//! Tests of nodes on disks: round trips, and every block that is not the node that was meant.

use proptest::prelude::*;

use super::*;
use crate::format::{Address, Algorithm};

const ID: NodeId = NodeId {
    volume: DatasetId(7),
    level: 1,
    index: 3,
};
const BIRTH: Epoch = Epoch(1000);

fn filled(slots: &[(usize, u64, u128)]) -> Node {
    let mut node = Node::new(ID, BIRTH);
    for &(slot, sector, checksum) in slots {
        let address = Address::new(2, sector);
        let (birth, algorithm) = (Epoch(sector % 1001), Algorithm::Xxh3);
        let once = Pointer {
            address,
            birth,
            sectors: 1,
            algorithm,
            checksum,
            ..Pointer::HOLE
        };
        let twice = once.doubled(Address::new(5, sector / 3));
        node.set(slot, if checksum % 3 == 0 { twice } else { once });
    }
    node
}

fn fault(bytes: &[u8]) -> NodeFault {
    Node::<FAN_OUT>::decode(ID, BIRTH, bytes)
        .expect_err("it is damaged")
        .kind
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nodes_survive_the_disk(
        slots in prop::collection::vec((0..FAN_OUT, 0..Address::SECTORS, any::<u128>()), 0..600),
    ) {
        let node = filled(&slots);
        let (compression, block) = node.to_block();
        prop_assert_eq!(block.len() % SECTOR_SIZE, 0);
        let pointer = Pointer { birth: BIRTH, sectors: 1, compression, ..Pointer::HOLE };
        prop_assert_eq!(Node::from_block(ID, &pointer, &block), Ok(node.clone()));
        let pointers: Vec<_> = node.iter().collect();
        let empty = (0..FAN_OUT).all(|slot| pointers[slot].is_hole());
        prop_assert_eq!(node.is_empty(), empty);
        for slot in (0..FAN_OUT).step_by(31) {
            let expected = (slot..FAN_OUT).find(|&slot| !pointers[slot].is_hole());
            prop_assert_eq!(node.next_filled(slot), expected);
        }
    }

    #[test]
    fn what_decodes_survives_the_disk_again(
        damage in prop::collection::vec((0..300_usize, any::<u8>()), 0..4),
    ) {
        let mut bytes = filled(&[(0, 1, 1), (9, 5000, 77), (511, 4, u128::MAX)]).encode();
        for (at, byte) in damage {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        if let Ok(node) = Node::<FAN_OUT>::decode(ID, BIRTH, &bytes) {
            let again = node.encode();
            prop_assert_eq!(Node::decode(ID, BIRTH, &again), Ok(node));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0..20_000_usize) {
        let mut block = filled(&[]).encode();
        block.resize(len, 0xff);
        let at = len.saturating_sub(bytes.len()) / 2;
        let end = (at + bytes.len()).min(len);
        block[at..end].copy_from_slice(&bytes[..end - at]);
        let _ = Node::<FAN_OUT>::decode(ID, BIRTH, &block);
        for compression in [Compression::Off, Compression::Lz4, Compression::Zstd] {
            let pointer = Pointer { birth: BIRTH, sectors: 1, compression, ..Pointer::HOLE };
            let _ = Node::<FAN_OUT>::from_block(ID, &pointer, &Pages::from_bytes(&block));
        }
    }
}

#[test]
fn a_node_in_the_place_of_another_is_found_out() {
    let bytes = filled(&[(1, 2, 3)]).encode();
    for other in [
        NodeId {
            volume: DatasetId(8),
            ..ID
        },
        NodeId { level: 0, ..ID },
        NodeId { index: 4, ..ID },
    ] {
        let error = Node::<FAN_OUT>::decode(other, BIRTH, &bytes).expect_err("it is another");
        assert_eq!(
            error,
            NodeError {
                expected: other,
                kind: NodeFault::Misplaced(ID)
            }
        );
    }
    let error = Node::<FAN_OUT>::decode(ID, BIRTH.next(), &bytes).expect_err("it is an older one");
    assert_eq!(error.kind, NodeFault::Birth(BIRTH));
}

#[test]
fn each_damage_has_its_name() {
    let bytes = filled(&[(1, 2, 3)]).encode();
    let damaged = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        bytes
    };
    assert_eq!(fault(&bytes[..bytes.len() - 1]), NodeFault::Short);
    assert_eq!(fault(&damaged(0, b'X')), NodeFault::NotANode);
    assert_eq!(fault(&damaged(8, 2)), NodeFault::Version(2));
    assert_eq!(fault(&damaged(11, 8)), NodeFault::Header);
    assert_eq!(fault(&damaged(15, 1)), NodeFault::Header);
    assert_eq!(fault(&damaged(20, 1)), NodeFault::Header);
    assert_eq!(
        fault(&damaged(12, 2)),
        NodeFault::Header,
        "more pointers than bits"
    );
    assert_eq!(fault(&damaged(14, 2)), NodeFault::Header);
    assert_eq!(
        fault(&damaged(56, 2)),
        NodeFault::Header,
        "a bit that differs and does not"
    );
    let last = bytes.len();
    let mut longer = bytes.clone();
    longer.resize(4096, 0);
    longer[last] = 1;
    assert_eq!(
        fault(&longer),
        NodeFault::Header,
        "something behind the end"
    );
    // First the last byte of the only pointer's shape, then a birth after the node's own.
    assert_eq!(fault(&damaged(40 + 15, 0xf0)), NodeFault::Pointer(1));
    assert_eq!(fault(&damaged(40 + 9, 0xf0)), NodeFault::Pointer(1));
    let compressed = Pointer {
        birth: BIRTH,
        compression: Compression::Lz4,
        ..Pointer::HOLE
    };
    let error = Node::<FAN_OUT>::from_block(ID, &compressed, &Pages::from_bytes(&bytes));
    assert_eq!(
        error.expect_err("no node is compressed").kind,
        NodeFault::Compressed
    );
}

/// Makes a node of `count` pointers as a volume of 1 TiB under random writes has them.
fn scattered(count: usize) -> Node {
    let mut node = Node::new(ID, Epoch(70_000));
    let mut state = 1_u64;
    for slot in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (address, birth) = (Address::new(0, state >> 36), Epoch(state >> 20 & 0xffff));
        let checksum = u128::from(state) << 64 | u128::from(state.rotate_left(7));
        let algorithm = Algorithm::Xxh3;
        node.set(
            slot,
            Pointer {
                address,
                birth,
                sectors: 1,
                algorithm,
                checksum,
                ..Pointer::HOLE
            },
        );
    }
    node
}

#[test]
fn nodes_take_few_sectors() {
    let sectors = |node: &Node| node.to_block().1.len() / SECTOR_SIZE;
    assert_eq!(sectors(&scattered(512)), 3);
    assert_eq!(sectors(&scattered(170)), 1);
    assert_eq!(sectors(&scattered(0)), 1);
    let mut without = scattered(512);
    for slot in 0..FAN_OUT {
        let pointer = Pointer {
            algorithm: Algorithm::Off,
            checksum: 0,
            ..without.get(slot)
        };
        without.set(slot, pointer);
    }
    assert_eq!(sectors(&without), 1);
}

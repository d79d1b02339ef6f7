//! Tests of the answer when devices cannot read. A block that no device will ever bring is lost. A
//! block that a leaf may bring when it comes back is not.

use super::rig::{LEAF_SIZE, Rig, block, content};
use crate::format::Address;
use crate::vdev::*;

/// Returns the error of a read if some leaves cannot read anything and others are gone.
fn answer(kind: TopLevelKind, leaves: u64, unreadable: &[usize], gone: &[usize]) -> ArrayErrorKind {
    let mut rig = Rig::new(kind, leaves);
    let data = content(1, 4);
    rig.write(Address::new(0, 0), &data).expect("written");
    for leaf in unreadable {
        rig.disks[*leaf].unreadable = (0..LEAF_SIZE / 4096).collect();
    }
    for leaf in gone {
        rig.disks[*leaf].broken = Some(DeviceErrorKind::Gone);
    }
    let read = rig.read(&block(0, &data, 1));
    read.expect_err("too few leaves have it").kind
}

#[test]
fn a_block_that_its_only_device_cannot_read_is_lost() {
    assert_eq!(
        answer(TopLevelKind::Leaf, 1, &[0], &[]),
        ArrayErrorKind::Medium
    );
    assert_eq!(
        answer(TopLevelKind::Mirror, 2, &[0, 1], &[]),
        ArrayErrorKind::Medium
    );
    let raidz = TopLevelKind::Raidz { parity: 1 };
    assert_eq!(answer(raidz, 4, &[0, 1], &[]), ArrayErrorKind::Medium);
}

#[test]
fn a_block_that_a_leaf_may_bring_when_it_is_back_is_not_lost() {
    assert_eq!(
        answer(TopLevelKind::Leaf, 1, &[], &[0]),
        ArrayErrorKind::Device
    );
    for kind in [TopLevelKind::Mirror, TopLevelKind::Raidz { parity: 1 }] {
        assert_eq!(answer(kind, 3, &[0], &[1, 2]), ArrayErrorKind::Device);
    }
    let raidz = TopLevelKind::Raidz { parity: 2 };
    assert_eq!(answer(raidz, 5, &[0, 1], &[2]), ArrayErrorKind::Device);
}

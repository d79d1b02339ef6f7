//! Tests of the answer for a record that is sought and not there: which leaves must be read before
//! the log may be said to end.

use std::sync::Arc;

use super::rig::{Rig, leaves};
use crate::format::{Address, Epoch};
use crate::vdev::*;

const RAIDZ: TopLevelKind = TopLevelKind::Raidz { parity: 1 };

/// Returns the kind of error for a record that no leaf has. Some leaves missed its epoch, and some
/// are gone.
fn answer(kind: TopLevelKind, count: u64, behind: &[usize], gone: &[usize]) -> ArrayErrorKind {
    let leaves = leaves(count).enumerate().map(|(leaf, mut spec)| {
        if behind.contains(&leaf) {
            spec.missing.add(Epoch(3), Epoch(5));
        }
        spec
    });
    let tree = VdevTree {
        top_levels: vec![TopLevelSpec::new(kind, Class::Normal, leaves)],
    };
    let mut rig = Rig::of(&tree, 1, Limits::default());
    for leaf in gone {
        rig.disks[*leaf].broken = Some(DeviceErrorKind::Gone);
    }
    let record = Block {
        address: Address::new(0, 0),
        second: None,
        sectors: 1,
        birth: Epoch(4),
        verify: Verify::Record(Arc::new(|_| false)),
    };
    rig.read(&record).expect_err("it was never written").kind
}

/// Nobody was promised the writes that the only leaf missed, since no other leaf took them.
#[test]
fn the_only_leaf_of_a_vdev_says_that_there_is_no_record() {
    for behind in [[].as_slice(), &[0]] {
        let kind = answer(TopLevelKind::Leaf, 1, behind, &[]);
        assert_eq!(kind, ArrayErrorKind::Checksum, "{behind:?}");
    }
    assert_eq!(
        answer(TopLevelKind::Leaf, 1, &[0], &[0]),
        ArrayErrorKind::Device
    );
}

#[test]
fn all_leaves_together_say_that_there_is_no_record_though_each_missed_something() {
    for count in [2, 3] {
        let behind: Vec<usize> = (0..count as usize).collect();
        let kind = answer(TopLevelKind::Mirror, count, &behind, &[]);
        assert_eq!(kind, ArrayErrorKind::Checksum, "{count}");
    }
    // A record of one sector lies on a parity column and a data column.
    assert_eq!(answer(RAIDZ, 3, &[0, 1, 2], &[]), ArrayErrorKind::Checksum);
}

/// The leaf that is gone may be the one that took the record.
#[test]
fn a_leaf_that_missed_the_epoch_says_nothing_while_another_is_gone() {
    let kind = TopLevelKind::Mirror;
    assert_eq!(answer(kind, 2, &[0], &[1]), ArrayErrorKind::Device);
    assert_eq!(answer(kind, 3, &[0, 1], &[2]), ArrayErrorKind::Device);
    assert_eq!(answer(RAIDZ, 2, &[0], &[1]), ArrayErrorKind::Device);
}

//! Tests of blocks that lie twice, on vdevs of any kind. One right copy is enough, and both copies
//! are right afterwards.

use proptest::prelude::*;

use pages::{PAGE_SIZE, Pages};

use super::rig::{Rig, block, content, leaves};
use crate::format::Address;
use crate::vdev::*;

const SECTORS: usize = 5;

/// Makes two top-level vdevs whose leaves are numbered one after the other.
fn rig(first: (TopLevelKind, u64), second: (TopLevelKind, u64)) -> Rig {
    let mut guids = leaves(first.1 + second.1);
    let mut top = |(kind, count): (TopLevelKind, u64)| {
        let own: Vec<LeafSpec> = guids.by_ref().take(count as usize).collect();
        TopLevelSpec::new(kind, Class::Normal, own)
    };
    let top_levels = vec![top(first), top(second)];
    Rig::of(&VdevTree { top_levels }, 1, Limits::default())
}

/// Writes a block in both places.
fn written(rig: &mut Rig, first: Address, second: Address) -> (Block, Pages) {
    let data = content(7, SECTORS);
    for place in [first, second] {
        rig.write(place, &data).expect("written");
    }
    rig.flush().expect("flushed");
    let once = block(0, &data, 1);
    let Verify::Checksum {
        algorithm,
        checksum,
        ..
    } = once.verify
    else {
        panic!("{once:?}");
    };
    let block = Block {
        address: first,
        second: Some(second),
        verify: Verify::Checksum {
            algorithm,
            checksum: checksum & u128::from(u64::MAX),
            is_half: true,
        },
        ..once
    };
    (block, data)
}

/// Writes other bytes into a place.
fn damage(rig: &mut Rig, place: Address) {
    rig.write(place, &content(99, SECTORS)).expect("written");
}

/// Reads a place as a block that lies only there.
fn lies(rig: &mut Rig, place: Address, block: &Block) -> Result<Pages, ArrayError> {
    let once = Block {
        address: place,
        second: None,
        ..block.clone()
    };
    rig.read(&once)
}

/// Returns places of copies: on one vdev, or on two.
fn places() -> [(Address, Address); 2] {
    let first = Address::new(0, 9);
    [(first, Address::new(0, 2000)), (first, Address::new(1, 30))]
}

fn wrong_and_repaired(rig: &Rig) -> (usize, usize) {
    let count = |is: &dyn Fn(&VdevEvent) -> bool| rig.events.iter().filter(|of| is(of)).count();
    (
        count(&|event| matches!(event, VdevEvent::ChecksumError { .. })),
        count(&|event| matches!(event, VdevEvent::Repaired { .. })),
    )
}

#[test]
fn a_wrong_first_copy_is_counted_and_written_anew_from_the_second() {
    for (first, second) in places() {
        let mut rig = rig((TopLevelKind::Leaf, 1), (TopLevelKind::Leaf, 1));
        let (block, data) = written(&mut rig, first, second);
        damage(&mut rig, first);
        assert_eq!(rig.read(&block).expect("read").to_vec(), data.to_vec());
        assert_eq!(wrong_and_repaired(&rig), (1, 1));
        assert_eq!((rig.errors(0).checksum, rig.top().unreadable), (1, 0));
        let now = lies(&mut rig, first, &block).expect("repaired");
        assert_eq!(now.to_vec(), data.to_vec());
        // The right copy is not read twice.
        let reads = rig.disks[1].reads;
        rig.read(&block).expect("read");
        assert_eq!(rig.disks[1].reads, reads);
    }
}

#[test]
fn a_first_copy_that_cannot_be_read_is_written_anew_from_the_second() {
    for (first, second) in places() {
        let mut rig = rig((TopLevelKind::Leaf, 1), (TopLevelKind::Leaf, 1));
        let (block, data) = written(&mut rig, first, second);
        let sector = layout::sector_offset(first.sector()) / PAGE_SIZE as u64;
        rig.disks[0].unreadable.insert(sector + 2);
        assert_eq!(rig.read(&block).expect("read").to_vec(), data.to_vec());
        assert!(rig.disks[0].unreadable.is_empty(), "it is written");
        assert_eq!(wrong_and_repaired(&rig), (0, 1));
    }
}

#[test]
fn a_block_without_a_right_copy_is_unreadable_once_and_nothing_is_written() {
    for (first, second) in places() {
        let mut rig = rig((TopLevelKind::Leaf, 1), (TopLevelKind::Leaf, 1));
        let (block, _) = written(&mut rig, first, second);
        damage(&mut rig, first);
        damage(&mut rig, second);
        let writes = |rig: &Rig| rig.disks.iter().map(|disk| disk.writes).sum::<usize>();
        let before = writes(&rig);
        let error = rig.read(&block).expect_err("no copy is right");
        assert_eq!(error.kind, ArrayErrorKind::Checksum);
        assert_eq!(rig.top().unreadable, 1);
        assert_eq!(rig.scrub(&block).expect_err("nor now").kind, error.kind);
        assert_eq!(writes(&rig), before);
        assert_eq!(wrong_and_repaired(&rig), (4, 0));
    }
}

/// A copy on a device that is away may be the right one.
#[test]
fn it_is_not_said_that_a_block_is_nowhere_while_a_copy_is_away() {
    for away in [0, 1] {
        let (first, second) = places()[1];
        let mut rig = rig((TopLevelKind::Leaf, 1), (TopLevelKind::Leaf, 1));
        let (block, data) = written(&mut rig, first, second);
        rig.disks[away].broken = Some(DeviceErrorKind::Gone);
        assert_eq!(rig.read(&block).expect("the other").to_vec(), data.to_vec());
        let other = [second, first][away];
        damage(&mut rig, other);
        let error = rig.read(&block).expect_err("no copy is there");
        let may_pass = [ArrayErrorKind::Device, ArrayErrorKind::Unavailable];
        assert!(may_pass.contains(&error.kind), "{error}");
    }
}

#[test]
fn a_scrub_proves_both_copies_and_repairs_either() {
    for (first, second) in places() {
        for bad in [first, second] {
            let mut rig = rig((TopLevelKind::Leaf, 1), (TopLevelKind::Leaf, 1));
            let (block, data) = written(&mut rig, first, second);
            let all_right = rig.scrub(&block).expect("right");
            assert_eq!(all_right, Scrubbed::default());
            damage(&mut rig, bad);
            let found = rig.scrub(&block).expect("one is right");
            assert_eq!((found.bad, found.repaired), (1, 1), "{bad}");
            assert_eq!(wrong_and_repaired(&rig), (1, 1));
            for place in [first, second] {
                let now = lies(&mut rig, place, &block).expect("right");
                assert_eq!(now.to_vec(), data.to_vec());
            }
        }
    }
}

/// All leaves from which the leaf would be rebuilt are wrong. The copy on the other vdev is right.
#[test]
fn a_leaf_is_rebuilt_from_the_copy_on_another_vdev() {
    let (first, second) = places()[1];
    for (first, second) in [(first, second), (second, first)] {
        let mut rig = rig((TopLevelKind::Mirror, 2), (TopLevelKind::Mirror, 2));
        let (block, data) = written(&mut rig, first, second);
        damage(&mut rig, first);
        let leaf = LeafId(u32::from(first.vdev()) * 2 + 1);
        rig.rebuild(&block, leaf).expect("rebuilt");
        let sector = layout::sector_offset(first.sector()) / PAGE_SIZE as u64;
        let bytes = data.to_vec();
        for (number, bytes) in bytes.chunks(PAGE_SIZE).enumerate() {
            let there = rig.disks[leaf.0 as usize].sector(sector + number as u64);
            assert_eq!(&there[..], bytes);
        }
        let elsewhere = LeafId(u32::from(second.vdev()) * 2);
        rig.rebuild(&block, elsewhere).expect("its own copy");
    }
}

/// The place of the second copy is freed and used again while the first copy is read.
#[test]
fn a_block_that_was_freed_meanwhile_is_not_written_over_what_lies_there_now() {
    for (first, second) in places() {
        for (overwritten, kept) in [(first, second), (second, first)] {
            for is_scrub in [true, false] {
                let mut rig = rig((TopLevelKind::Leaf, 1), (TopLevelKind::Leaf, 1));
                let (block, _) = written(&mut rig, first, second);
                if overwritten == second {
                    damage(&mut rig, first);
                }
                let asked = block.clone();
                let tag = rig.ask(|array, tag, now_us, out| match is_scrub {
                    true => array.scrub_block(tag, asked, now_us, out),
                    false => array.read(tag, asked, Priority::SyncRead, now_us, out),
                });
                let new = content(55, SECTORS);
                rig.write(overwritten, &new).expect("written");
                rig.run();
                rig.done.remove(&tag).expect("an answer");
                let sector = layout::sector_offset(overwritten.sector()) / PAGE_SIZE as u64;
                let disk = usize::from(overwritten.vdev());
                let there = rig.disks[disk].sector(sector);
                assert_eq!(&there[..], &new.to_vec()[..PAGE_SIZE], "{kept} {is_scrub}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// One right copy suffices, whatever the vdevs are and whichever copies are damaged. The block
    /// is found, both copies are right after a scrub, and no bytes are returned that are not the
    /// block's.
    #[test]
    fn one_right_copy_is_enough(
        kinds in (0..4_usize, 0..4_usize),
        on_one in any::<bool>(),
        bad in (any::<bool>(), any::<bool>()),
        seed in any::<u64>(),
        is_scrubbed_first in any::<bool>(),
    ) {
        let kind = |number| [
            (TopLevelKind::Leaf, 1),
            (TopLevelKind::Mirror, 2),
            (TopLevelKind::Raidz { parity: 1 }, 3),
            (TopLevelKind::Raidz { parity: 2 }, 4),
        ][number];
        let mut rig = rig(kind(kinds.0), kind(kinds.1));
        rig.random = super::rig::Random(seed);
        let (first, second) = places()[usize::from(!on_one)];
        let (block, data) = written(&mut rig, first, second);
        for (is_bad, place) in [(bad.0, first), (bad.1, second)] {
            if is_bad {
                damage(&mut rig, place);
            }
        }
        let is_there = !(bad.0 && bad.1);
        if is_scrubbed_first {
            let found = rig.scrub(&block);
            prop_assert_eq!(found.is_ok(), is_there);
            if let Ok(found) = found {
                prop_assert_eq!(found.bad, found.repaired);
                prop_assert_eq!(found.bad > 0, bad.0 || bad.1);
            }
        }
        match rig.read(&block) {
            Ok(found) => {
                prop_assert!(is_there);
                prop_assert_eq!(found.to_vec(), data.to_vec());
            }
            Err(_) => prop_assert!(!is_there),
        }
        if is_there {
            rig.scrub(&block).expect("right");
            prop_assert_eq!(rig.scrub(&block).expect("right"), Scrubbed::default());
            for place in [first, second] {
                prop_assert_eq!(lies(&mut rig, place, &block).expect("right").to_vec(), data.to_vec());
            }
        }
    }
}

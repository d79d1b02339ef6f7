//! Tests of the basics: blocks come back, wrong copies are healed, and losses beyond the redundancy
//! are errors.

use pages::Pages;

use super::rig::{Rig, block, content};
use crate::format::{Address, Epoch};
use crate::vdev::*;

const KINDS: [(TopLevelKind, u64, usize); 7] = [
    (TopLevelKind::Leaf, 1, 0),
    (TopLevelKind::Mirror, 2, 1),
    (TopLevelKind::Mirror, 3, 2),
    (TopLevelKind::Raidz { parity: 1 }, 3, 1),
    (TopLevelKind::Raidz { parity: 2 }, 5, 2),
    (TopLevelKind::Raidz { parity: 3 }, 6, 3),
    (TopLevelKind::Raidz { parity: 2 }, 3, 2),
];

/// Writes blocks of several sizes, one behind the other.
fn fill(rig: &mut Rig) -> Vec<(Block, Pages)> {
    let mut sector = 3;
    let mut blocks = Vec::new();
    for sectors in [1, 2, 3, 5, 8, 17] {
        let data = content(sector, sectors);
        rig.write(Address::new(0, sector), &data).expect("written");
        blocks.push((block(sector, &data, 1), data));
        sector += u64::from(rig.array.footprint(0, sectors as u16));
    }
    rig.flush().expect("flushed");
    blocks
}

fn expect_all(rig: &mut Rig, blocks: &[(Block, Pages)]) {
    for (block, data) in blocks {
        assert_eq!(rig.read(block).expect("read").to_vec(), data.to_vec());
    }
}

#[test]
fn blocks_come_back() {
    for (kind, count, _) in KINDS {
        let mut rig = Rig::new(kind, count);
        let blocks = fill(&mut rig);
        expect_all(&mut rig, &blocks);
        assert_eq!(rig.top().state, VdevState::Online);
        assert!(rig.events.is_empty(), "{:?}", rig.events);
    }
}

#[test]
fn any_leaves_up_to_the_redundancy_may_go() {
    for (kind, count, redundancy) in KINDS {
        for lost in 0..1_u32 << count {
            if lost.count_ones() as usize > redundancy {
                continue;
            }
            let mut rig = Rig::new(kind, count);
            let blocks = fill(&mut rig);
            for leaf in (0..count as usize).filter(|leaf| lost >> leaf & 1 == 1) {
                rig.disks[leaf].broken = Some(DeviceErrorKind::Gone);
            }
            expect_all(&mut rig, &blocks);
            // Leaves that are known to be gone are not asked.
            expect_all(&mut rig, &blocks);
            assert!(
                rig.array
                    .leaves()
                    .filter(|leaf| leaf.state == VdevState::Removed)
                    .count()
                    <= lost.count_ones() as usize
            );
        }
    }
}

#[test]
fn one_loss_too_many_is_an_error() {
    for (kind, count, redundancy) in KINDS {
        let mut rig = Rig::new(kind, count);
        let blocks = fill(&mut rig);
        for leaf in 0..=redundancy {
            rig.disks[leaf].broken = Some(DeviceErrorKind::Gone);
        }
        let mut failed = 0;
        for (block, data) in &blocks {
            match rig.read(block) {
                Ok(read) => assert_eq!(read.to_vec(), data.to_vec()),
                Err(_) => failed += 1,
            }
        }
        assert!(failed > 0);
        assert_eq!(rig.top().state, VdevState::Unavailable);
    }
}

#[test]
fn rotten_leaves_are_healed_and_counted() {
    for (kind, count, redundancy) in KINDS {
        for first in 0..count as usize {
            let mut rig = Rig::new(kind, count);
            let blocks = fill(&mut rig);
            let rotten = (0..redundancy).map(|at| (first + at * 2 + at / 2) % count as usize);
            let rotten: std::collections::BTreeSet<usize> = rotten.collect();
            for leaf in &rotten {
                assert!(rig.disks[*leaf].rot(|| true) > 0);
            }
            expect_all(&mut rig, &blocks);
            let mut bad = 0;
            for (block, _) in &blocks {
                let found = rig.scrub(block).expect("readable");
                assert_eq!(found.bad, found.repaired);
                bad += found.bad;
            }
            assert!(redundancy == 0 || kind != TopLevelKind::Leaf || bad == 0);
            for (block, _) in &blocks {
                assert_eq!(rig.scrub(block).expect("readable"), Scrubbed::default());
            }
            for leaf in 0..count as u32 {
                let errors = rig.errors(leaf).checksum;
                assert_eq!(
                    errors > 0,
                    rotten.contains(&(leaf as usize)),
                    "{kind:?} leaf {leaf}"
                );
            }
        }
    }
}

/// An opening relies on this. It scrubs the end of the log onto all leaves, and goes on behind it.
#[test]
fn a_scrub_tells_which_leaf_it_could_not_bring_the_block_onto() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    let data = content(1, 2);
    rig.write(Address::new(0, 4), &data).expect("written");
    rig.disks[1].rot(|| true);
    // The leaf cannot be spared: only it has this block.
    rig.with(|array, out| array.offline(LeafId(0), 0, out))
        .expect("can be spared");
    rig.with(|array, _| array.set_epochs(Epoch(2), Epoch(2)));
    rig.write(Address::new(0, 40), &data).expect("written");
    rig.with(|array, out| array.online(LeafId(0), out))
        .expect("there");
    rig.disks[1].fail_writes = true;
    let block = block(4, &data, 1);
    let found = rig.scrub(&block).expect("readable");
    let (bad, repaired) = (1, 0);
    assert_eq!(found, Scrubbed { bad, repaired });
    let told = |rig: &mut Rig| {
        let events = std::mem::take(&mut rig.events).into_iter();
        let unrepaired = events.filter_map(|event| match event {
            VdevEvent::Unrepaired { leaf, birth, .. } => Some((leaf, birth)),
            _ => None,
        });
        unrepaired.collect::<Vec<_>>()
    };
    assert_eq!(told(&mut rig), [(LeafId(1), Epoch(1))]);
    let missing = |rig: &Rig| rig.array.missing(LeafId(1)).expect("a leaf");
    assert!(missing(&rig).is_empty());
    rig.with(|array, out| array.note_lack(LeafId(1), Epoch(1)..=Epoch(1), out));
    assert_eq!(missing(&rig).ranges(), [(Epoch(1), Epoch(1))]);
    // The leaf can be brought up to date, as after any write that it missed.
    rig.disks[1].fail_writes = false;
    let resilver = rig.array.start_resilver(LeafId(1)).expect("online");
    rig.rebuild(&block, LeafId(1)).expect("rebuilt");
    rig.flush().expect("flushed");
    rig.with(|array, out| array.finish_resilver(&resilver, out))
        .expect("whole");
    assert!(missing(&rig).is_empty());
    assert_eq!(rig.scrub(&block).expect("readable"), Scrubbed::default());
    assert_eq!(told(&mut rig), []);
}

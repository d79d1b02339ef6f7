//! Random histories over several volumes, beside a model of the expected contents of every volume
//! and snapshot.
//!
//! The steps are writes and clearings, and all operations on datasets, with checkpoints and
//! openings in between. The pool is checked after each opening and checkpoint. At the end all is
//! destroyed, and all space is free.

mod history;

use proptest::prelude::*;

use super::super::{Limits, Request, RequestId};
use super::world::World;
use crate::catalog::request::{Rollback, TakeSnapshots};
use crate::vdev::TopLevelKind;
use history::{History, PROPERTIES, Step, any_growing_step, any_step, needed};

fn run(kind: TopLevelKind, disks: usize, limits: Limits, is_lazy: bool, steps: &[Step]) {
    follow(History::new(kind, disks, limits), is_lazy, steps);
}

fn follow(mut history: History, is_lazy: bool, steps: &[Step]) {
    history.world.is_lazy = is_lazy;
    history.change(&Step::Create { shift: 12 });
    for step in steps {
        history.perform(step);
    }
    history.end();
}

fn any_limits() -> impl Strategy<Value = Limits> {
    (
        1..60_u64,
        1..40_u64,
        1..=64_usize,
        // A list of lists is one step, and the blocks on it another one.
        2..100_usize,
        1..100_usize,
        any::<bool>(),
    )
        .prop_map(
            |(updates, groups, budget, freed_blocks, scan_batch, is_small)| {
                if !is_small {
                    return Limits::default();
                }
                Limits {
                    updates,
                    groups,
                    budget,
                    freed_blocks,
                    scan_batch,
                    node_bytes: 0,
                    ..Limits::default()
                }
            },
        )
}

/// `PROPTEST_CASES` may ask for more cases.
fn config(cases: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(cases),
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn datasets_are_their_models(
        shape in 0..3_usize,
        limits in any_limits(),
        is_lazy in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let (kind, disks) = [
            (TopLevelKind::Leaf, 1),
            (TopLevelKind::Mirror, 2),
            (TopLevelKind::Raidz { parity: 1 }, 3),
        ][shape];
        run(kind, disks, limits, is_lazy, &steps);
    }
}

proptest! {
    #![proptest_config(config(64))]

    /// Changes are refused when the lists of a dozen datasets are as long as a checkpoint may have
    /// them. The changes that are taken never keep the pool from going on.
    #[test]
    fn no_history_makes_lists_longer_than_a_checkpoint_may_have_them(
        limits in any_limits(),
        is_lazy in any::<bool>(),
        steps in prop::collection::vec(any_growing_step(), 1..160),
    ) {
        let limits = Limits {
            manifest_bytes: 282_000,
            ..limits
        };
        let mut history = History::new(TopLevelKind::Leaf, 1, limits);
        history.world.fill_history();
        for _ in 0..3 {
            history.world.checkpoint();
        }
        history.empty = needed(&history.world);
        follow(history, is_lazy, &steps);
    }
}

fn write(sector: u64) -> Step {
    Step::Write {
        volume: 0,
        at: (0, sector),
        sectors: 1,
        durable: true,
    }
}

const SNAPSHOT: Step = Step::Snapshot { volume: 0 };

fn run_simple(steps: &[Step]) {
    run(TopLevelKind::Leaf, 1, Limits::default(), false, steps);
}

/// Blocks on the dead list of a destroyed volume belong to its snapshot, but the chunks of the list
/// do not.
#[test]
fn the_dead_list_of_a_destroyed_volume_is_freed() {
    run_simple(&[write(0), SNAPSHOT, write(0), Step::Checkpoint]);
    let rollback = Step::Rollback {
        snapshot: 0,
        clones: false,
    };
    run_simple(&[write(0), SNAPSHOT, write(0), Step::Checkpoint, rollback]);
}

/// A volume, its snapshot and a clone share a layer. The snapshot drops the blocks that the layer
/// replaces, even if all three are being deleted.
#[test]
fn a_layer_shared_by_all_who_are_deleted_drops_what_it_replaced() {
    let clone = Step::Clone { snapshot: 0 };
    run_simple(&[write(0), Step::Checkpoint, write(0), SNAPSHOT, clone]);
}

/// The list of a snapshot that is destroyed with the one before it is split again: it must keep its
/// parts.
#[test]
fn lists_keep_their_parts_when_neighbours_are_destroyed_together() {
    let range = Step::DestroyRange { snapshot: 2 };
    let one = Step::DestroySnapshot {
        snapshot: 1,
        clones: false,
    };
    let rewrite = [write(0), write(1), SNAPSHOT, SNAPSHOT, Step::Checkpoint];
    let mut steps = vec![write(0), SNAPSHOT, write(1), SNAPSHOT];
    steps.extend(rewrite);
    steps.extend([range, Step::Reopen, one, Step::Checkpoint]);
    run_simple(&steps);
}

/// A write is not forgotten that waits for the next checkpoint, after too many changes since the
/// last.
#[test]
fn a_write_that_waits_for_a_checkpoint_is_answered() {
    let limits = Limits {
        updates: 1,
        ..Limits::default()
    };
    let many = Step::Write {
        volume: 0,
        at: (0, 0),
        sectors: 3,
        durable: true,
    };
    run(
        TopLevelKind::Leaf,
        1,
        limits,
        false,
        &[many.clone(), many, write(0)],
    );
}

/// A partial write reads the rest of its block before a rollback. These bytes must not come back
/// with it.
#[test]
fn a_write_of_a_part_of_a_block_does_not_undo_a_rollback() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 1 << 20, 16384);
    world.write(volume, 0, &[1; 16384], true);
    let names = vec!["a@1".to_owned()];
    let request = TakeSnapshots {
        names,
        ..TakeSnapshots::default()
    };
    world
        .administer(Box::new(move |catalog, stamp| {
            catalog.plan_snapshot(&request, stamp)
        }))
        .expect("a snapshot");
    world.write(volume, 0, &[2; 16384], true);
    world.reopen().expect("opens");
    let part = Request::Write {
        dataset: volume,
        offset: 0,
        data: pages::Pages::from_bytes(&[3; 4096]),
        durable: false,
    };
    let now = world.now_us;
    world.pool.submit(RequestId(9001), part, now);
    let request = Rollback {
        snapshot: "a@1".to_owned(),
        ..Rollback::default()
    };
    world
        .administer(Box::new(move |catalog, _| catalog.plan_rollback(&request)))
        .expect("a rollback");
    assert!(world.read(volume, 4096, 12288) == [1; 12288]);
}

/// Old data in the cache is not taken for data written since.
#[test]
fn a_block_written_with_primarycache_none_is_not_read_as_it_was_before() {
    let set = Step::Set {
        volume: 0,
        property: PROPERTIES.len() - 1,
    };
    run_simple(&[write(0), set, write(0)]);
}

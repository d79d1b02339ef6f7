//! Opening a pool whose devices are damaged, old or away: it opens where redundancy allows it, with all that
//! was acknowledged, and says why where it does not.

use super::super::{Limits, OpenErrorKind};
use super::world::World;
use crate::format::DatasetId;
use crate::vdev::Kind;

const BLOCK: usize = 4096;

/// A pool with a volume of which the first block is durable, and lies in the log only.
fn written(kind: Kind, disks: usize) -> (World, DatasetId) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK as u32);
    world.checkpoint();
    world.write(volume, 0, &[1; BLOCK], true);
    (world, volume)
}

#[test]
fn one_unreadable_copy_of_where_the_log_ends_does_not_keep_a_mirror_closed() {
    for bad in 0..2 {
        let (mut world, volume) = written(Kind::Mirror, 2);
        let end = world.end_of_log();
        world.unreadable.insert((bad, end));
        world
            .reopen()
            .expect("the other copy tells that nothing is there");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
        world.write(volume, 0, &[2; BLOCK], true);
        world.reopen().expect("opens");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
    }
}

#[test]
fn where_no_copy_can_be_read_the_end_of_the_log_is_not_guessed() {
    for (kind, disks) in [(Kind::Leaf, 1), (Kind::Mirror, 2)] {
        let (mut world, _) = written(kind, disks);
        let end = world.end_of_log();
        world.unreadable.extend((0..disks).map(|disk| (disk, end)));
        let error = world.reopen().expect_err("it may have been acknowledged");
        assert_eq!(error.kind, OpenErrorKind::Damaged, "{error}");
        assert!(error.context.contains("where the log ends"), "{error}");
    }
}

/// The second leaf was put aside, so that a record lies on the first only: nobody else can say that it
/// does not.
#[test]
fn a_leaf_that_missed_the_record_does_not_say_that_there_is_none() {
    let (mut world, volume) = written(Kind::Mirror, 2);
    let second = world.pool.leaf(101).expect("the second");
    let now = world.now_us;
    world.pool.offline(second, now).expect("the first has all");
    world.checkpoint();
    let only_copy = world.end_of_log();
    world.write(volume, 0, &[2; BLOCK], true);
    let now = world.now_us;
    // Back, and not rebuilt yet: the labels say what it misses.
    world.pool.online(second, now).expect("comes back");
    world.unreadable.insert((0, only_copy));
    let error = world
        .reopen_now()
        .expect_err("an acknowledged write lies there");
    assert!(error.context.contains("where the log ends"), "{error}");
    world.unreadable.clear();
    world.reopen_now().expect("opens");
    assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
}

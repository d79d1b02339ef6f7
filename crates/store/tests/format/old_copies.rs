//! Tests of leaves that come back with their content of an earlier moment. Engine and reader
//! recognize them by their labels.

use super::disks::Disk;
use super::story::{self, Step};
use super::{engine, reader, same};

/// Returns the leaves at some moments before the last checkpoint, and after the whole story.
fn moments() -> (Vec<Vec<Disk>>, Vec<Disk>) {
    let is_checkpoint = |step: &Step| matches!(step, Step::Checkpoint);
    let last = story::STORY.iter().rposition(is_checkpoint).expect("one");
    let mut world = engine::World::create();
    let mut old = Vec::new();
    for (number, step) in story::STORY.iter().enumerate() {
        if [last / 3, last / 2, last].contains(&number) {
            old.push(world.disks().to_vec());
        }
        world.follow(number, step);
    }
    (old, world.into_disks())
}

#[test]
fn an_old_copy_is_told_by_its_labels_and_read_from_the_others() {
    let (old, current) = moments();
    for moment in &old {
        for leaf in 0..current.len() {
            let mut disks = current.clone();
            disks[leaf] = moment[leaf].clone();
            // The reader rebuilds no missing column of a raidz from the others. Here these are
            // leaves 3 and 4.
            if (3..5).contains(&leaf) {
                same(&reader::read(&disks).datasets, &story::expected());
            }
            same(&engine::World::open(disks).contents(), &story::expected());
        }
    }
}

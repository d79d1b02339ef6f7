//! The space reported to users of raidz is the space that their data has room for.

use super::super::{Limits, Wasteful};
use super::world::World;
use crate::vdev::TopLevelKind;

const DISK: u64 = 32 << 20;

fn raidz(parity: u8, disks: usize) -> World {
    World::of_size(
        TopLevelKind::Raidz { parity },
        disks,
        DISK,
        Limits::default(),
    )
}

#[test]
fn no_more_is_told_to_be_available_than_can_be_written() {
    for (parity, disks, block_size) in [(1, 3, 16 << 10), (2, 4, 4096), (2, 6, 4096)] {
        let mut world = raidz(parity, disks);
        let volume = world.create_volume("v", 1 << 30, block_size);
        let told = world.pool.dataset_space(volume).expect("a volume");
        let written = world.fill(volume, block_size.into());
        let shape = format!("raidz{parity} of {disks}, blocks of {block_size}");
        let available = told.available;
        assert!(written <= available, "{shape}: {written} of {available}");
        // Maps take a little of the space.
        assert!(
            written > available / 4 * 3,
            "{shape}: {written} of {available}"
        );
        let after = world.pool.dataset_space(volume).expect("a volume");
        assert_eq!(after.capacity, told.capacity, "{shape}");
        assert!(after.available < available / 4, "{shape}");
    }
}

#[test]
fn what_is_reserved_on_raidz_is_told_to_be_available() {
    let mut world = raidz(1, 3);
    let request = crate::catalog::request::CreateVolume {
        name: "v".to_owned(),
        size: 16 << 20,
        block_size: 16 << 10,
        is_thick: true,
        ..Default::default()
    };
    let plan = Box::new(move |catalog: &crate::catalog::Catalog, stamp| {
        catalog.plan_create_volume(&request, stamp)
    });
    world.administer(plan).expect("a volume");
    let thin = world.create_volume("w", 1 << 30, 16 << 10);
    let thick = world.id("v");
    let of = |id| world.pool.dataset_space(id).expect("a volume").available;
    assert!(of(thick) >= of(thin) + (16 << 20));
    // Parity is reserved with the data.
    world.fill(thin, 16 << 10);
    for block in 0..1024 {
        world.write(
            thick,
            block << 14,
            &crate::engine::tests::room::full::noise(16 << 10, block),
            true,
        );
    }
}

#[test]
fn the_default_suits_the_vdevs() {
    assert_eq!(raidz(1, 3).pool.default_block_size(), 64 << 10);
    let mirror = World::new(TopLevelKind::Mirror, 2, Limits::default());
    assert_eq!(mirror.pool.default_block_size(), 16 << 10);
    assert_eq!(mirror.pool.wasteful(4096), None);
}

#[test]
fn a_block_size_that_is_mostly_padding_is_told_with_a_better_one() {
    let wasteful = |parity, disks, block_size| raidz(parity, disks).pool.wasteful(block_size);
    let told = |percent, better| Some(Wasteful { percent, better });
    // A block is 4K and a sector of parity: half is data, and two thirds could be.
    assert_eq!(wasteful(1, 3, 4096), told(75, 16 << 10));
    assert_eq!(wasteful(1, 3, 16 << 10), None);
    // A block of 4 + 2 sectors is padded to 6, instead of 5.
    assert_eq!(wasteful(1, 5, 16 << 10), told(83, 32 << 10));
    // With 16K, 4 + 4 sectors are padded to 9.
    assert_eq!(wasteful(2, 4, 4096), told(66, 64 << 10));
    assert_eq!(wasteful(2, 6, 16 << 10), None);
}

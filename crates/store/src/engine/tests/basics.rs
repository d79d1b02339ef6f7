//! Data that was written is read, before and after a checkpoint, before and after the pool is
//! opened again.

use pages::Pages;
use proptest::prelude::*;

use super::super::{Limits, Plan, Request};
use super::world::World;
use crate::catalog::HistoryEntry;
use crate::catalog::request::{CreateVolume, SetProperties};
use crate::format::Extent;
use crate::space::Purpose;
use crate::vdev::TopLevelKind;

fn pattern(len: usize, tag: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|at| {
            (at / 512)
                .wrapping_mul(31)
                .wrapping_add(tag.wrapping_mul(7) + 1) as u8
        })
        .collect()
}

#[test]
fn a_block_is_read_as_written() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 8 << 20, 4096);
    world.write(volume, 8192, &pattern(4096, 1), true);
    assert_eq!(world.read(volume, 8192, 4096), pattern(4096, 1));
    assert_eq!(world.read(volume, 4096, 4096), vec![0; 4096]);
    world.reopen().expect("opens");
    assert_eq!(world.read(volume, 8192, 4096), pattern(4096, 1));
    world.checkpoint();
    assert_eq!(world.read(volume, 8192, 4096), pattern(4096, 1));
    world.reopen().expect("opens");
    assert_eq!(world.read(volume, 8192, 4096), pattern(4096, 1));
    assert_eq!(world.read(volume, 0, 8192), vec![0; 8192]);
}

/// Lists of overwritten blocks grow with the work: a million scattered blocks are ten MiB, three
/// times over.
#[test]
fn what_waits_to_be_free_counts_into_the_cap_of_the_cache() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 4 << 30, Limits::default());
    let before = world.pool.charge.bytes();
    assert!(before < 1 << 20, "{before}");
    for sector in (100_000..500_000).step_by(2) {
        let extent = Extent {
            vdev: 0,
            sector,
            sectors: 1,
        };
        let space = &mut world.pool.space;
        space
            .mark_allocated(extent, Purpose::Checkpoint)
            .expect("it is free");
        space.drop_later(extent).expect("it is in use");
    }
    let now = world.now_us + 1_000_000;
    world.pool.tick(now, 1_000);
    let after = world.pool.charge.bytes();
    assert!(after >= 1_900_000, "{after}");
}

/// The history is in the log, then in a checkpoint, and replay adds nothing twice.
#[test]
fn the_history_outlives_power_cuts_and_goes_with_the_pool() {
    let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
    let mut expected: Vec<String> = Vec::new();
    for round in 0..4 {
        for number in 0..3 {
            let text = format!("round {round}, {number}");
            expected.push(text.clone());
            let plan: Plan = Box::new(move |catalog, stamp| {
                catalog.plan_note(HistoryEntry {
                    time_s: stamp.time_s,
                    text,
                    ..HistoryEntry::default()
                })
            });
            world.administer(plan).expect("noted");
            if (round + number) % 3 == 0 {
                world.checkpoint();
            }
        }
        world.crash().expect("opens");
        let history = world.pool.catalog().history().entries();
        let texts: Vec<String> = history.map(|of| of.text.clone()).collect();
        assert_eq!(texts, expected);
        world.check();
    }
}

#[test]
fn what_was_cached_before_the_policy_changed_is_not_read_again() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 8 << 20, 4096);
    world.write(volume, 0, &pattern(4096, 1), true);
    let request = SetProperties {
        name: "a".to_owned(),
        properties: [("primarycache".to_owned(), "none".to_owned())].into(),
        is_received: false,
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
    world.administer(plan).expect("a property");
    world.write(volume, 0, &pattern(4096, 2), true);
    world.checkpoint();
    assert_eq!(world.read(volume, 0, 4096), pattern(4096, 2));
}

#[test]
fn of_a_volume_with_primarycache_none_not_even_the_leaves_of_its_map_stay_in_memory() {
    for (policy, again) in [("all", 0), ("metadata", 0), ("none", 1)] {
        let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
        let request = CreateVolume {
            name: "a".to_owned(),
            size: 8 << 20,
            block_size: 4096,
            properties: [("primarycache".to_owned(), policy.to_owned())].into(),
            ..CreateVolume::default()
        };
        let plan: Plan =
            Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
        world.administer(plan).expect("a volume");
        let volume = world.id("a");
        world.write(volume, 0, &[7; 8192], true);
        world.reopen().expect("opens");
        world.checkpoint();
        assert_eq!(world.read(volume, 0, 4096), [7; 4096]);
        let before = world.pool.node_cache.counts().1;
        assert_eq!(world.read(volume, 4096, 4096), [7; 4096]);
        let missed = world.pool.node_cache.counts().1 - before;
        assert_eq!(missed.min(1), again, "{policy}");
    }
}

#[test]
fn a_flush_waits_for_the_disks_unless_the_volume_is_never_durable() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 8 << 20, 4096);
    let set = |world: &mut World, sync: &str| {
        let request = SetProperties {
            name: "a".to_owned(),
            properties: [("sync".to_owned(), sync.to_owned())].into(),
            is_received: false,
        };
        let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
        world.administer(plan).expect("a property");
    };
    // Reports whether a write and the flush after it are answered before any disk has done
    // anything.
    let at_once = |world: &mut World| {
        let requests = [
            Request::Write {
                dataset: volume,
                offset: 0,
                data: Pages::from_bytes(&pattern(4096, 1)),
                durable: false,
            },
            Request::Flush { dataset: volume },
        ];
        let answers = requests.map(|request| world.is_answered_at_once(request));
        world.settle();
        answers
    };
    assert_eq!(at_once(&mut world), [true, false]);
    set(&mut world, "always");
    assert_eq!(at_once(&mut world), [false, false]);
    set(&mut world, "disabled");
    assert_eq!(at_once(&mut world), [true, true]);
    set(&mut world, "standard");
    assert_eq!(at_once(&mut world), [true, false]);
}

#[test]
fn a_pool_that_was_exported_says_so_and_has_nothing_to_replay() {
    let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
    let volume = world.create_volume("a", 8 << 20, 4096);
    world.write(volume, 0, &pattern(4096, 1), false);
    assert!(!world.pool.is_settled(), "the write is in the log at best");
    let now_us = world.pool.now_us();
    world.pool.begin_closing(true, now_us);
    world.settle();
    assert!(world.pool.is_settled());
    let examined = world.examine().expect("a pool");
    assert!(examined.config.is_exported);
    assert_eq!(examined.config.host, "here");
    world.reopen().expect("opens");
    assert_eq!(world.pool.catalog().full_name(volume), "tank/a");
    assert_eq!(world.read(volume, 0, 4096), pattern(4096, 1));
    let now_us = world.pool.now_us();
    world.pool.claim("there", now_us);
    world.settle();
    let examined = world.examine().expect("a pool");
    assert!(!examined.config.is_exported);
    assert_eq!(examined.config.host, "there");
    let space = world.pool.dataset_space(volume).expect("a volume");
    assert_eq!((space.size, space.referenced), (8 << 20, 4096));
    assert!(
        space.available < space.capacity && space.capacity < world.pool.status().counts.size * 4096
    );
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        offset: u64,
        len: usize,
        durable: bool,
    },
    Clear {
        offset: u64,
        len: u64,
    },
    Read {
        offset: u64,
        len: u64,
    },
    Checkpoint,
    Reopen,
}

const SIZE: u64 = 2 << 20;

fn any_step() -> impl Strategy<Value = Step> {
    let range = || {
        (0..SIZE / 512, 1..300_u64).prop_map(|(at, len)| {
            let offset = at * 512;
            (offset, (len * 512).min(SIZE - offset))
        })
    };
    prop_oneof![
        6 => (range(), any::<bool>()).prop_map(|((offset, len), durable)| Step::Write {
            offset,
            len: len as usize,
            durable,
        }),
        2 => range().prop_map(|(offset, len)| Step::Clear { offset, len }),
        3 => range().prop_map(|(offset, len)| Step::Read { offset, len }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
    ]
}

fn run(kind: TopLevelKind, disks: usize, block_size: u32, steps: &[Step]) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("v", SIZE, block_size);
    let mut model = vec![0; SIZE as usize];
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Write {
                offset,
                len,
                durable,
            } => {
                let bytes = pattern(*len, number as u64);
                world.write(volume, *offset, &bytes, *durable);
                model[*offset as usize..*offset as usize + len].copy_from_slice(&bytes);
            }
            Step::Clear { offset, len } => {
                world.clear(volume, *offset, *len);
                model[*offset as usize..(offset + len) as usize].fill(0);
            }
            Step::Read { offset, len } => {
                let found = world.read(volume, *offset, *len as u32);
                assert!(
                    found == model[*offset as usize..(offset + len) as usize],
                    "{number}: {step:?}"
                );
            }
            Step::Checkpoint => world.checkpoint(),
            Step::Reopen => world.reopen().expect("opens"),
        }
    }
    assert!(world.read(volume, 0, SIZE as u32) == model);
    world.reopen().expect("opens");
    assert!(world.read(volume, 0, SIZE as u32) == model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_volume_is_its_model(
        shape in 0..4_usize,
        shift in 12..16_u32,
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let (kind, disks) = [
            (TopLevelKind::Leaf, 1),
            (TopLevelKind::Mirror, 2),
            (TopLevelKind::Raidz { parity: 1 }, 3),
            (TopLevelKind::Raidz { parity: 2 }, 5),
        ][shape];
        run(kind, disks, 1 << shift, &steps);
    }
}

#[test]
fn a_pool_works_within_however_little_memory_and_takes_no_more_than_it_needs() {
    let most = Limits::default();
    for bytes in [0, 1, 64 << 20, 128 << 20, 1 << 30, usize::MAX] {
        let limits = Limits::within(bytes);
        assert!(limits.dirty_bytes <= most.dirty_bytes && limits.node_bytes <= most.node_bytes);
        let mut world = World::new(TopLevelKind::Leaf, 1, limits);
        let volume = world.create_volume("a", 8 << 20, 4096);
        let bytes = vec![7; 4 << 20];
        world.write(volume, 0, &bytes, true);
        world.crash().expect("opens");
        assert!(world.read(volume, 0, 4 << 20) == bytes);
    }
    let all = Limits::within(usize::MAX);
    let told = |limits: &Limits| (limits.dirty_bytes, limits.node_bytes, limits.updates);
    assert_eq!(told(&all), told(&most));
    let half = Limits::within(128 << 20);
    assert_eq!((half.dirty_bytes, half.node_bytes), (16 << 20, 64 << 20));
    assert!(
        (200_000..300_000).contains(&half.updates),
        "{}",
        half.updates
    );
}

/// Writes may be under way when closing begins, and a checkpoint too. The writes after that
/// checkpoint get another one at once.
#[test]
fn a_pool_that_is_closed_under_load_is_at_rest_as_soon_as_its_devices_are() {
    for steps in 0..60 {
        let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
        let volume = world.create_volume("a", 1 << 20, 16 << 10);
        world.write(volume, 0, &pattern(1 << 20, 1), true);
        world.checkpoint();
        world.forget_cache();
        for at in 0..8 {
            world.begin(Request::Write {
                dataset: volume,
                // Each write has to read the rest of its block.
                offset: at * (16 << 10),
                data: Pages::from_bytes(&[7; 4096]),
                durable: true,
            });
            if at == 4 {
                world.pool.schedule.want();
                for _ in 0..steps {
                    world.do_one();
                }
            }
        }
        let now_us = world.now_us;
        world.pool.begin_closing(true, now_us);
        while !world.pool.is_settled() {
            assert!(world.do_one(), "it sleeps, {steps} steps after a write");
        }
    }
}

//! Tests of each rule of the model: the content that it allows, and the content that it must not
//! allow.

use std::collections::BTreeMap;

use super::*;
use crate::operation::{BLOCK_SIZE, Named};
use pages::Pages;

const V: VolumeId = VolumeId(0);
const S: VolumeId = VolumeId(1);
const BLOCKS: u64 = 8;

/// Change that each block of each volume holds.
type Held<'a> = &'a [(VolumeId, &'a [u32])];

/// A pool of one volume with volume blocks of two blocks.
struct Pool(Model);

impl Pool {
    fn new(order: Order) -> Self {
        let durability = true;
        let mut model = Model::new(Rules { order, durability });
        model.insert(V, BLOCKS, 2);
        Self(model)
    }

    fn submit(&mut self, blocks: Range<u64>) -> ChangeId {
        let slices = blocks.start * SLICES_PER_BLOCK..blocks.end * SLICES_PER_BLOCK;
        self.0.submit_change(V, slices, ChangeKind::Write, false)
    }

    fn write(&mut self, blocks: Range<u64>) -> ChangeId {
        let change = self.submit(blocks);
        self.0.settle_change(change, true);
        change
    }

    fn write_durably(&mut self, blocks: Range<u64>) -> ChangeId {
        let change = self.write(blocks);
        self.flush();
        change
    }

    fn flush(&mut self) {
        let submitted = self.0.submit_flush();
        self.0.flushed(V, submitted);
    }

    fn read(&mut self, block: u64, holds: u32) -> Result<(), WrongKind> {
        let submitted = self.0.submit_read();
        let data = block_of(block, holds);
        let judged = self
            .0
            .judge_read(V, block * SLICES_PER_BLOCK, &data, submitted);
        judged.map_err(|wrong| wrong.kind)
    }

    /// Judges volumes that hold, block by block, these changes after a power cut.
    fn found(&self, volumes: Held<'_>) -> Result<Self, WrongKind> {
        let mut model = self.0.clone();
        model.crash();
        let mut found = BTreeMap::new();
        for (volume, changes) in volumes {
            let mut all = FoundVolume::default();
            let held = |block: u64| changes.get(block as usize).copied().unwrap_or(0);
            let blocks = BLOCKS.max(changes.len() as u64);
            (0..blocks).for_each(|block| all.push(&block_of(block, held(block))));
            found.insert(*volume, all);
        }
        let judged = model.judge_recovered(&found);
        judged.map_err(|wrong| wrong.kind).map(|()| Self(model))
    }

    fn holds(&self, changes: &[u32]) -> Result<Self, WrongKind> {
        self.found(&[(V, changes)])
    }
}

fn block_of(block: u64, change: u32) -> Pages {
    match change {
        0 => Pages::zeroes(BLOCK_SIZE as u32),
        _ => pattern::pages(ChangeId(change), block * SLICES_PER_BLOCK, SLICES_PER_BLOCK),
    }
}

#[test]
fn a_read_returns_the_last_acknowledged_or_one_in_flight() {
    let mut pool = Pool::new(Order::Free);
    assert_eq!(pool.read(0, 0), Ok(()));
    pool.write(0..1);
    assert_eq!(pool.read(0, 0), Err(WrongKind::Stale));
    assert_eq!(pool.read(0, 1), Ok(()));
    let second = pool.submit(0..1);
    pool.submit(0..1);
    for (holds, expected) in [(0, false), (1, true), (2, true), (3, true)] {
        assert_eq!(pool.read(0, holds).is_ok(), expected, "change {holds}");
    }
    pool.0.settle_change(second, true);
    for (holds, expected) in [(1, false), (2, true), (3, true)] {
        assert_eq!(pool.read(0, holds).is_ok(), expected, "change {holds}");
    }
}

#[test]
fn a_read_that_began_earlier_may_return_what_was_there_then() {
    let mut pool = Pool::new(Order::Free);
    let submitted = pool.0.submit_read();
    pool.write(0..1);
    let judged = pool.0.judge_read(V, 0, &block_of(0, 0), submitted);
    assert_eq!(judged, Ok(()));
}

#[test]
fn bytes_of_nobody_or_of_elsewhere_are_wrong() {
    let mut pool = Pool::new(Order::Free);
    pool.write(0..2);
    let submitted = pool.0.submit_read();
    let judged = pool.0.judge_read(V, 0, &block_of(1, 1), submitted);
    assert_eq!(judged.unwrap_err().kind, WrongKind::Bytes);
    let garbage = Pages::from_bytes(&[7; BLOCK_SIZE]);
    let judged = pool.0.judge_read(V, 0, &garbage, submitted);
    assert_eq!(judged.unwrap_err().kind, WrongKind::Bytes);
    assert_eq!(
        pool.read(3, 1),
        Err(WrongKind::Stale),
        "never written there"
    );
}

#[test]
fn what_is_durable_or_later_survives() {
    let mut pool = Pool::new(Order::Free);
    pool.write(0..1);
    pool.write_durably(0..1);
    pool.write(0..1);
    pool.submit(0..1);
    for (holds, expected) in [(0, false), (1, false), (2, true), (3, true), (4, true)] {
        assert_eq!(pool.holds(&[holds]).is_ok(), expected, "change {holds}");
    }
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_was_asked_for() {
    let mut pool = Pool::new(Order::Free);
    let early = pool.submit(0..1);
    let late = pool.submit(2..3);
    pool.0.settle_change(early, true);
    let submitted = pool.0.submit_flush();
    pool.0.settle_change(late, true);
    pool.0.flushed(V, submitted);
    assert!(pool.holds(&[1, 0, 0]).is_ok());
    assert_eq!(pool.holds(&[0, 0, 2]).err(), Some(WrongKind::Stale));
}

#[test]
fn one_that_failed_happened_or_not_but_not_later() {
    let mut pool = Pool::new(Order::Free);
    let failed = pool.submit(0..1);
    pool.0.settle_change(failed, false);
    assert!(pool.holds(&[0]).is_ok() && pool.holds(&[1]).is_ok());
    pool.write_durably(0..1);
    assert!(pool.holds(&[2]).is_ok());
    assert_eq!(pool.holds(&[1]).err(), Some(WrongKind::Stale));
}

#[test]
fn a_volume_block_is_never_torn_and_a_change_of_several_may_be() {
    let mut pool = Pool::new(Order::Free);
    pool.submit(0..4);
    assert!(pool.holds(&[1, 1, 1, 1]).is_ok() && pool.holds(&[0, 0, 1, 1]).is_ok());
    let torn = Some(WrongKind::Torn(ChangeId(1)));
    assert_eq!(pool.holds(&[1, 0, 0, 0]).err(), torn);
    assert_eq!(pool.holds(&[0, 0, 0, 1]).err(), torn);
    pool.submit(1..2);
    assert!(pool.holds(&[1, 2]).is_ok(), "the second came over it");
    assert!(pool.holds(&[0, 2]).is_ok(), "in flight together");
}

#[test]
fn what_came_before_a_survivor_survived() {
    for (order, one, both_in_flight) in [
        (Order::Free, true, true),
        (Order::AfterAcknowledged, false, true),
        (Order::AsSubmitted, false, false),
    ] {
        let mut pool = Pool::new(order);
        pool.write(0..1);
        pool.submit(2..3);
        assert_eq!(pool.holds(&[0, 0, 2]).is_ok(), one, "{order:?}");
        assert!(pool.holds(&[1, 0, 2]).is_ok() && pool.holds(&[1]).is_ok());
        pool.submit(4..5);
        let holds = pool.holds(&[1, 0, 0, 0, 3]);
        assert_eq!(holds.is_ok(), both_in_flight, "{order:?}");
    }
}

#[test]
fn what_was_found_is_pinned() {
    let mut pool = Pool::new(Order::Free);
    pool.write(0..1);
    pool.write(2..3);
    let mut found = pool.holds(&[1, 0, 0]).expect("neither was durable");
    assert!(found.holds(&[1, 0, 0]).is_ok());
    assert_eq!(found.holds(&[0, 0, 0]).err(), Some(WrongKind::Stale));
    assert_eq!(found.holds(&[1, 0, 2]).err(), Some(WrongKind::Stale));
    assert_eq!(found.read(2, 2), Err(WrongKind::Stale));
    found.write(2..3);
    assert!(found.holds(&[1, 0, 3]).is_ok() && found.holds(&[1, 0, 0]).is_ok());
}

/// The first two blocks, which are one volume block, cannot be read when the pool is opened.
#[test]
fn what_could_not_be_read_when_it_was_opened_may_be_gone_unless_it_was_certain() {
    let unread = |pool: &Pool, third: u32| {
        let mut model = pool.0.clone();
        model.crash();
        let mut volume = FoundVolume::default();
        volume.push_unreadable(2 * SLICES_PER_BLOCK);
        (2..BLOCKS).for_each(|block| volume.push(&block_of(block, third * u32::from(block == 2))));
        let judged = model.judge_recovered(&BTreeMap::from([(V, volume)]));
        judged.expect("nothing is wrong");
        Pool(model)
    };
    let mut pool = Pool::new(Order::AfterAcknowledged);
    pool.write_durably(0..1);
    pool.write(0..1);
    pool.write(2..3);
    // Changes that the second life makes durable say nothing of those that the first one lost.
    let mut lost = unread(&pool, 0);
    lost.write_durably(4..5);
    assert!(lost.holds(&[1, 0, 0, 0, 4]).is_ok() && lost.holds(&[2, 0, 0, 0, 4]).is_ok());
    assert_eq!(lost.holds(&[0, 0, 0, 0, 4]).err(), Some(WrongKind::Stale));
    // A later change was found, and so the earlier one was there as well.
    let found = unread(&pool, 3);
    assert!(found.holds(&[2, 0, 3]).is_ok());
    assert_eq!(found.holds(&[1, 0, 3]).err(), Some(WrongKind::Stale));
}

/// Nothing of the volume can be read when the pool is opened.
#[test]
fn a_rollback_that_nothing_tells_of_happened_or_not() {
    let mut pool = Pool::new(Order::Free);
    pool.write_durably(0..1);
    let id = pool.0.submit_admin(&Admin::Snapshot { of: vec![(V, S)] });
    pool.0.settle_admin(id, true);
    pool.write_durably(0..1);
    let (volume, snapshot) = (V, S);
    pool.0.submit_admin(&Admin::Rollback { volume, snapshot });
    pool.0.crash();
    let mut unread = FoundVolume::default();
    unread.push_unreadable(BLOCKS * SLICES_PER_BLOCK);
    let mut found = BTreeMap::from([(V, unread.clone()), (S, unread)]);
    pool.0.judge_recovered(&found).expect("nothing is wrong");
    assert_eq!(pool.0.blocks(V), None, "it is in question");
    let both = |change: u32| pool.found(&[(V, &[change]), (S, &[1])]);
    assert!(both(0).is_err());
    for change in [1, 2] {
        let told = both(change).expect("one of the two");
        assert_eq!(told.0.blocks(V), Some(BLOCKS));
        let other = told.found(&[(V, &[3 - change]), (S, &[1])]);
        assert_eq!(other.err(), Some(WrongKind::Stale));
    }
    // The volume can be read again, and is unchanged.
    for slices in found.values_mut() {
        *slices = FoundVolume::default();
        slices.push(&block_of(0, 1));
        slices.push_unreadable((BLOCKS - 1) * SLICES_PER_BLOCK);
    }
    pool.0.crash();
    pool.0.judge_recovered(&found).expect("rolled back");
    assert_eq!(pool.0.blocks(V), Some(BLOCKS));
}

#[test]
fn zeros_are_zeros_whoever_wrote_them() {
    let mut pool = Pool::new(Order::AfterAcknowledged);
    pool.write_durably(0..1);
    let unmap = pool.0.submit_change(V, 0..8, ChangeKind::Unmap, true);
    assert!(pool.holds(&[0]).is_ok() && pool.holds(&[1]).is_ok());
    pool.0.settle_change(unmap, true);
    assert!(pool.holds(&[0]).is_ok());
    assert_eq!(pool.holds(&[1]).err(), Some(WrongKind::Stale));
    assert_eq!(pool.read(0, 1), Err(WrongKind::Stale));
}

#[test]
fn a_snapshot_holds_what_was_acknowledged_and_never_changes() {
    let mut pool = Pool::new(Order::AfterAcknowledged);
    pool.write(0..1);
    pool.submit(2..3);
    let snapshot = Admin::Snapshot { of: vec![(V, S)] };
    let id = pool.0.submit_admin(&snapshot);
    assert!(pool.holds(&[0]).is_ok(), "it may not have been taken");
    let both = |pool: &Pool, live: &[u32], taken: &[u32]| {
        let found = pool.found(&[(V, live), (S, taken)]);
        found.map(drop)
    };
    assert!(both(&pool, &[1], &[1]).is_ok(), "or it may");
    pool.0.settle_admin(id, true);
    pool.write(0..1);
    pool.flush();
    let live = [3];
    assert!(both(&pool, &live, &[1]).is_ok());
    assert!(both(&pool, &live, &[1, 0, 2]).is_ok(), "it was in flight");
    assert_eq!(both(&pool, &live, &[3]), Err(WrongKind::Stale));
    assert_eq!(both(&pool, &live, &[0]), Err(WrongKind::Stale));
    assert_eq!(pool.holds(&live).err(), Some(WrongKind::Missing));
    let pinned = pool.found(&[(V, &live), (S, &[1])]).expect("as above");
    assert_eq!(both(&pinned, &live, &[1, 0, 2]), Err(WrongKind::Stale));
}

#[test]
fn administration_that_was_not_answered_happened_or_not() {
    let pool = Pool::new(Order::Free);
    let after = |admin: Admin, ok: Option<bool>| {
        let mut pool = Pool(pool.0.clone());
        pool.write_durably(0..1);
        let id = pool.0.submit_admin(&Admin::Snapshot { of: vec![(V, S)] });
        pool.0.settle_admin(id, true);
        pool.write_durably(0..1);
        let id = pool.0.submit_admin(&admin);
        if let Some(ok) = ok {
            pool.0.settle_admin(id, ok);
        }
        pool
    };
    let (volume, snapshot, clone) = (V, S, VolumeId(2));
    let grown: &[u32] = &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let grow = Admin::Resize { volume, blocks: 10 };
    let roll_back = Admin::Rollback { volume, snapshot };
    let make = Admin::Clone {
        snapshot,
        volume: clone,
    };
    let destroy = Admin::Destroy { volume: snapshot };
    let destroy_all = Admin::DestroyAll {
        volumes: vec![volume, snapshot],
        named: Named::Each,
    };
    let old: Held<'_> = &[(V, &[2]), (S, &[1])];
    let cases: [(Admin, Held<'_>); 5] = [
        (grow, &[(V, grown), (S, &[1])]),
        (roll_back, &[(V, &[1]), (S, &[1])]),
        (make, &[(V, &[2]), (S, &[1]), (clone, &[1])]),
        (destroy, &[(V, &[2])]),
        (destroy_all, &[]),
    ];
    for (admin, new) in cases {
        for in_question in [None, Some(false)] {
            let pool = after(admin.clone(), in_question);
            assert!(pool.found(old).is_ok(), "{admin:?} had not happened");
            let pool = pool
                .found(new)
                .unwrap_or_else(|why| panic!("{admin:?}: {why:?}"));
            assert!(pool.found(old).is_err(), "{admin:?} had been found");
        }
        let pool = after(admin.clone(), Some(true));
        assert!(
            pool.found(new).is_ok() && pool.found(old).is_err(),
            "{admin:?}"
        );
    }
}

#[test]
fn what_goes_in_one_operation_is_never_half_gone() {
    let together = Admin::DestroyAll {
        volumes: vec![V, S],
        named: Named::Each,
    };
    for answered in [None, Some(false)] {
        let mut pool = Pool::new(Order::Free);
        pool.write_durably(0..1);
        let id = pool.0.submit_admin(&Admin::Snapshot { of: vec![(V, S)] });
        pool.0.settle_admin(id, true);
        let id = pool.0.submit_admin(&together);
        if let Some(ok) = answered {
            pool.0.settle_admin(id, ok);
        }
        let half = pool.found(&[(V, &[1])]).err();
        assert_eq!(half, Some(WrongKind::Half(S)));
    }
}

#[test]
fn long_histories_forget_what_cannot_return() {
    let mut pool = Pool::new(Order::AfterAcknowledged);
    for _ in 0..1000 {
        pool.write_durably(0..1);
    }
    assert!(pool.0.volumes[&V].alternatives[0][0].len() <= 17);
    assert!(pool.holds(&[1000]).is_ok());
    assert_eq!(pool.holds(&[999]).err(), Some(WrongKind::Stale));
}

#[test]
fn a_disk_whose_flushes_lie_may_lose_but_never_invent() {
    let mut model = Model::new(Rules {
        order: Order::AfterAcknowledged,
        durability: false,
    });
    model.insert(V, BLOCKS, 2);
    let mut pool = Pool(model);
    pool.write_durably(0..1);
    pool.write_durably(2..3);
    let found = pool.holds(&[1]).expect("the second is lost");
    assert!(found.holds(&[]).is_ok(), "and now the first");
    assert!(pool.holds(&[0, 0, 2]).is_err(), "not in order");
    assert!(pool.holds(&[2]).is_err(), "never there");
}

#[test]
fn a_volume_is_missing_only_where_flushes_lie() {
    for (durability, expected) in [(true, Some(WrongKind::Missing)), (false, None)] {
        let order = Order::AfterAcknowledged;
        let mut model = Model::new(Rules { order, durability });
        model.insert(V, BLOCKS, 2);
        let pool = Pool(model);
        assert_eq!(pool.found(&[]).err(), expected, "{durability}");
    }
}

/// The write that hid the volume may itself be lost, for example the mark that an opening wrote at
/// the end of the log.
#[test]
fn a_volume_that_went_where_flushes_lie_may_be_back_as_it_was() {
    let order = Order::AfterAcknowledged;
    let mut model = Model::new(Rules {
        order,
        durability: false,
    });
    model.insert(V, BLOCKS, 2);
    let mut pool = Pool(model);
    pool.write(0..1);
    let gone = pool.found(&[]).expect("it went");
    assert_eq!(gone.0.blocks(V), None, "nothing is asked of it");
    let back = gone.holds(&[1]).expect("it is back");
    assert!(back.0.blocks(V).is_some() && gone.holds(&[]).is_ok());
    assert!(gone.holds(&[2]).is_err(), "never there");
    assert!(gone.found(&[]).is_ok(), "or stays away");
    // If flushes are honest, nothing comes back.
    let mut pool = Pool::new(order);
    pool.0.volumes.get_mut(&V).expect("there").existence = Existence::Perhaps;
    let gone = pool.found(&[]).expect("it never was");
    assert_eq!(gone.holds(&[]).err(), Some(WrongKind::Undead));
}

fn told(pool: &mut Pool, spaces: &[bool]) -> Result<(), WrongKind> {
    let submitted = pool.0.submit_read();
    let slices: Vec<bool> = spaces.iter().flat_map(|space| [*space; 8]).collect();
    let judged = pool.0.judge_extents(V, 0, &slices, submitted);
    judged.map_err(|wrong| wrong.kind)
}

fn zero(pool: &mut Pool, blocks: Range<u64>) {
    let slices = blocks.start * SLICES_PER_BLOCK..blocks.end * SLICES_PER_BLOCK;
    let change = pool.0.submit_change(V, slices, ChangeKind::Unmap, false);
    pool.0.settle_change(change, true);
}

#[test]
fn what_was_written_has_space_and_what_is_zeros_has_none() {
    let mut pool = Pool::new(Order::Free);
    assert_eq!(told(&mut pool, &[false; 8]), Ok(()));
    assert_eq!(
        told(&mut pool, &[false, false, true]),
        Err(WrongKind::Space)
    );
    // A volume block is two blocks.
    pool.write(1..2);
    assert_eq!(told(&mut pool, &[true, true, false, false]), Ok(()));
    assert_eq!(told(&mut pool, &[false, true]), Ok(()));
    assert_eq!(told(&mut pool, &[true, false]), Err(WrongKind::Hole));
    zero(&mut pool, 0..1);
    assert_eq!(told(&mut pool, &[false; 8]), Err(WrongKind::Hole));
    zero(&mut pool, 1..2);
    assert_eq!(told(&mut pool, &[false; 8]), Ok(()));
    assert_eq!(told(&mut pool, &[true; 2]), Err(WrongKind::Space));
    pool.submit(0..2);
    for space in [false, true] {
        assert_eq!(told(&mut pool, &[space; 2]), Ok(()), "in flight");
    }
}

#[test]
fn after_a_power_cut_space_is_where_something_is_read() {
    let mut pool = Pool::new(Order::Free);
    pool.write_durably(0..2);
    for (space, expected) in [
        (vec![], Ok(())),
        (vec![true, true, false, false], Ok(())),
        (vec![false; 4], Err(WrongKind::Hole)),
        (vec![true; 4], Err(WrongKind::Space)),
    ] {
        let mut model = pool.0.clone();
        model.crash();
        let mut found = FoundVolume::default();
        (0..BLOCKS).for_each(|block| found.push(&block_of(block, u32::from(block < 2))));
        found.space = space.iter().flat_map(|space| [*space; 8]).collect();
        let judged = model.judge_recovered(&BTreeMap::from([(V, found)]));
        assert_eq!(judged.map_err(|wrong| wrong.kind), expected, "{space:?}");
    }
}

#[test]
fn no_answer_is_taken_for_one() {
    use super::extents::slices;
    assert_eq!(
        slices(&[(512, true), (1024, false)], 3),
        Ok(vec![true, false, false])
    );
    for runs in [
        &[][..],
        &[(0, true)],
        &[(700, true)],
        &[(1024, true), (1024, false)],
    ] {
        assert!(slices(runs, 3).is_err(), "{runs:?}");
    }
}

/// The function reports whether a change of these blocks may fail for lack of space.
#[test]
fn space_is_kept_for_as_many_blocks_as_were_asked_for() {
    let reserve = |pool: &mut Pool, blocks, ok| {
        let id = pool.0.submit_admin(&Admin::Reserve { volume: V, blocks });
        pool.0.settle_admin(id, ok);
    };
    let has_space = |pool: &mut Pool, blocks| {
        let change = pool.submit(blocks);
        pool.0.has_space_for(change)
    };
    let mut pool = Pool::new(Order::Free);
    assert!(!has_space(&mut pool, 0..1));
    reserve(&mut pool, 4, true);
    // A volume block is two blocks, of which one is in use.
    assert!(has_space(&mut pool, 0..4));
    assert!(!has_space(&mut pool, 4..5));
    reserve(&mut pool, 6, false);
    assert!(!has_space(&mut pool, 4..5), "it was refused");
    let mut pool = Pool::new(Order::Free);
    reserve(&mut pool, BLOCKS, true);
    let change = pool.submit(0..8);
    assert!(pool.0.has_space_for(change));
    let lowering = pool.0.submit_admin(&Admin::Reserve {
        volume: V,
        blocks: 0,
    });
    assert!(!pool.0.has_space_for(change), "it may have come first");
    pool.0.settle_admin(lowering, true);
    reserve(&mut pool, BLOCKS, true);
    let resize = Admin::Resize {
        volume: V,
        blocks: 16,
    };
    let id = pool.0.submit_admin(&resize);
    pool.0.settle_admin(id, true);
    assert!(has_space(&mut pool, 8..16), "what is kept follows the size");
}

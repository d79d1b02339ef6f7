//! Requests of a durable write to the devices, and the time of its answer.

use pages::Pages;

use super::super::{Limits, Request, RequestId};
use super::world::World;
use crate::format::DatasetId;
use crate::vdev::{DeviceOp, DeviceRequest, TopLevelKind};

fn write(dataset: DatasetId, block: u64, durable: bool) -> Request {
    Request::Write {
        dataset,
        offset: block * 4096,
        data: Pages::from_bytes(&[block as u8 + 1; 4096]),
        durable,
    }
}

/// Answers requests. Returns the next requests, and the requests of the pool that were answered.
fn answer(world: &mut World, requests: Vec<DeviceRequest>) -> (Vec<DeviceRequest>, Vec<RequestId>) {
    for DeviceRequest { io, .. } in requests {
        world.pool.completed(io, Ok(Pages::new()), world.now_us);
    }
    let output = world.pool.take_output();
    let answered = output.answers.into_iter().map(|(id, _)| id).collect();
    (output.requests, answered)
}

fn is_durable(request: &DeviceRequest) -> bool {
    matches!(request.op, DeviceOp::Write { durable: true, .. })
}

fn is_flush(request: &DeviceRequest) -> bool {
    matches!(request.op, DeviceOp::Flush)
}

#[test]
fn durable_writes_that_come_together_take_one_round_trip() {
    for (kind, disks) in [(TopLevelKind::Leaf, 1), (TopLevelKind::Mirror, 2)] {
        let mut world = World::new(kind, disks, Limits::default());
        let volume = world.create_volume("a", 8 << 20, 4096);
        let ids: Vec<RequestId> = (100..116).map(RequestId).collect();
        let requests = ids.iter().map(|id| (*id, write(volume, id.0 - 100, true)));
        world.pool.submit_all(requests, world.now_us);
        let output = world.pool.take_output();
        assert_eq!((output.requests.len(), output.answers.len()), (disks, 0));
        assert!(
            output.requests.iter().all(is_durable),
            "{:?}",
            output.requests
        );
        let (next, answered) = answer(&mut world, output.requests);
        assert!(next.is_empty(), "{next:?}");
        assert_eq!(answered, ids);
    }
}

#[test]
fn behind_a_write_that_is_not_durable_a_flush_is_waited_for() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 8 << 20, 4096);
    world
        .pool
        .submit(RequestId(100), write(volume, 1, false), world.now_us);
    world.now_us += 10_000;
    world.pool.tick(world.now_us, 1_000);
    let plain = world.pool.take_output();
    assert_eq!(plain.answers.len(), 1, "in memory is enough");
    assert!(!plain.requests.iter().any(is_durable));
    let (nothing, _) = answer(&mut world, plain.requests);
    assert!(nothing.is_empty(), "{nothing:?}");
    world
        .pool
        .submit(RequestId(101), write(volume, 2, true), world.now_us);
    let second = world.pool.take_output();
    assert!(
        !second.requests.iter().any(is_durable),
        "a flush follows anyway"
    );
    let (flush, answered) = answer(&mut world, second.requests);
    assert!(flush.len() == 1 && is_flush(&flush[0]) && answered.is_empty());
    let (_, answered) = answer(&mut world, flush);
    assert_eq!(answered, [RequestId(101)]);
    // From here on nothing needs a flush again.
    world
        .pool
        .submit(RequestId(102), write(volume, 3, true), world.now_us);
    let third = world.pool.take_output();
    assert!(third.requests.iter().all(is_durable));
    let (next, answered) = answer(&mut world, third.requests);
    assert!(next.is_empty() && answered == [RequestId(102)]);
}

#[test]
fn a_durable_group_is_not_answered_before_the_one_ahead_of_it() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 8 << 20, 4096);
    // This is more than a record holds, so there are two groups.
    let requests = (0..100).map(|block| (RequestId(100 + block), write(volume, block, true)));
    world.pool.submit_all(requests, world.now_us);
    let mut requests = world.pool.take_output().requests;
    assert!(requests.len() == 2 && requests.iter().all(is_durable));
    let second = requests.split_off(1);
    let (next, answered) = answer(&mut world, second);
    assert!(next.is_empty() && answered.is_empty());
    let (_, answered) = answer(&mut world, requests);
    assert_eq!(answered.len(), 100);
}

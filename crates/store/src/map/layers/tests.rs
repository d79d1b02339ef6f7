//! Tests of a stack of layers, as its snapshots and clones see it.

use super::*;
use crate::format::Address;
use crate::format::Pointer;

fn pointer(number: u64) -> Pointer {
    let address = Address::new(0, number);
    Pointer {
        address,
        birth: Epoch(1),
        sectors: 1,
        ..Pointer::HOLE
    }
}

fn see(layers: &Layers) -> Vec<Hit> {
    let mut run = vec![Hit::Zero; 4];
    layers.get_run(0, &mut run);
    let one_by_one: Vec<_> = (0..4).map(|index| layers.get(index)).collect();
    assert_eq!(run, one_by_one);
    run
}

#[test]
fn a_snapshot_sees_what_was_closed_and_its_clone_goes_on_alone() {
    let mut live = Layers::new();
    live.insert(0, pointer(10));
    live.insert(1, pointer(11));
    live.close(Epoch(5));
    let snapshot = live.fork();
    let mut clone = snapshot.fork();
    live.clear(1..3, |_| {
        unreachable!("what a snapshot sees is not dropped")
    });
    assert_eq!(
        live.insert(0, pointer(20)),
        None,
        "the snapshot still has the old one"
    );
    clone.insert(3, pointer(30));
    let (a, b, c) = (
        Hit::Block(pointer(10)),
        Hit::Block(pointer(11)),
        Hit::Block(pointer(20)),
    );
    assert_eq!(see(&snapshot), [a, b, Hit::Absent, Hit::Absent]);
    assert_eq!(see(&live), [c, Hit::Zero, Hit::Zero, Hit::Absent]);
    assert_eq!(see(&clone), [a, b, Hit::Absent, Hit::Block(pointer(30))]);
}

#[test]
fn closing_without_changes_adds_no_layer() {
    let mut live = Layers::new();
    live.close(Epoch(1));
    assert!(live.closed().is_empty() && live.is_empty());
    live.clear(0..1, |_| ());
    live.close(Epoch(2));
    assert_eq!(live.closed().len(), 1);
    assert_eq!(live.closed()[0].epoch, Epoch(2));
}

#[test]
fn merged_layers_go_from_the_bottom_of_every_stack_that_has_them() {
    let mut live = Layers::new();
    for epoch in 1..=3 {
        live.insert(epoch, pointer(epoch));
        live.close(Epoch(epoch));
    }
    let [first, second, third] = live.closed() else {
        panic!("three layers")
    };
    let (first, second, third) = (Arc::clone(first), Arc::clone(second), Arc::clone(third));
    let mut snapshot = Layers {
        closed: vec![Arc::clone(&first)],
        ..Layers::new()
    };
    assert!(live.drop_merged(&second));
    assert_eq!(live.closed().len(), 1);
    assert!(Arc::ptr_eq(&live.closed()[0], &third));
    assert!(!live.drop_merged(&second), "it is gone");
    assert!(!snapshot.drop_merged(&second), "it never had it");
    assert!(snapshot.drop_merged(&first) && snapshot.is_empty());
}

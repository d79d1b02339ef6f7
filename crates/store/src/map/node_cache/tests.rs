//! Tests of the node cache: its bound, the nodes that it keeps, and the nodes that it must not
//! confuse.

use super::*;
use crate::format::{DatasetId, Epoch};

const ID: NodeId = NodeId {
    volume: DatasetId(1),
    level: 0,
    index: 0,
};
type Cache = NodeCache<4>;

fn pointer(number: u64) -> Pointer {
    Pointer {
        address: Address::new(0, number),
        birth: Epoch(1),
        sectors: 1,
        ..Pointer::HOLE
    }
}

fn node() -> Arc<Node<4>> {
    Arc::new(Node::new(ID, Epoch(1)))
}

fn cache_of(nodes: usize) -> Cache {
    Cache::new(nodes * Node::<4>::FOOTPRINT)
}

#[test]
fn it_holds_as_many_nodes_as_it_may() {
    let mut cache = cache_of(100);
    for number in 0..1000 {
        cache.insert(pointer(number), node());
        assert!(
            cache.get(&pointer(number), ID).is_ok(),
            "the newest is always there"
        );
        assert!(cache.len() <= 100);
    }
    assert_eq!(cache.bytes(), 100 * Node::<4>::FOOTPRINT);
    cache.resize(64 * Node::<4>::FOOTPRINT);
    assert_eq!(cache.len(), 64);
}

#[test]
fn what_is_used_outlives_a_scan() {
    let mut cache = cache_of(100);
    for number in 0..50 {
        cache.insert(pointer(number), node());
        cache.get(&pointer(number), ID).expect("it was put there");
    }
    for number in 1000..5000 {
        cache.insert(pointer(number), node());
        let used = number % 50;
        assert!(
            cache.get(&pointer(used), ID).is_ok(),
            "{used} fell to a scan"
        );
    }
}

#[test]
fn what_comes_back_soon_stays() {
    let mut cache = cache_of(100);
    (0..110).for_each(|number| cache.insert(pointer(number), node()));
    assert!(!cache.has(&pointer(0)), "it fell");
    cache.insert(pointer(0), node());
    (200..280).for_each(|number| cache.insert(pointer(number), node()));
    assert!(
        cache.has(&pointer(0)),
        "a node asked for twice is not like those of a scan"
    );
}

#[test]
fn a_held_node_is_not_evicted() {
    let mut cache = cache_of(64);
    let held: Vec<_> = (0..200)
        .map(|number| {
            let node = node();
            cache.insert(pointer(number), Arc::clone(&node));
            node
        })
        .collect();
    assert_eq!(cache.len(), 200);
    drop(held);
    cache.insert(pointer(1000), node());
    assert_eq!(cache.len(), 64);
}

#[test]
fn an_address_written_anew_is_another_node() {
    let mut cache = cache_of(64);
    let old = pointer(5);
    let new = Pointer {
        birth: Epoch(2),
        checksum: 9,
        ..old
    };
    cache.insert(old, node());
    assert_eq!(
        cache.get(&new, ID),
        Err(Missing {
            pointer: new,
            id: ID
        })
    );
    cache.insert(new, node());
    assert!(cache.get(&new, ID).is_ok() && !cache.has(&old));
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_wrong_block_is_refused() {
    let mut cache = cache_of(64);
    let other = NodeId { index: 1, ..ID };
    let missing = Missing {
        pointer: pointer(1),
        id: other,
    };
    assert!(cache.fill(&missing, &node().to_block().1).is_err());
    assert!(cache.is_empty());
}

#[test]
fn the_same_calls_keep_the_same_nodes() {
    let run = || {
        let mut cache = cache_of(80);
        let mut state = 1_u64;
        for _ in 0..5000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let number = (state >> 33) % 300;
            if cache.get(&pointer(number), ID).is_err() {
                cache.insert(pointer(number), node());
            }
        }
        let kept: Vec<_> = (0..300)
            .filter(|&number| cache.has(&pointer(number)))
            .collect();
        (kept, cache.counts())
    };
    assert_eq!(run(), run());
}

#[test]
fn what_nothing_leads_to_any_more_is_gone_and_takes_no_place() {
    let mut cache = cache_of(100);
    let held = node();
    cache.insert(pointer(7), Arc::clone(&held));
    for number in 1000..5000 {
        cache.insert(pointer(number), node());
        let later = Pointer {
            birth: Epoch(2),
            ..pointer(number)
        };
        cache.discard(&later);
        assert!(cache.has(&pointer(number)), "another node is meant");
        if number % 50 != 0 {
            cache.discard(&pointer(number));
            assert!(!cache.has(&pointer(number)));
        }
        cache.discard(&pointer(7));
        assert!(cache.has(&pointer(7)), "somebody holds it");
    }
    assert_eq!(cache.len(), 81);
    assert!(cache.entries.len() < 300, "{} places", cache.entries.len());
    drop(held);
    cache.discard(&pointer(7));
    assert_eq!(cache.len(), 80);
    // The cache is full again: discarded nodes do not count, and no place is given twice.
    for number in 10_000..10_300 {
        cache.insert(pointer(number), node());
        assert!(cache.get(&pointer(number), ID).is_ok() && cache.len() <= 100);
    }
    assert_eq!(cache.len(), 100);
}

#[test]
fn what_readers_use_outlives_a_scan() {
    let mut cache = cache_of(100);
    let flags: Vec<_> = (0..50)
        .map(|number| {
            cache.insert(pointer(number), node());
            cache.used_flag(&pointer(number)).expect("it was put there")
        })
        .collect();
    for number in 1000..5000 {
        // Readers use half of the nodes.
        flags[..25]
            .iter()
            .for_each(|used| used.store(true, Ordering::Relaxed));
        cache.insert(pointer(number), node());
    }
    let is_there = |number: u64| cache.peek(&pointer(number), ID).is_some();
    assert!((0..25).all(is_there), "a node that is used fell to a scan");
    assert!(!(25..50).any(is_there));
    assert!(cache.used_flag(&pointer(30)).is_none());
}

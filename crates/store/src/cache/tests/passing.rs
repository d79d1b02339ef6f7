//! Tests of long runs of reads: the blocks that a run has gone past make room before any others.

use super::*;

const CAP: usize = 4 << 20;
const LEN: usize = 16 << 10;
/// Length of a run far longer than the cache.
const LONG: u64 = 1 << 30;

/// Reads a block into the cache.
fn read(cache: &Cache, volume: u64, number: u64) {
    let key = key(volume, number);
    if let Err(ticket) = cache.get_or_ticket(key) {
        assert!(cache.fill(key, ticket, block(LEN, number), nobody));
    }
}

fn held(cache: &Cache, volume: u64) -> u64 {
    cache.volume_statistics(volume).blocks
}

/// Makes a cache that is full of blocks of volume 1, each wanted once.
fn full() -> Cache {
    let cache = Cache::new(CAP, 5);
    (0..300).for_each(|number| read(&cache, 1, number));
    assert!(cache.statistics().evictions > 0);
    cache
}

#[test]
fn where_there_is_room_nothing_goes() {
    let cache = Cache::new(CAP, 5);
    for number in 0..100 {
        read(&cache, 1, number);
        cache.pass(key(1, number), LONG);
    }
    assert_eq!(held(&cache, 1), 100);
}

#[test]
fn a_short_run_may_be_read_again_and_stays() {
    let cache = full();
    let before = held(&cache, 1);
    // All blocks are in the small queue, but the queue's share is only a tenth.
    cache.pass(key(1, 299), CAP as u64 / 10 - 1);
    assert!(cache.holds(key(1, 299)));
    cache.pass(key(1, 299), CAP as u64 / 10);
    assert!(!cache.holds(key(1, 299)));
    assert_eq!(held(&cache, 1), before - 1);
    // An absent block changes nothing.
    let evictions = cache.statistics().evictions;
    cache.pass(key(1, 299), LONG);
    cache.pass(key(9, 9), LONG);
    assert_eq!(cache.statistics().evictions, evictions);
}

#[test]
fn a_long_run_takes_no_more_than_it_needs_and_nothing_that_others_brought() {
    let cache = full();
    let before = held(&cache, 1);
    let is_held = |number: u64| cache.holds(key(1, number));
    let newest: Vec<u64> = (0..300).filter(|number| is_held(*number)).collect();
    for number in 0..10_000_u64 {
        read(&cache, 2, number);
        if let Some(passed) = number.checked_sub(4) {
            cache.pass(key(2, passed), LONG);
        }
        assert!(held(&cache, 2) <= 8, "{number}: {}", held(&cache, 2));
    }
    // Only the first blocks of the run pushed others out.
    assert!(held(&cache, 1) + 8 >= before);
    let still: Vec<u64> = newest.iter().copied().filter(|of| is_held(*of)).collect();
    assert!(still.len() + 8 >= newest.len());
}

#[test]
fn what_was_used_besides_stays() {
    let cache = full();
    let number = (0..300).find(|number| cache.holds(key(1, *number)));
    let oldest = number.expect("it is full");
    // The use comes long after the block came.
    assert!(cache.get(key(1, oldest)).is_some());
    cache.pass(key(1, oldest), LONG);
    assert!(cache.holds(key(1, oldest)));
}

#[test]
fn what_comes_back_soon_is_kept() {
    let cache = full();
    cache.pass(key(1, 299), LONG);
    assert!(!cache.holds(key(1, 299)));
    // The block was passed too early. Now its ghost is known.
    read(&cache, 1, 299);
    cache.pass(key(1, 299), LONG);
    (1000..1250).for_each(|number| read(&cache, 1, number));
    assert!(cache.holds(key(1, 299)));
}

//! Tests of the cache: against a model, under threads, against its cap, and its hit rates beside
//! LRU's.

mod hit_rates;
mod model;
mod passing;
mod threads;

use pages::Pages;

use super::{Cache, Key};

fn key(volume: u64, block: u64) -> Key {
    Key { volume, block }
}

/// Makes a block of `len` bytes, each 8 of which say `content`.
fn block(len: usize, content: u64) -> Pages {
    let mut bytes = content.to_le_bytes().repeat(len.div_ceil(8));
    bytes.truncate(len);
    Pages::from_bytes(&bytes)
}

fn content(data: &Pages) -> u64 {
    let words: Vec<u8> = data.slice(0..8).to_vec();
    u64::from_le_bytes(words.try_into().expect("eight bytes"))
}

fn nobody(_: super::Evicted) {}

/// A look-ahead does not count as a use, for blocks short and long, present and absent. Bytes that
/// no block has do no harm.
#[test]
fn a_look_ahead_is_no_use_and_finds_nothing_that_is_not_there() {
    let cache = Cache::new(8 << 20, 3);
    for number in 0..100 {
        let len = if number % 2 == 0 { 4096 } else { 64 << 10 };
        cache.insert(key(1, number), block(len, number), nobody);
    }
    let before = cache.statistics();
    let some = (0..300).map(|number| (key(1, number), number as usize * 1000));
    cache.foresee(some);
    cache.foresee(std::iter::empty());
    assert_eq!(cache.statistics(), before);
    for number in 0..100 {
        let held = cache.get(key(1, number)).expect("it was put there");
        assert_eq!(content(&held), number);
    }
    assert!(cache.get(key(1, 200)).is_none());
}

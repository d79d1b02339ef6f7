//! The cache against a model, under threads, against its cap, and its hit rates beside LRU's.

mod hit_rates;
mod model;
mod threads;

use pages::Pages;

use super::{Cache, Key};

fn key(volume: u64, block: u64) -> Key {
    Key { volume, block }
}

/// A block of `len` bytes, each 8 of which say `content`.
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

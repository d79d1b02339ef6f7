//! Memory beside the blocks that counts into the cap of the cache: the maps that pools keep, and
//! the data that waits to be written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Cache;

/// Smallest change that is passed on to the cache. Each change takes all locks of the cache.
const GRAIN: usize = 1 << 20;

/// Memory that one owner uses. When the charge is dropped, the memory counts no more.
#[derive(Debug)]
pub struct Charge {
    cache: Arc<Cache>,
    bytes: usize,
}

impl Charge {
    /// Makes a charge of nothing.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { cache, bytes: 0 }
    }

    /// Returns the bytes that count now.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the bytes that are used now. Blocks must go if there is no room for both. But half of
    /// the cap is left to the blocks: finding any data takes blocks, too.
    pub fn set(&mut self, bytes: usize) {
        let bytes = bytes.min(self.cache.cap() / 2);
        if bytes.abs_diff(self.bytes) >= GRAIN {
            self.exchange(bytes);
        }
    }

    fn exchange(&mut self, bytes: usize) {
        let charged = &self.cache.charged;
        charged.fetch_add(bytes, Ordering::Relaxed);
        charged.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
        self.cache.share_out();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.exchange(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cache, Key};
    use super::*;
    use pages::Pages;

    /// A part that was made anew would have forgotten the ghosts, and have moved all blocks.
    #[test]
    fn what_was_thrown_out_is_remembered_while_others_use_more_and_less() {
        let cache = Arc::new(Cache::new(8 << 20, 1));
        let insert = |volume, block| {
            let data = Pages::from_bytes(&[1; 4096]);
            cache.insert(Key { volume, block }, data, drop);
        };
        // A scan longer than the cache throws out all blocks before it, but stays within the memory
        // of the ghosts.
        let scan = |volume| (0..2500).for_each(|block| insert(volume, block));
        insert(1, 0);
        scan(2);
        let mut charge = Charge::new(Arc::clone(&cache));
        for mebibytes in [2, 3, 1] {
            charge.set(mebibytes << 20);
        }
        insert(1, 0);
        scan(3);
        let key = |volume| Key { volume, block: 0 };
        assert!(cache.holds(key(1)) && !cache.holds(key(3)));
    }

    #[test]
    fn what_is_used_beside_the_blocks_is_theirs_no_more_and_comes_back() {
        let cache = Arc::new(Cache::new(8 << 20, 1));
        let fill = || {
            for block in 0..4096 {
                cache.insert(
                    Key { volume: 1, block },
                    Pages::from_bytes(&[1; 4096]),
                    drop,
                );
            }
            let held = |block: &u64| {
                cache.holds(Key {
                    volume: 1,
                    block: *block,
                })
            };
            (0..4096).filter(held).count() * 4096
        };
        let all = fill();
        let mut charge = Charge::new(Arc::clone(&cache));
        charge.set(3 << 20);
        let beside = fill();
        assert!(
            beside <= 5 << 20 && beside + (4 << 20) > all,
            "{beside} {all}"
        );
        // Half of the cap at most.
        charge.set(1 << 30);
        assert!(fill() <= 4 << 20);
        // A second level still gets its part.
        assert!(cache.reserve(1 << 20, 1 << 20));
        cache.release(1 << 20);
        drop(charge);
        assert_eq!(fill(), all);
    }
}

//! Memory that is used beside the blocks and counts into the cap all the same: what pools keep of their maps, and what
//! waits to be written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Cache;

/// Smaller changes are not worth the trouble: each asks all locks of the cache.
const GRAIN: usize = 1 << 20;

/// What one owner uses; nothing any more when it is dropped.
#[derive(Debug)]
pub struct Charge {
    cache: Arc<Cache>,
    bytes: usize,
}

impl Charge {
    /// Nothing yet.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { cache, bytes: 0 }
    }

    /// What counts now.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes are used now. Blocks have to go where there is no room for both; but half of the cap is left to
    /// them, since the others are needed to find any.
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

    /// A part that was made anew would have forgotten it, and have moved all blocks.
    #[test]
    fn what_was_thrown_out_is_remembered_while_others_use_more_and_less() {
        let cache = Arc::new(Cache::new(8 << 20, 1));
        let insert = |volume, block| {
            let data = Pages::from_bytes(&[1; 4096]);
            cache.insert(Key { volume, block }, data, drop);
        };
        // A scan longer than the cache throws out what came before it, but not than its memory reaches.
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
        // Half of it at most.
        charge.set(1 << 30);
        assert!(fill() <= 4 << 20);
        // A second level gets its part all the same.
        assert!(cache.reserve(1 << 20, 1 << 20));
        cache.release(1 << 20);
        drop(charge);
        assert_eq!(fill(), all);
    }
}

//! Reads ahead: brings blocks into the cache before a request asks for them.
//!
//! Nothing waits for these blocks. If one cannot be read, only a request that asks for it learns
//! so. The blocks being read ahead are bounded in total, for all readers, since the cache does not
//! count a block until it has arrived.

use std::ops::Range;

use super::read::{BlockSource, runs};
use super::wanted::{Ahead, NodeWaiter, Wanted, cache_key};
use crate::catalog::CachePolicy;
use crate::engine::state::Pool;
use crate::format::{DatasetId, FAN_OUT, Pointer};
use crate::published::LEAVES_TOGETHER;

/// Most bytes of blocks that are read ahead at a time. This keeps devices busy enough.
const MOST: usize = 32 << 20;
/// Divisor of the cache's cap that gives the most bytes read ahead.
const SHARE: usize = 8;

/// Number of leaves that are published behind blocks that are read ahead. Lanes ask for the next
/// ones while their reader comes to the second half.
const LEAVES: u64 = 2 * LEAVES_TOGETHER;

impl Pool {
    /// Brings a range of bytes of a volume into the cache, if the volume's data is cached. Bytes
    /// beyond its end are ignored.
    pub fn read_ahead(&mut self, dataset: DatasetId, bytes: Range<u64>, now_us: u64) {
        self.heed_time(now_us);
        let contents = self.contents_of(dataset);
        let Some(of) = contents
            .filter(|of| of.attempt.is_none() && of.settings.primary_cache == CachePolicy::All)
        else {
            return;
        };
        let block_size = u64::from(of.block_size);
        let (block, end) = (
            bytes.start / block_size,
            bytes.end.min(of.size).div_ceil(block_size),
        );
        self.go_ahead(Ahead {
            dataset,
            block,
            end,
        });
        self.serve();
        self.hand_out();
    }

    /// Brings the leaves for these blocks of a volume, and publishes them. Blocks beyond its end
    /// are ignored.
    pub fn publish_ahead(&mut self, dataset: DatasetId, blocks: Range<u64>, now_us: u64) {
        self.heed_time(now_us);
        self.bring_leaves(Ahead {
            dataset,
            block: blocks.start,
            end: blocks.end,
        });
        self.serve();
        self.hand_out();
    }

    /// Reads these blocks ahead, up to the first whose node must be read first, and within the
    /// bound on read-ahead bytes. The leaves behind them are brought too: with these, lanes read
    /// ahead by themselves.
    pub(in crate::engine) fn go_ahead(&mut self, ahead: Ahead) {
        'runs: for run in runs(ahead.block..ahead.end) {
            let pointers = match self.look_up_run(ahead.dataset, &run) {
                Ok(pointers) => pointers,
                Err(missing) => {
                    let rest = Ahead {
                        block: run.start,
                        ..ahead
                    };
                    return self.read_node(missing, NodeWaiter::Ahead(rest));
                }
            };
            for (block, pointer) in run.zip(pointers) {
                if self.reads.bytes_ahead() >= MOST.min(self.cache.cap() / SHARE) {
                    break 'runs;
                }
                self.read_one_ahead(ahead.wanted(block), pointer);
            }
        }
        self.bring_leaves(Ahead {
            end: ahead.end + LEAVES * FAN_OUT as u64,
            ..ahead
        });
    }

    /// Publishes the leaves for these blocks, up to the first that must be read before.
    pub(in crate::engine) fn bring_leaves(&mut self, ahead: Ahead) {
        let contents = self.contents_of(ahead.dataset);
        let Some(of) = contents.filter(|of| of.attempt.is_none()) else {
            return;
        };
        let end = ahead.end.min(of.size.div_ceil(u64::from(of.block_size)));
        let mut block = ahead.block;
        while block < end {
            if let Err(missing) = self.look_up_run(ahead.dataset, &(block..block + 1)) {
                let rest = Ahead { block, ..ahead };
                return self.read_node(missing, NodeWaiter::Leaves(rest));
            }
            self.publish(ahead.dataset, block);
            block = (block / FAN_OUT as u64 + 1) * FAN_OUT as u64;
        }
    }

    fn read_one_ahead(&mut self, wanted: Wanted, pointer: Pointer) {
        let is_held = self.held(wanted.dataset, wanted.block).is_some();
        let is_away = !is_held && matches!(self.found_at(pointer), BlockSource::At(_));
        if !is_away || self.reads.is_reading(&pointer) {
            return;
        }
        let key = cache_key(wanted.dataset, wanted.block);
        if let Some(ticket) = self.cache.ticket_of_absent(key) {
            self.read_block(pointer, wanted, ticket);
        }
    }
}

//! One reader beside the engine, step by step.

use std::ops::Range;

use pages::{PAGE_SIZE, Pages};
use store::beside::{Located, Row, Tickets, Verified};
use store::cache::{Cache, Key, Ticket};
use store::published::Published;
use store::vdev::{DeviceOp, DeviceOutcome, sector_offset};
use store::volume::blocks;

use super::{Bench, Held, READING, Wanted};
use crate::random::Random;
use crate::subject::DiskRequest;

/// Reader, and the operations that it serves.
pub(super) struct Reader {
    /// Bytes that its own operation wants.
    pub(super) wanted: Wanted,
    /// Number of blocks behind them that it reads as well, if no block comes into the cache.
    passes: Option<u64>,
    /// Operations that wait for it.
    pub(super) callers: Vec<Wanted>,
    pub(super) stage: Stage,
}

/// Stage of a reader.
pub(super) enum Stage {
    /// The reader has not looked anywhere.
    Begins,
    /// The reader has its tickets.
    Wants(Tickets),
    /// The reader knows the places of its blocks.
    Located(Located),
    /// The reader has asked disks.
    Asked(Asked),
    /// Nothing is left to do.
    Over,
}

/// Read that disks work on.
pub(super) struct Asked {
    located: Located,
    rows: Vec<Row>,
    /// Number of rows that have no answer yet.
    missing: usize,
    /// Blocks that came; `None` if some are wrong, or could not be read.
    blocks: Option<Verified>,
}

impl Wanted {
    pub(super) fn blocks(&self) -> Range<u64> {
        blocks::touched(self.offset, self.len as usize, self.block_size as usize)
    }

    /// Returns these bytes of blocks that begin with the block `first`.
    pub(super) fn part(&self, all: &Verified, first: u64) -> Pages {
        let from = (self.offset - first * u64::from(self.block_size)) as usize;
        all.part(from..from + self.len as usize, self.block_size as usize)
    }
}

impl Asked {
    /// Reports whether all disks have answered.
    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }
}

impl Reader {
    pub(super) fn new(wanted: Wanted, passes: Option<u64>) -> Self {
        Self {
            wanted,
            passes,
            callers: Vec::new(),
            stage: Stage::Begins,
        }
    }

    /// Returns the bytes, if all of them are in the cache; otherwise the ticket of the first block,
    /// unless that one is there.
    pub(super) fn cached(&self, cache: &Cache) -> Result<Pages, Option<Ticket>> {
        let of = &self.wanted;
        let volume = of.dataset.0.into();
        let parts = blocks::parts(of.offset, of.len as usize, of.block_size as usize);
        let mut pieces: Vec<Pages> = Vec::new();
        for part in parts {
            let block = part.block;
            let piece = cache.range_or_ticket(Key { volume, block }, part.within);
            let is_first = pieces.is_empty();
            pieces.push(piece.map_err(|ticket| is_first.then_some(ticket))?);
        }
        Ok(blocks::joined(&pieces))
    }

    /// Returns the blocks that are read.
    fn blocks(&self) -> Range<u64> {
        let own = self.wanted.blocks();
        let of = &self.wanted;
        let all = of.size / u64::from(of.block_size);
        let ahead = self.passes.unwrap_or(0);
        own.start..(own.end + ahead).min(all).max(own.end)
    }

    pub(super) fn take_tickets(&mut self, first: Option<Ticket>, bench: &Bench<'_>) -> Stage {
        let (dataset, blocks) = (self.wanted.dataset, self.blocks());
        self.callers.push(self.wanted);
        Stage::Wants(match self.passes {
            Some(_) => Tickets::none(dataset, blocks),
            None => Tickets::take(bench.cache, dataset, blocks, first),
        })
    }

    pub(super) fn locate(&mut self, tickets: Tickets, bench: &mut Bench<'_>) -> Stage {
        match tickets.locate(bench.pool.published()) {
            Some(located) => Stage::Located(located),
            None => {
                self.hand_over(bench);
                Stage::Over
            }
        }
    }

    /// Asks disks for the blocks. Any disk with a whole copy is as good as another.
    pub(super) fn send(
        &mut self,
        number: u64,
        located: Located,
        random: &mut Random,
        bench: &mut Bench<'_>,
    ) -> Stage {
        let copies = bench.pool.whole_copies();
        let mut requests = Vec::new();
        let Some(rows) = located.rows() else {
            self.hand_over(bench);
            return Stage::Over;
        };
        for (at, row) in (0..).zip(&rows) {
            let of_vdev = copies.get(usize::from(row.vdev)).into_iter().flatten();
            let disks = of_vdev.filter_map(|(leaf, _)| bench.disks.get(&leaf.0).copied());
            let disks: Vec<usize> = disks.collect();
            if disks.is_empty() {
                break;
            }
            requests.push(DiskRequest {
                disk: random.one_of(&disks),
                id: READING + (number << 8) + at,
                op: DeviceOp::Read {
                    offset: sector_offset(row.sectors.start),
                    len: ((row.sectors.end - row.sectors.start) * PAGE_SIZE as u64) as u32,
                },
            });
        }
        if requests.len() < rows.len() {
            self.hand_over(bench);
            return Stage::Over;
        }
        bench.requests.extend(requests);
        Stage::Asked(Asked {
            missing: rows.len(),
            blocks: Some(located.holes(self.wanted.block_size as usize)),
            located,
            rows: rows.into_vec(),
        })
    }

    /// Takes a disk's answer. Reports whether it was the last one.
    pub(super) fn arrived(&mut self, row: usize, outcome: DeviceOutcome) -> bool {
        let block_size = self.wanted.block_size as usize;
        let Stage::Asked(asked) = &mut self.stage else {
            return false;
        };
        let blocks = asked.rows[row].blocks.clone();
        let bytes = outcome.ok();
        let came = bytes.and_then(|bytes| asked.located.verify(blocks, &bytes, block_size));
        let all = asked.blocks.take().zip(came);
        asked.blocks = all.map(|(mut all, some)| {
            all.add(some);
            all
        });
        asked.missing -= 1;
        asked.is_complete()
    }

    /// Puts the blocks into the cache, and answers. Returns bytes that wait for another reader.
    pub(super) fn finish(&mut self, asked: Asked, bench: &mut Bench<'_>) -> Option<Held> {
        let Some(blocks) = asked.blocks else {
            self.hand_over(bench);
            return None;
        };
        let block_size = self.wanted.block_size;
        asked
            .located
            .fill(bench.cache, &blocks, block_size as usize);
        let first = self.blocks().start;
        for caller in std::mem::take(&mut self.callers) {
            bench.moves.read_beside += 1;
            bench.answer(caller.tag, caller.part(&blocks, first));
        }
        self.passes.map(|_| Held {
            located: asked.located,
            blocks,
            first,
            block_size,
        })
    }

    /// Reports whether another operation may wait for this read.
    pub(super) fn may_be_joined(&self, wanted: &Wanted, published: &Published) -> bool {
        let (Stage::Located(located) | Stage::Asked(Asked { located, .. })) = &self.stage else {
            return false;
        };
        let is_same = self.wanted.dataset == wanted.dataset
            && self.wanted.block_size == wanted.block_size
            && !self.callers.is_empty();
        is_same && located.still_lie(published, wanted.blocks())
    }

    /// Hands the operations that wait to the engine.
    pub(super) fn hand_over(&mut self, bench: &mut Bench<'_>) {
        for caller in std::mem::take(&mut self.callers) {
            bench.ask_engine(&caller);
        }
    }
}

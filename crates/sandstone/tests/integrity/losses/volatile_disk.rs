//! Disk with a volatile write cache, in memory.
//!
//! Blocks that were not flushed may vanish when the power goes, block by block, in any order. A
//! jitter in front of the disk lets requests overtake each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block::lane::Outcome;
use block::{
    BlockDevice, BlockError, BlockErrorKind, Done, Geometry, Lane, Pages, Request, Submitted,
    Ticket, Usage,
};

use crate::rig::random::Random;

/// Volatile disk, which outlives the target that serves it.
#[derive(Debug)]
pub(crate) struct VolatileDisk {
    block_len: usize,
    state: Mutex<DiskState>,
}

#[derive(Debug)]
struct DiskState {
    /// Content that stays.
    platter: Vec<u8>,
    /// Intended contents of each block since it was last made durable, oldest first.
    cache: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Number of changing requests until the power goes; `None` is never.
    until_cut: Option<u64>,
    off: bool,
    random: Random,
}

impl VolatileDisk {
    pub(crate) fn new(random: Random, blocks: u64, block_len: usize) -> Self {
        let state = DiskState {
            platter: vec![0; blocks as usize * block_len],
            cache: BTreeMap::new(),
            until_cut: None,
            off: false,
            random,
        };
        Self {
            block_len,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap()
    }

    /// Lets the power go after this many more requests that change blocks.
    pub(crate) fn cut_after(&self, requests: u64) {
        self.lock().until_cut = Some(requests);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.lock().off
    }

    /// Takes the power away now, unless it is gone already.
    pub(crate) fn cut(&self) {
        let mut state = self.lock();
        if !state.off {
            state.cut(self.block_len);
        }
    }

    /// Brings the power back.
    pub(crate) fn power_on(&self) {
        let mut state = self.lock();
        (state.off, state.until_cut) = (false, None);
    }

    /// Returns the bytes that a read finds.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        self.lock().read(offset, len, self.block_len)
    }

    fn run(&self, request: Request) -> Outcome {
        let mut state = self.lock();
        let block_len = self.block_len;
        if state.counts_down(&request) {
            state.cut(block_len);
        }
        if state.off {
            return Err(state.while_off(request, block_len));
        }
        match request {
            Request::Read { offset, len } => {
                let pages =
                    Pages::from_bytes(&state.read(offset as usize, len as usize, block_len));
                return Ok(Done::Pages(pages));
            }
            Request::Extents { len, .. } => return Ok(Done::Extents(vec![(len, true)])),
            Request::Flush => state.flush(block_len),
            Request::Write {
                offset,
                data,
                durable,
            } => state.write(offset as usize, &data.to_vec(), durable, block_len),
            Request::Discard { offset, len } => {
                state.write(offset as usize, &vec![0; len as usize], false, block_len);
            }
            Request::WriteZeroes {
                offset,
                len,
                durable,
                ..
            } => state.write(offset as usize, &vec![0; len as usize], durable, block_len),
        }
        Ok(Done::Nothing)
    }
}

impl DiskState {
    fn counts_down(&mut self, request: &Request) -> bool {
        let changes = !matches!(request, Request::Read { .. } | Request::Extents { .. });
        match &mut self.until_cut {
            Some(0) => !self.off,
            Some(left) if changes => {
                *left -= 1;
                false
            }
            _ => false,
        }
    }

    fn cut(&mut self, block_len: usize) {
        self.off = true;
        for (block, versions) in std::mem::take(&mut self.cache) {
            // Any of them may have reached the platter last, or none.
            let survivor = self.random.within(0..versions.len() as u64 + 1) as usize;
            if let Some(bytes) = versions.get(survivor) {
                self.platter[block * block_len..][..block_len].copy_from_slice(bytes);
            }
        }
    }

    /// Leaves a part of a request that was on its way to the disk when the power went.
    fn while_off(&mut self, request: Request, block_len: usize) -> BlockError {
        if let Request::Write { offset, data, .. } = request {
            for (block, bytes) in
                (offset as usize / block_len..).zip(data.to_vec().chunks(block_len))
            {
                if self.random.chance(30) {
                    self.platter[block * block_len..][..block_len].copy_from_slice(bytes);
                }
            }
        }
        BlockError::new(BlockErrorKind::Gone, "the power is off")
    }

    fn read(&self, offset: usize, len: usize, block_len: usize) -> Vec<u8> {
        let blocks = offset / block_len..(offset + len) / block_len;
        let mut bytes = Vec::with_capacity(len);
        for block in blocks {
            let cached = self.cache.get(&block).and_then(|versions| versions.last());
            match cached {
                Some(newest) => bytes.extend_from_slice(newest),
                None => bytes.extend_from_slice(&self.platter[block * block_len..][..block_len]),
            }
        }
        bytes
    }

    fn write(&mut self, offset: usize, bytes: &[u8], durable: bool, block_len: usize) {
        for (block, bytes) in (offset / block_len..).zip(bytes.chunks(block_len)) {
            if durable {
                self.cache.remove(&block);
                self.platter[block * block_len..][..block_len].copy_from_slice(bytes);
            } else {
                self.cache.entry(block).or_default().push(bytes.to_vec());
            }
        }
    }

    fn flush(&mut self, block_len: usize) {
        for (block, versions) in std::mem::take(&mut self.cache) {
            if let Some(newest) = versions.last() {
                self.platter[block * block_len..][..block_len].copy_from_slice(newest);
            }
        }
    }
}

impl BlockDevice for VolatileDisk {
    fn geometry(&self) -> Geometry {
        let block_len = self.block_len as u32;
        Geometry {
            len: self.lock().platter.len() as u64,
            granularity: block_len,
            physical: block_len,
            alignment: 0,
            minimum: block_len,
            optimal: 65536,
            discard: block_len,
            discard_alignment: 0,
            atomic_write: 0,
            thin: true,
            volatile_cache: true,
            rotation_rate: 1,
        }
    }

    fn submit(&self, request: Request, _ticket: Ticket, _lane: &mut Lane) -> Submitted {
        Submitted::Ready(self.run(request))
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        Ok(Usage {
            allocated: 0,
            pool: None,
        })
    }
}

/// Layer that holds every second request back for a random time.
#[derive(Debug)]
pub(crate) struct Jitter {
    pub(crate) disk: Arc<VolatileDisk>,
    pub(crate) random: Mutex<Random>,
}

impl BlockDevice for Jitter {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        let mut random = self.random.lock().unwrap();
        if random.chance(50) {
            return self.disk.submit(request, ticket, lane);
        }
        let pause = Duration::from_micros(random.within(0..1500));
        lane.submit_later(Instant::now() + pause, self.disk.clone(), request, ticket)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.disk.usage()
    }
}

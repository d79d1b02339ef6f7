//! An array on disks in memory. Disks answer in an order that a seed decides. They keep writes in a
//! volatile cache until a flush, and fail on demand.

use std::collections::{BTreeMap, BTreeSet};

use pages::{PAGE_SIZE, Page, PageMut, Pages};

use crate::checksum;
use crate::format::{Address, Algorithm, Epoch};
use crate::vdev::*;

/// Random numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    durable: BTreeMap<u64, Page>,
    cache: BTreeMap<u64, Page>,
    /// TopLevelKind of failure of every request, if any.
    pub(super) broken: Option<DeviceErrorKind>,
    pub(super) fail_writes: bool,
    pub(super) fail_flushes: bool,
    /// Whether requests are not answered.
    pub(super) mute: bool,
    /// Sectors that cannot be read until they are written.
    pub(super) unreadable: BTreeSet<u64>,
    /// Distance in sectors between the place that is asked for and the place that a read returns.
    pub(super) misdirected: u64,
    pub(super) reads: usize,
    pub(super) writes: usize,
    pub(super) written_bytes: usize,
    pub(super) flushes: usize,
    pub(super) trims: usize,
}

impl Disk {
    /// Loses unflushed writes.
    pub(super) fn lose_cache(&mut self) {
        self.cache.clear();
    }

    /// Turns a bit of each sector in the data area that was ever written, if `is_rotten`.
    pub(super) fn rot(&mut self, mut is_rotten: impl FnMut() -> bool) -> usize {
        let mut count = 0;
        for map in [&mut self.durable, &mut self.cache] {
            for page in map.values_mut() {
                if is_rotten() {
                    let mut bad = PageMut::copy_of(page);
                    bad[77] ^= 0x10;
                    *page = bad.freeze();
                    count += 1;
                }
            }
        }
        count
    }

    pub(super) fn sector(&self, sector: u64) -> Page {
        let page = self
            .cache
            .get(&sector)
            .or_else(|| self.durable.get(&sector));
        page.cloned().unwrap_or_else(Page::zero)
    }

    fn answer(&mut self, op: &DeviceOp) -> DeviceOutcome {
        if let Some(kind) = self.broken {
            return Err(DeviceError::new(kind, "broken by the test"));
        }
        match op {
            DeviceOp::Read { offset, len } => {
                self.reads += 1;
                let first = offset / PAGE_SIZE as u64;
                let sectors = first..first + u64::from(*len) / PAGE_SIZE as u64;
                if sectors
                    .clone()
                    .any(|sector| self.unreadable.contains(&sector))
                {
                    return Err(DeviceError::new(DeviceErrorKind::Medium, "unreadable"));
                }
                let pages: Vec<Page> = sectors
                    .map(|sector| self.sector(sector + self.misdirected))
                    .collect();
                Ok(Pages::from_pages(pages.into_iter(), 0, *len))
            }
            DeviceOp::Write { .. } if self.fail_writes => {
                Err(DeviceError::new(DeviceErrorKind::Medium, "write failed"))
            }
            DeviceOp::Write {
                offset,
                data,
                durable,
            } => {
                self.writes += 1;
                self.written_bytes += data.len();
                for at in (0..data.len()).step_by(PAGE_SIZE) {
                    let sector = (offset + at as u64) / PAGE_SIZE as u64;
                    let page = data.whole_page(at).expect("whole pages").clone();
                    self.unreadable.remove(&sector);
                    if *durable {
                        self.cache.remove(&sector);
                        self.durable.insert(sector, page);
                    } else {
                        self.cache.insert(sector, page);
                    }
                }
                Ok(Pages::new())
            }
            DeviceOp::Flush if self.fail_flushes => {
                self.lose_cache();
                Err(DeviceError::new(DeviceErrorKind::Medium, "flush failed"))
            }
            DeviceOp::Flush => {
                self.flushes += 1;
                let cache = std::mem::take(&mut self.cache);
                self.durable.extend(cache);
                Ok(Pages::new())
            }
            DeviceOp::Trim { offset, len } => {
                self.trims += 1;
                for sector in offset / PAGE_SIZE as u64..(offset + len) / PAGE_SIZE as u64 {
                    self.durable.remove(&sector);
                    self.cache.remove(&sector);
                }
                Ok(Pages::new())
            }
        }
    }
}

pub(super) struct Rig {
    pub(super) array: Array,
    pub(super) disks: Vec<Disk>,
    pub(super) pending: Vec<DeviceRequest>,
    pub(super) done: BTreeMap<u64, ArrayDone>,
    pub(super) events: Vec<VdevEvent>,
    pub(super) now_us: u64,
    pub(super) random: Random,
    /// Record of all events, to compare runs.
    pub(super) history: Vec<String>,
    tags: u64,
}

pub(super) const LEAF_SIZE: u64 = 32 << 20;

pub(super) fn leaves(count: u64) -> impl Iterator<Item = LeafSpec> {
    (1..=count).map(|guid| LeafSpec::new(guid, LEAF_SIZE))
}

pub(super) fn tree(kind: TopLevelKind, count: u64) -> VdevTree {
    VdevTree {
        top_levels: vec![TopLevelSpec::new(kind, Class::Normal, leaves(count))],
    }
}

impl Rig {
    pub(super) fn new(kind: TopLevelKind, count: u64) -> Self {
        Self::of(&tree(kind, count), 1, Limits::default())
    }

    pub(super) fn of(tree: &VdevTree, seed: u64, limits: Limits) -> Self {
        let array = Array::new(tree, Epoch(1), limits).expect("a tree");
        let disks = vec![Disk::default(); array.leaves().count()];
        Self {
            array,
            disks,
            pending: Vec::new(),
            done: BTreeMap::new(),
            events: Vec::new(),
            now_us: 0,
            random: Random(seed),
            history: Vec::new(),
            tags: 0,
        }
    }

    /// Calls the array under a new tag.
    pub(super) fn ask(&mut self, call: impl FnOnce(&mut Array, u64, u64, &mut Output)) -> u64 {
        self.tags += 1;
        let (tag, now_us) = (self.tags, self.now_us);
        self.with(|array, out| call(array, tag, now_us, out));
        tag
    }

    pub(super) fn with<T>(&mut self, call: impl FnOnce(&mut Array, &mut Output) -> T) -> T {
        let mut out = Output::default();
        let result = call(&mut self.array, &mut out);
        self.array.release(self.now_us, &mut out);
        self.history
            .extend(out.requests.iter().map(|request| format!("{request:?}")));
        self.history
            .extend(out.events.iter().map(|event| format!("{event:?}")));
        self.pending.extend(out.requests);
        for (tag, done) in out.done {
            self.history.push(format!("{tag}: {done:?}"));
            assert!(self.done.insert(tag, done).is_none(), "answered twice");
        }
        self.events.extend(out.events);
        result
    }

    /// Lets one disk answer one request, and reports whether there was any.
    pub(super) fn step(&mut self) -> bool {
        let able: Vec<usize> = (0..self.pending.len())
            .filter(|at| !self.disks[self.pending[*at].leaf.0 as usize].mute)
            .collect();
        if able.is_empty() {
            return false;
        }
        let at = able[self.random.below(able.len())];
        let request = self.pending.swap_remove(at);
        let outcome = self.disks[request.leaf.0 as usize].answer(&request.op);
        self.now_us += 10;
        let now_us = self.now_us;
        self.with(|array, out| array.completed(request.io, outcome, now_us, out));
        true
    }

    /// Runs until no disk has anything to answer.
    pub(super) fn run(&mut self) {
        while self.step() {}
    }

    /// Lets time pass. Disks whose answers are due answer at once.
    pub(super) fn pass(&mut self, us: u64) {
        let end = self.now_us + us;
        while let Some(deadline) = self.array.deadline_us().filter(|deadline| *deadline <= end) {
            self.now_us = self.now_us.max(deadline);
            let now_us = self.now_us;
            self.with(|array, out| array.tick(now_us, out));
            self.run();
        }
        self.now_us = self.now_us.max(end);
    }

    pub(super) fn write(&mut self, address: Address, data: &Pages) -> Result<(), ArrayError> {
        let tag = self.start_write(address, data);
        self.run();
        self.written(tag)
    }

    pub(super) fn start_write(&mut self, address: Address, data: &Pages) -> u64 {
        let blocks = vec![(address, data.clone())];
        self.ask(|array, tag, now_us, out| {
            array.write(tag, blocks, Priority::AsyncWrite, now_us, out);
        })
    }

    pub(super) fn written(&mut self, tag: u64) -> Result<(), ArrayError> {
        match self.done.remove(&tag) {
            Some(ArrayDone::Written(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn read(&mut self, block: &Block) -> Result<Pages, ArrayError> {
        let tag = self.start_read(block);
        self.run();
        self.was_read(tag)
    }

    pub(super) fn start_read(&mut self, block: &Block) -> u64 {
        let block = block.clone();
        self.ask(|array, tag, now_us, out| {
            array.read(tag, block, Priority::SyncRead, now_us, out);
        })
    }

    pub(super) fn was_read(&mut self, tag: u64) -> Result<Pages, ArrayError> {
        match self.done.remove(&tag) {
            Some(ArrayDone::Read(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn scrub(&mut self, block: &Block) -> Result<Scrubbed, ArrayError> {
        let block = block.clone();
        let tag = self.ask(|array, tag, now_us, out| array.scrub_block(tag, block, now_us, out));
        self.run();
        match self.done.remove(&tag) {
            Some(ArrayDone::Scrubbed(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn rebuild(&mut self, block: &Block, leaf: LeafId) -> Result<(), ArrayError> {
        let block = block.clone();
        let tag =
            self.ask(|array, tag, now_us, out| array.rebuild_block(tag, block, leaf, now_us, out));
        self.run();
        match self.done.remove(&tag) {
            Some(ArrayDone::Rebuilt(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn start_flush(&mut self) -> u64 {
        self.ask(|array, tag, now_us, out| array.flush(tag, now_us, out))
    }

    pub(super) fn flushed(&mut self, tag: u64) -> Result<(), ArrayError> {
        match self.done.remove(&tag) {
            Some(ArrayDone::Flushed(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), ArrayError> {
        let tag = self.start_flush();
        self.run();
        self.flushed(tag)
    }

    pub(super) fn errors(&self, leaf: u32) -> ErrorCounts {
        self.status(leaf).errors
    }

    pub(super) fn status(&self, leaf: u32) -> LeafStatus {
        self.array
            .leaves()
            .find(|status| status.leaf.0 == leaf)
            .expect("a leaf")
    }

    pub(super) fn top(&self) -> TopLevelStatus {
        self.array.top_levels().next().expect("a top-level vdev")
    }
}

/// Makes bytes that no other seed has.
pub(super) fn content(seed: u64, sectors: usize) -> Pages {
    let mut random = Random(seed);
    let mut bytes = vec![0; sectors * PAGE_SIZE];
    for part in bytes.chunks_mut(64) {
        part[..8].copy_from_slice(&random.next().to_le_bytes());
    }
    Pages::from_bytes(&bytes)
}

pub(super) fn block(sector: u64, data: &Pages, birth: u64) -> Block {
    Block {
        address: Address::new(0, sector),
        second: None,
        sectors: (data.len() / PAGE_SIZE) as u16,
        birth: Epoch(birth),
        verify: Verify::Checksum {
            algorithm: Algorithm::Xxh3,
            checksum: checksum::of(Algorithm::Xxh3, data),
            is_half: false,
        },
    }
}

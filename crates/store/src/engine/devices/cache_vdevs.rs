//! Cache vdevs: fast devices that keep blocks which memory gave up, so that they can be read again.
//!
//! The policy decides which blocks to keep, where, and what must be read back
//! ([`crate::cache::second_level`]). This file joins the policy to devices. Nothing of the pool
//! depends on cache vdevs:
//! - they hold no block that is not in the pool as well, and nothing is ever written to the pool
//!   from them;
//! - data from a cache vdev is believed only if this process wrote it there for exactly this
//!   pointer. A hash of its own covers the block's address, birth and checksum. So a device that
//!   rots, lies or has other data costs a read of the pool;
//! - a device that fails, or does not answer within [`PATIENCE_US`], is not used any more. The pool
//!   serves the requests that waited for it;
//! - the index of their contents is in memory only. So they are empty after each opening, and an
//!   opening does not look at them.
//!
//! Cache vdevs have their own leaf and request numbers, above all numbers of the array. A request
//! for a cache vdev never comes near the array. They have labels so that they are found with the
//! pool's other devices, but no roots.
//!
//! The index and the batches being written count in the cap of the block cache.

use pages::Pages;

use super::caches::{Device, FIRST_LEAF, PATIENCE_US, SECTOR, UnderWay, What};
use crate::cache::second_level::{CachedBlock, Limits, SecondLevel};
use crate::cache::{EvictedBlocks, Key};
use crate::catalog::CachePolicy;
use crate::engine::request::{Event, PoolError, PoolErrorKind};
use crate::engine::state::Pool;
use crate::format::{DatasetId, Label, Pointer};
use crate::vdev::{
    DeviceErrorKind, DeviceOp, DeviceOutcome, ErrorCounts, IoId, LeafId, LeafIo, LeafSpec,
    LeafState, ShapeError, ShapeErrorKind, VdevEvent, layout,
};

/// Number of errors after which a device is not used any more.
const MOST_ERRORS: u64 = 8;
/// Divisor of the block cache's cap that gives the share of all cache vdevs together.
const SHARE: usize = 4;
/// Most bytes a second that are written to a device in the long run.
const WRITE_RATE: u64 = 64 << 20;

fn no_such_cache() -> PoolError {
    PoolError::new(
        PoolErrorKind::Refused,
        "the pool does not have this cache vdev",
    )
}

impl Pool {
    /// Begins to use the cache vdevs of the configuration, all of them empty.
    pub(in crate::engine) fn begin_caches(&mut self) {
        for spec in self.config().caches.clone() {
            self.insert_cache(spec);
        }
    }

    fn insert_cache(&mut self, spec: LeafSpec) -> LeafId {
        let leaf = LeafId(FIRST_LEAF + self.caches.devices.len() as u32);
        let is_online = spec.state == LeafState::Online;
        let level = is_online.then(|| self.second_level(spec.size)).flatten();
        self.caches.devices.push(Device {
            leaf,
            spec,
            level,
            errors: ErrorCounts::default(),
            io: LeafIo::default(),
        });
        leaf
    }

    /// Makes an empty second level on a device; `None` if memory is so short that its index would
    /// cost more than it gives.
    fn second_level(&self, size: u64) -> Option<SecondLevel> {
        let limits = Limits {
            leaf_bytes: layout::data_sectors(size).unwrap_or(0) * SECTOR,
            index_bytes: self.cache.cap() / (2 * SHARE),
            write_bytes_per_s: WRITE_RATE,
        };
        let level = SecondLevel::new(limits, self.key().secret);
        let most = self.cache.cap() / SHARE;
        self.cache.reserve(level.memory(), most).then_some(level)
    }

    /// Resets the errors of a cache vdev. If it failed or was away, it is used again, and begins
    /// empty.
    ///
    /// # Errors
    /// No cache vdev has that guid.
    pub fn online_cache(&mut self, guid: u64, now_us: u64) -> Result<(), PoolError> {
        self.heed_time(now_us);
        let Some(leaf) = self.caches.find(guid) else {
            return Err(no_such_cache());
        };
        let is_used = self.caches.uses(leaf);
        let Some(device) = self.caches.device(leaf) else {
            return Err(no_such_cache());
        };
        device.errors = ErrorCounts::default();
        if is_used {
            return Ok(());
        }
        device.spec.state = LeafState::Online;
        let size = device.spec.size;
        let level = self.second_level(size);
        if let Some(device) = self.caches.device(leaf) {
            device.level = level;
        }
        self.shape_changed();
        self.go_on();
        Ok(())
    }

    /// Takes a cache vdev offline until [`Pool::online_cache`], also for later openings. No data is
    /// lost with it.
    ///
    /// # Errors
    /// No cache vdev has that guid.
    pub fn offline_cache(&mut self, guid: u64, now_us: u64) -> Result<(), PoolError> {
        self.heed_time(now_us);
        let Some(leaf) = self.caches.find(guid) else {
            return Err(no_such_cache());
        };
        let device = self.caches.device(leaf);
        if device.is_some_and(|device| device.spec.state == LeafState::Offline) {
            return Ok(());
        }
        self.stop_cache(leaf, LeafState::Offline, "taken offline");
        self.shape_changed();
        self.go_on();
        Ok(())
    }

    /// Adds a cache vdev, which is used from now on. Its label follows the pool's labels
    /// ([`Pool::sync`]).
    ///
    /// # Errors
    /// The device is too small, or a cache vdev has that guid already.
    pub fn add_cache(&mut self, spec: &LeafSpec) -> Result<LeafId, ShapeError> {
        self.check_cache(spec)?;
        let leaf = self.insert_cache(spec.clone());
        self.note_caches();
        self.shape_changed();
        Ok(leaf)
    }

    /// Checks whether a cache vdev can be added.
    pub(in crate::engine) fn check_cache(&self, spec: &LeafSpec) -> Result<(), ShapeError> {
        let refuse = |kind, context: &str| Err(ShapeError::of_tree(kind, context));
        if layout::data_sectors(spec.size).is_none() {
            return refuse(ShapeErrorKind::TooSmall, "device is too small for a cache");
        }
        if self.leaf(spec.guid).is_some() {
            return refuse(ShapeErrorKind::InUse, "already in use");
        }
        Ok(())
    }

    /// Uses the present size of a cache vdev's device. The cache vdev begins empty.
    ///
    /// # Errors
    /// No cache vdev has that guid, or its device is smaller than it was.
    pub fn expand_cache(&mut self, guid: u64, size: u64, now_us: u64) -> Result<(), PoolError> {
        self.heed_time(now_us);
        let leaf = self.caches.find(guid);
        let Some(device) = leaf.and_then(|leaf| self.caches.device(leaf)) else {
            return Err(no_such_cache());
        };
        let (leaf, before) = (device.leaf, device.spec.size);
        if size < before {
            let context = format!("the device has {size} bytes, but had {before}");
            return Err(PoolError::new(PoolErrorKind::Refused, context));
        }
        if layout::data_sectors(size) == layout::data_sectors(before) {
            return Ok(());
        }
        device.spec.size = size;
        // Places are counted round the device, so no block that lies there can be found any more.
        let is_used = device.spec.state == LeafState::Online;
        self.forget_cache(leaf);
        let level = is_used.then(|| self.second_level(size)).flatten();
        if let Some(device) = self.caches.device(leaf) {
            device.level = level;
        }
        self.note_caches();
        self.shape_changed();
        self.go_on();
        Ok(())
    }

    /// Removes a cache vdev. No data is lost with it.
    ///
    /// # Errors
    /// No cache vdev has that guid.
    pub fn remove_cache(&mut self, guid: u64, now_us: u64) -> Result<(), PoolError> {
        self.heed_time(now_us);
        let Some(leaf) = self.caches.find(guid) else {
            return Err(no_such_cache());
        };
        self.stop_cache(leaf, LeafState::Detached, "detached");
        self.note_caches();
        self.shape_changed();
        self.go_on();
        Ok(())
    }

    /// Asks the cache vdevs for a block that is not in memory. The outer `None` means no cache
    /// vdev has it; the inner `None` means its data comes later.
    pub(in crate::engine) fn read_cached(
        &mut self,
        key: Key,
        pointer: &Pointer,
    ) -> Option<Option<Pages>> {
        let now_us = self.now_us();
        let device = self.caches.device_of(key)?;
        let (leaf, found) = (device.leaf, device.level.as_mut()?.where_is(key, pointer)?);
        match found {
            CachedBlock::Memory(data) => Some(Some(data)),
            CachedBlock::Device(place) => {
                let op = DeviceOp::Read {
                    offset: layout::DATA_START + place.offset,
                    len: place.len as u32,
                };
                let pointer = *pointer;
                let what = What::Read {
                    key,
                    pointer,
                    place,
                };
                self.caches.ask(leaf, op, what, now_us);
                Some(None)
            }
        }
    }

    /// Reports whether there are cache vdevs.
    pub(in crate::engine) fn has_caches(&self) -> bool {
        !self.caches.is_empty()
    }

    /// Offers blocks that memory gave up to the cache vdevs.
    pub(in crate::engine) fn keep_evicted(&mut self, evicted: EvictedBlocks) {
        if self.caches.is_empty() {
            return;
        }
        for evicted in evicted {
            let key = evicted.key;
            let dataset = DatasetId(key.volume as u32);
            let Some(contents) = self.contents_of(dataset) else {
                continue;
            };
            let is_wanted = contents.settings.secondary_cache == CachePolicy::All;
            // A block that is still to be written has its place, but may lose it to a later write
            // of its group.
            let is_new = self.is_in_group(dataset, key.block);
            if !is_wanted || is_new {
                continue;
            }
            let pointer = self.look_up(dataset, key.block).and_then(Result::ok);
            let Some(pointer) = pointer.filter(|pointer| !pointer.is_hole()) else {
                continue;
            };
            let now_us = self.now_us();
            let Some(device) = self.caches.device_of(key) else {
                return;
            };
            let leaf = device.leaf;
            let level = device.level.as_mut();
            let batch = level.and_then(|level| level.offer(evicted, &pointer, now_us));
            if let Some(batch) = batch {
                self.caches.write(leaf, batch, now_us);
            }
        }
    }

    /// Takes the answer of a cache vdev's device.
    pub(in crate::engine) fn cache_completed(&mut self, io: IoId, outcome: DeviceOutcome) {
        let Some(under_way) = self.caches.under_way.remove(&io.0) else {
            return;
        };
        let now_us = self.now_us();
        let UnderWay {
            leaf,
            since_us,
            len,
            what,
        } = under_way;
        let Some(device) = self.caches.device(leaf) else {
            return;
        };
        let is_read = matches!(what, What::Read { .. });
        let error = outcome.as_ref().err().cloned();
        if error.is_some() {
            device.errors.read += u64::from(is_read);
            device.errors.write += u64::from(!is_read);
        } else {
            let transfers = match is_read {
                true => &mut device.io.read,
                false => &mut device.io.write,
            };
            transfers.count(len, since_us, since_us, now_us);
        }
        match what {
            What::Label => {}
            What::Batch(id) => {
                if let Some(level) = &mut device.level {
                    level.written(id, error.is_none());
                }
            }
            What::Read {
                key,
                pointer,
                place,
            } => {
                let level = device.level.as_mut();
                let data = level.and_then(|of| of.accept(key, &pointer, place, outcome.ok()));
                let rejected = device.level.as_ref().map(|of| of.statistics().rejected);
                let bad = rejected.unwrap_or(0).saturating_sub(device.errors.read);
                device.errors.checksum = bad;
                self.cached_block_read(&pointer, data);
            }
        }
        let Some(error) = error else {
            return;
        };
        let is_gone = error.kind == DeviceErrorKind::Gone;
        let errors = self.caches.device(leaf).map(|device| device.errors);
        let count = errors.map_or(0, |errors| errors.read + errors.write);
        if is_gone || count >= MOST_ERRORS {
            let state = match is_gone {
                true => LeafState::Removed,
                false => LeafState::Faulted,
            };
            self.stop_cache(leaf, state, &error.to_string());
        }
    }

    /// Gives up devices that do not answer.
    pub(in crate::engine) fn tick_caches(&mut self) {
        let now_us = self.now_us();
        let is_late = |of: &&UnderWay| now_us >= of.since_us + PATIENCE_US;
        let late = self.caches.under_way.values().find(is_late);
        if let Some(leaf) = late.map(|of| of.leaf) {
            self.stop_cache(
                leaf,
                LeafState::Faulted,
                "the device did not answer in time",
            );
        }
    }

    /// Stops using a cache vdev. The pool serves the requests that waited for it.
    fn stop_cache(&mut self, leaf: LeafId, state: LeafState, reason: &str) {
        let Some(device) = self.caches.device(leaf) else {
            return;
        };
        device.spec.state = state;
        let state = device.state();
        self.forget_cache(leaf);
        let reason = reason.to_owned();
        let event = VdevEvent::LeafState {
            leaf,
            state,
            reason,
        };
        self.tell(Event::Vdev(event));
    }

    /// Forgets the contents of a cache vdev, and its requests under way. The pool serves the
    /// requests that waited for it.
    fn forget_cache(&mut self, leaf: LeafId) {
        let level = self.caches.device(leaf).and_then(|of| of.level.take());
        if let Some(level) = level {
            self.cache.release(level.memory());
        }
        let of_leaf = |of: &UnderWay| of.leaf == leaf;
        let (mut gone, mut pointers) = (Vec::new(), Vec::new());
        for (io, under_way) in self.caches.under_way.iter().filter(|(_, of)| of_leaf(of)) {
            gone.push(*io);
            if let What::Read { pointer, .. } = &under_way.what {
                pointers.push(*pointer);
            }
        }
        for io in gone {
            self.caches.under_way.remove(&io);
        }
        for pointer in pointers {
            self.cached_block_read(&pointer, None);
        }
    }

    /// Writes the labels of cache vdevs, once a new configuration is in all other labels. Nothing
    /// waits for these labels: a cache vdev that is not found by its label is merely not used.
    pub(in crate::engine) fn label_caches(&mut self, config: &[u8]) {
        let generation = self.config().generation;
        let used = self.caches.devices.iter();
        let used = used.filter(|device| device.spec.state == LeafState::Online);
        let leaves: Vec<(LeafId, u64, u64)> = used
            .map(|device| (device.leaf, device.spec.guid, device.spec.size))
            .collect();
        for (leaf, guid, size) in leaves {
            let label = Label {
                pool: self.config().guid,
                leaf: guid,
                generation,
                config: config.to_vec(),
            };
            let label = Pages::from_bytes(&label.encode());
            for offset in (0..4).filter_map(|copy| layout::label_offset(copy, size)) {
                let data = label.clone();
                let op = DeviceOp::Write {
                    offset,
                    data,
                    durable: false,
                };
                self.caches.ask(leaf, op, What::Label, self.now_us());
            }
        }
    }
}

//! Cache vdevs of a pool: their devices, what each keeps, and the requests under way.

use std::collections::BTreeMap;

use crate::cache::Key;
use crate::cache::second_level::{Batch, Place, SecondLevel};
use crate::format::Pointer;
use crate::vdev::{
    DeviceOp, DeviceRequest, ErrorCounts, IoId, LeafId, LeafIo, LeafSpec, LeafState, VdevState,
    layout,
};

/// First leaf number of cache vdevs, and first number of their requests.
pub(super) const FIRST_LEAF: u32 = 1 << 31;

pub(super) const FIRST_IO: u64 = 1 << 63;

/// Time after which a device that has not answered is not used any more, in microseconds.
pub(super) const PATIENCE_US: u64 = 1_000_000;

pub(super) const SECTOR: u64 = crate::format::SECTOR_SIZE as u64;

/// Status of a cache vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// Leaf number of the cache vdev.
    pub leaf: LeafId,
    /// Guid of the cache vdev, which never changes.
    pub guid: u64,
    /// Bytes for blocks.
    pub size: u64,
    /// Bytes of blocks that the cache vdev can give.
    pub used: u64,
    /// State of the device.
    pub state: VdevState,
    /// Whether the cache vdev is used: the device is there, and the block cache has room for its
    /// index.
    pub is_in_use: bool,
    /// Errors of the device.
    pub errors: ErrorCounts,
    /// Requests and bytes of the device.
    pub io: LeafIo,
    /// Reads for which the cache vdev had the block.
    pub hits: u64,
    /// Reads for which the cache vdev did not have the block.
    pub misses: u64,
    /// Blocks that came back with other contents, and were read from the pool.
    pub rejected: u64,
    /// Bytes that were written to the cache vdev.
    pub written_bytes: u64,
}

/// All cache vdevs of a pool.
#[derive(Debug, Default)]
pub(in crate::engine) struct CacheVdevs {
    pub(super) devices: Vec<Device>,
    /// Requests under way.
    pub(super) under_way: BTreeMap<u64, UnderWay>,
    pub(super) next_io: u64,
    pub(super) requests: Vec<DeviceRequest>,
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) leaf: LeafId,
    pub(super) spec: LeafSpec,
    /// Index and policy of the device; `None` if it takes no part in the cache.
    pub(super) level: Option<SecondLevel>,
    pub(super) errors: ErrorCounts,
    pub(super) io: LeafIo,
}

#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) leaf: LeafId,
    pub(super) since_us: u64,
    /// Length in bytes.
    pub(super) len: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Read {
        key: Key,
        pointer: Pointer,
        place: Place,
    },
    Batch(u64),
    Label,
}

impl Device {
    pub(super) fn state(&self) -> VdevState {
        match self.spec.state {
            LeafState::Online => VdevState::Online,
            LeafState::Faulted => VdevState::Faulted,
            LeafState::Offline => VdevState::Offline,
            LeafState::Unavailable => VdevState::Unavailable,
            LeafState::Removed | LeafState::Detached => VdevState::Removed,
        }
    }

    pub(super) fn status(&self) -> CacheStatus {
        let counts = self.level.as_ref().map(SecondLevel::statistics);
        let counts = counts.unwrap_or_default();
        let size = layout::data_sectors(self.spec.size).unwrap_or(0) * SECTOR;
        CacheStatus {
            leaf: self.leaf,
            guid: self.spec.guid,
            size,
            used: counts.held_bytes.min(size),
            state: self.state(),
            is_in_use: self.level.is_some(),
            errors: self.errors,
            io: self.io,
            hits: counts.hits,
            misses: counts.misses,
            rejected: counts.rejected,
            written_bytes: counts.written_bytes,
        }
    }
}

impl CacheVdevs {
    /// Finds the leaf with this guid.
    pub(in crate::engine) fn find(&self, guid: u64) -> Option<LeafId> {
        let is_it =
            |device: &&Device| device.spec.guid == guid && device.spec.state != LeafState::Detached;
        self.devices.iter().find(is_it).map(|device| device.leaf)
    }

    /// Returns the guid of a leaf, even of one that was removed; `None` if the leaf is no cache
    /// vdev's.
    pub(in crate::engine) fn guid(&self, leaf: LeafId) -> Option<u64> {
        let device = self.devices.iter().find(|device| device.leaf == leaf)?;
        Some(device.spec.guid)
    }

    /// Reports whether a leaf may get requests.
    pub(in crate::engine) fn uses(&self, leaf: LeafId) -> bool {
        let is_it = |device: &Device| device.leaf == leaf && device.spec.state == LeafState::Online;
        self.devices.iter().any(is_it)
    }

    pub(in crate::engine) fn statuses(&self) -> Vec<CacheStatus> {
        let devices = self.devices.iter();
        let devices = devices.filter(|device| device.spec.state != LeafState::Detached);
        devices.map(Device::status).collect()
    }

    /// Returns the cache vdevs as labels keep them.
    pub(in crate::engine) fn specs(&self) -> Vec<LeafSpec> {
        let specs = self.devices.iter().map(|device| &device.spec);
        let specs = specs.filter(|spec| spec.state != LeafState::Detached);
        specs.cloned().collect()
    }

    pub(in crate::engine) fn deadline_us(&self) -> Option<u64> {
        let since = self.under_way.values().map(|of| of.since_us);
        since.min().map(|since| since + PATIENCE_US)
    }

    pub(in crate::engine) fn take_requests(&mut self) -> Vec<DeviceRequest> {
        std::mem::take(&mut self.requests)
    }

    pub(super) fn ask(&mut self, leaf: LeafId, op: DeviceOp, what: What, now_us: u64) {
        let io = FIRST_IO + self.next_io;
        self.next_io += 1;
        let len = match &op {
            DeviceOp::Read { len, .. } => u64::from(*len),
            DeviceOp::Write { data, .. } => data.len() as u64,
            DeviceOp::Trim { len, .. } => *len,
            DeviceOp::Flush => 0,
        };
        let under_way = UnderWay {
            leaf,
            since_us: now_us,
            len,
            what,
        };
        self.under_way.insert(io, under_way);
        let io = IoId(io);
        self.requests.push(DeviceRequest { io, leaf, op });
    }

    pub(super) fn write(&mut self, leaf: LeafId, batch: Batch, now_us: u64) {
        let op = DeviceOp::Write {
            offset: layout::DATA_START + batch.offset,
            data: batch.data,
            durable: false,
        };
        self.ask(leaf, op, What::Batch(batch.id), now_us);
    }

    /// Returns the device that keeps a block.
    pub(super) fn device_of(&mut self, key: Key) -> Option<&mut Device> {
        let mut usable: Vec<&mut Device> = (self.devices.iter_mut())
            .filter(|device| device.level.is_some())
            .collect();
        let count = usable.len() as u64;
        let at = (key.block ^ key.volume.rotate_left(17)).checked_rem(count)?;
        Some(usable.swap_remove(at as usize))
    }

    pub(super) fn device(&mut self, leaf: LeafId) -> Option<&mut Device> {
        self.devices.iter_mut().find(|device| device.leaf == leaf)
    }

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.devices.iter().all(|device| device.level.is_none())
    }
}

/// Reports whether a request belongs to a cache vdev.
pub fn is_cache_io(io: IoId) -> bool {
    io.0 >= FIRST_IO
}

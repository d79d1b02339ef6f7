//! The one block trait, its implementations (memory, file, block device) and its wrappers (faults,
//! delay, statistics).
//!
//! All event loops share a device, and it never blocks a loop. [`BlockDevice::submit`] finishes at
//! once ([`Submitted::Ready`]), or later through the completion queue of the calling loop's
//! [`lane::Lane`]. Bytes travel in [`Pages`]: reference-counted, 4 KiB-aligned pages that are
//! immutable once shared. So a read is answered straight from the stored data, and nobody ever sees
//! a half-received write.
//!
//! # Invariants
//! - `Ready(Ok)`, or a completion with `Ok`, means that everything [`Request`] promises was done. A
//!   failed write or flush is never reported as done.
//! - After a failed flush the device keeps failing flushes until it is opened anew, or an
//!   administrator has acknowledged the loss. A second flush must not report success for data that
//!   the first one lost. Writing the data again is not enough, because nobody knows which writes
//!   were lost.
//! - In memory, readers see each 4 KiB-aligned page of a write whole or not at all. On a file or
//!   disk, requests that overlap and are in flight together see what the kernel gives, which may be
//!   a mix. A caller that needs more keeps them apart (COMPARE AND WRITE).
//! - A discard frees what the device can free. The whole range reads as zeros afterwards.
//! - The caller has checked that the range of a request lies inside [`Geometry::len`], and is a
//!   multiple of [`Geometry::granularity`]. The device answers any other range with
//!   [`BlockErrorKind::OutOfRange`] or [`BlockErrorKind::Invalid`].

pub mod backing;
mod blocking_threads;
pub mod budget;
pub mod clock;
pub mod delay;
pub mod device;
pub mod error;
pub mod fault;
pub mod fence;
pub mod file;
mod flush;
mod kernel_file;
pub mod lane;
pub mod layer;
pub mod memory;
pub mod memory_pool;
pub mod open_error;
pub mod spin;
pub mod statistics;
mod transfer;
mod uring;

use std::fmt;

pub use self::open_error::OpenError;
pub use error::{BlockError, BlockErrorKind};
pub use lane::{Lane, Ticket};
pub use pages::{Pages, PagesMut};

/// Geometry of a device; all values in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity.
    pub len: u64,
    /// Unit of requests (512 or 4096). Every request is a multiple of it, and not empty.
    pub granularity: u32,
    /// Physical block: size and alignment of writes for which the device need not read first.
    pub physical: u32,
    /// Offset of the first physical block; less than `physical`.
    pub alignment: u32,
    /// Least size that a read or write should have, because the storage beneath moves no less (the
    /// chunk of a stripe); at least `physical`.
    pub minimum: u32,
    /// Size of reads and writes that are fast.
    pub optimal: u32,
    /// Unit of discards. Smaller or unaligned discards free nothing. 0: discard is not offered.
    pub discard: u32,
    /// Offset of the first unit that a discard frees; less than `discard`.
    pub discard_alignment: u32,
    /// Largest write that is atomic across a power cut. 0: nothing is promised beyond
    /// `granularity`.
    pub atomic_write: u32,
    /// Whether unwritten parts take no space.
    pub thin: bool,
    /// Whether acknowledged writes may be lost without a flush.
    pub volatile_cache: bool,
    /// Rotations of the medium per minute, coded as in SBC-4 (MEDIUM ROTATION RATE): 0 if not
    /// known, 1 if the medium does not rotate.
    pub rotation_rate: u16,
}

impl Geometry {
    /// Checks that `request` lies inside the device and on its granularity.
    #[inline]
    pub fn check(&self, request: &Request) -> Result<(), BlockError> {
        let Some((offset, len)) = request.range() else {
            return Ok(());
        };
        let aligned = (offset | len) & u64::from(self.granularity - 1) == 0;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if aligned && inside && len > 0 {
            return Ok(());
        }
        let kind = if inside {
            BlockErrorKind::Invalid
        } else {
            BlockErrorKind::OutOfRange
        };
        Err(BlockError::new(
            kind,
            format!(
                "{len} bytes at {offset} of {} in blocks of {}",
                self.len, self.granularity
            ),
        )
        .at(offset))
    }
}

/// Request to a device.
#[derive(Debug)]
pub enum Request {
    /// Read `len` bytes; the completion carries them.
    Read {
        /// First byte.
        offset: u64,
        /// Length of the range.
        len: u32,
    },
    /// Write these bytes.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes to write. The length is `data.len()`.
        data: Pages,
        /// Whether the request completes only once the data is on stable storage (FUA).
        durable: bool,
    },
    /// Make durable every write that completed before this request.
    Flush,
    /// Free the space; reads return zeros afterwards. There is one exception: a range may cover a
    /// block in part, and a volume's pool may be too full to write the rest of the block. The
    /// volume then keeps the block as it is.
    Discard {
        /// First byte.
        offset: u64,
        /// Length of the range.
        len: u64,
    },
    /// Write zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// Whether the space may be freed.
        unmap: bool,
        /// Whether the request completes only once the zeros are on stable storage.
        durable: bool,
    },
    /// Find the parts of the range that hold data. The completion carries [`Done::Extents`] for a
    /// non-empty prefix.
    Extents {
        /// First byte.
        offset: u64,
        /// Length of the range.
        len: u64,
    },
}

impl Request {
    /// Returns the first byte and the length; `None` for a flush.
    #[inline]
    pub fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Read { offset, len } => Some((*offset, u64::from(*len))),
            Self::Write { offset, data, .. } => Some((*offset, data.len() as u64)),
            Self::Flush => None,
            Self::Discard { offset, len }
            | Self::WriteZeroes { offset, len, .. }
            | Self::Extents { offset, len } => Some((*offset, *len)),
        }
    }
}

/// Result of a finished request.
#[derive(Debug)]
pub enum Done {
    /// Success without data.
    Nothing,
    /// The bytes read.
    Pages(Pages),
    /// Runs `(length, holds data)` from the start of the range.
    Extents(Vec<(u64, bool)>),
}

/// Immediate answer of [`BlockDevice::submit`].
#[derive(Debug)]
pub enum Submitted {
    /// The request is finished; the ticket was not used.
    Ready(Result<Done, BlockError>),
    /// The lane's completion queue will deliver the ticket's token with the outcome.
    Pending,
}

/// Space in use in bytes, for thin-provisioning thresholds and listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Allocated to this device.
    pub allocated: u64,
    /// Space from which the device takes more when it needs more. `None` if it needs none, or if
    /// the space is not visible (a thin volume of another system).
    pub pool: Option<PoolSpace>,
}

/// Reason why a device is out of service until an administrator acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// Reason, as a clause without a full stop.
    pub reason: String,
    /// Remedy, as a clause without a full stop.
    pub remedy: String,
    /// Whether reads are stopped too.
    pub stops_reads: bool,
}

/// Condition of a device, as administrators are told.
#[derive(Debug)]
pub struct Condition {
    /// See [`BlockDevice::suspension`].
    pub suspension: Option<Suspension>,
    /// See [`BlockDevice::lost_writes`].
    pub lost_writes: Option<String>,
    /// See [`BlockDevice::usage`].
    pub usage: Result<Usage, BlockError>,
}

/// Condition of a device that was asked for: the call waits for the answer.
pub type Asked<'a> = Box<dyn FnOnce() -> Condition + 'a>;

/// Space, in bytes, of the file system or pool beneath a device that takes space when it is
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpace {
    /// Space still available; others may take it as well.
    pub available: u64,
    /// Whole space, for all who share it.
    pub capacity: u64,
}

/// Latency of requests in esxtop's terms, as sums since the device was opened. The difference of
/// two readings counts. GAVG is `guest_us` over `commands`, DAVG `device_us`, QAVG `queue_us`; KAVG
/// is GAVG less DAVG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySplit {
    /// Commands that ended.
    pub commands: u64,
    /// Microseconds from submission to the end.
    pub guest_us: u64,
    /// Microseconds from the wire to the response.
    pub device_us: u64,
    /// Microseconds in the queue before the first sending.
    pub queue_us: u64,
    /// DQLEN: the queue depth now.
    pub queue_depth: u32,
    /// ACTV: commands at the device now.
    pub active: u32,
    /// QUED: commands that wait now.
    pub queued: u32,
}

/// Time at which the writes of a device become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Writes become durable when a write or a flush asks for it.
    AsAsked,
    /// Every write is durable before it is acknowledged.
    Always,
    /// Writes become durable some time after they, and later flushes, were acknowledged: a power
    /// cut loses them.
    Never,
}

/// An access that is about to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// First byte.
    pub offset: u64,
    /// Whether the access reads.
    pub is_read: bool,
}

/// A block device, from which a logical unit can be made.
pub trait BlockDevice: Send + Sync + fmt::Debug {
    /// Returns the geometry, which may change only through [`BlockDevice::refresh`].
    fn geometry(&self) -> Geometry;

    /// Starts a request. Never blocks.
    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted;

    /// Reports whether reads are answered with pages that the device keeps anyway, so that they
    /// take no memory of their own.
    fn reads_in_place(&self) -> bool {
        false
    }

    /// Reports whether any lane may read from the device at no cost beside the read itself: no
    /// session and no thread of its own for the lane.
    fn reads_on_any_lane(&self) -> bool {
        false
    }

    /// Reports whether reads leave blocks in a cache, from which later reads are faster.
    fn has_read_cache(&self) -> bool {
        false
    }

    /// Reports whether [`BlockDevice::foresee`] has an effect.
    fn foresees(&self) -> bool {
        false
    }

    /// Announces reads and writes that will probably be submitted soon, so that the device can
    /// prefetch memory. The call must have no other effect, because the places were not checked.
    fn foresee(&self, accesses: &[Foreseen]) {
        let _ = accesses;
    }

    /// Returns the parts of the latency, for devices at the end of a wire.
    fn latency_split(&self) -> Option<LatencySplit> {
        None
    }

    /// Returns when writes become durable, if an administrator decides this for the device. The
    /// value dates from the last [`BlockDevice::usage`].
    fn durability(&self) -> Option<Durability> {
        None
    }

    /// Reports whether the device takes no changes now, if an administrator decides this for the
    /// device. The value dates from the last [`BlockDevice::usage`].
    fn is_read_only(&self) -> bool {
        false
    }

    /// Returns the command by which an administrator lets a device with
    /// [`BlockDevice::is_read_only`] take changes again. Returns `None` if the device never takes
    /// changes.
    fn read_only_remedy(&self) -> Option<String> {
        None
    }

    /// Returns the reason why the device takes no changes, or serves nothing, until an
    /// administrator acts. May block; never called from an event loop.
    fn suspension(&self) -> Option<Suspension> {
        None
    }

    /// Returns the reason why flushes and durable writes fail until the device is opened anew or
    /// the loss is acknowledged. Acknowledged writes may be lost. May block; never called from an
    /// event loop.
    fn lost_writes(&self) -> Option<String> {
        None
    }

    /// Lets flushes be tried again, because an administrator knows of [`BlockDevice::lost_writes`].
    /// Reports whether this is possible now: some devices refuse while a flush is under way. May
    /// block; never called from an event loop.
    fn acknowledge_lost_writes(&self) -> bool {
        true
    }

    /// Returns the remedy for writes without space.
    fn space_remedy(&self) -> Option<String> {
        None
    }

    /// Returns the space in use. May block; never called from an event loop.
    fn usage(&self) -> Result<Usage, BlockError>;

    /// Asks for the device's condition. A caller that asks many devices before it waits for the
    /// first answer waits once, and not for each. The call that is returned may block, and is never
    /// made from an event loop.
    fn ask_condition(&self) -> Asked<'_> {
        Box::new(|| Condition {
            suspension: self.suspension(),
            lost_writes: self.lost_writes(),
            usage: self.usage(),
        })
    }

    /// Returns how often the device was opened anew beneath its users. Each time it may have lost
    /// writes that were not flushed. Blocks read from then on may hold the data from before those
    /// writes.
    fn reopenings(&self) -> u64 {
        0
    }

    /// Reports whether the device never serves a request again and has to be opened anew: its pool
    /// was exported, say.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns the reason why requests cannot be served now, if the device knows it and the reason
    /// may pass: a network that is down.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Keeps other hosts from writing to the device, or lets them. `None`: no other host is known
    /// to reach the device, and nothing is done.
    fn fence(&self, order: fence::FenceOrder) -> Option<fence::Fencing> {
        let _ = order;
        None
    }

    /// Returns whether other hosts are kept from writing to the device. `None`: no other host is
    /// known to reach it.
    fn fence_state(&self) -> Option<fence::FenceState> {
        None
    }

    /// Reads the size of the storage beneath again (a grown file or zvol). May block.
    fn refresh(&self) -> Result<Geometry, BlockError> {
        Ok(self.geometry())
    }
}

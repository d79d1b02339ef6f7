//! The one block trait, its implementations (memory, file, block device) and its wrappers
//! (faults, delay, statistics).
//!
//! A device is shared by every event loop and never blocks one: [`BlockDevice::submit`] either
//! finishes at once ([`Submitted::Ready`]) or later, through the completion queue of the
//! [`lane::Lane`] that the calling loop owns. Bytes travel in [`Pages`]: reference-counted,
//! 4 KiB-aligned pages that are immutable once shared, so that a read is answered straight from
//! where the data lies and a half-received write is never seen by anyone.
//!
//! # Invariants
//! - `Ready(Ok)` or a completion with `Ok` means what [`Request`] promises, nothing less; a failed
//!   write or flush is never reported as done.
//! - After a failed flush the device keeps failing flushes until it is opened anew, or an
//!   administrator has acknowledged the loss: a second flush must not report success for data the
//!   first one lost. Writing that data again is not enough, since nobody knows which writes were
//!   lost.
//! - In memory, each 4 KiB-aligned page of a write is applied whole or not at all with respect to
//!   readers. On a file or disk, requests that overlap and are in flight at once see what the
//!   kernel gives, which may be a mix; whoever needs more keeps them apart (COMPARE AND WRITE).
//! - A discard frees what the device can free and the whole range reads as zeros afterwards.
//! - A request's range was checked by the caller to lie inside [`Geometry::len`], and to be a
//!   multiple of [`Geometry::granularity`]; a device that is handed anything else answers
//!   [`BlockErrorKind::OutOfRange`] or [`BlockErrorKind::Invalid`].

pub mod backing;
mod blocking_threads;
pub mod budget;
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

/// The shape of a device; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity.
    pub len: u64,
    /// Every request is a multiple of this (512 or 4096), and not empty.
    pub granularity: u32,
    /// The size a write should have and be aligned to, so that the device need not read first.
    pub physical: u32,
    /// Where the first part of that size begins; less than it.
    pub alignment: u32,
    /// The least size that a read or write should have: what lies beneath moves no less (the chunk
    /// of a stripe); at least `physical`.
    pub minimum: u32,
    /// The size a read or write should have to be fast.
    pub optimal: u32,
    /// Discards smaller than or unaligned to this free nothing; 0 where discard is not offered.
    pub discard: u32,
    /// Where the first part begins that a discard of that size frees; less than it.
    pub discard_alignment: u32,
    /// Largest write that is atomic across a power cut; 0 where nothing is promised beyond
    /// `granularity`.
    pub atomic_write: u32,
    /// Whether unwritten parts take no space.
    pub thin: bool,
    /// Whether acknowledged writes may be lost without a flush.
    pub volatile_cache: bool,
    /// How often the medium rotates in a minute, in SBC-4's words (MEDIUM ROTATION RATE): 0 where
    /// that is not known, 1 where it does not rotate.
    pub rotation_rate: u16,
}

impl Geometry {
    /// Whether `request` lies inside the device and on its granularity.
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

/// What can be asked of a device.
#[derive(Debug)]
pub enum Request {
    /// Read `len` bytes; the completion carries them.
    Read {
        /// First byte.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// Write these bytes.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes; the length is `data.len()`.
        data: Pages,
        /// Complete only once on stable storage (FUA).
        durable: bool,
    },
    /// Make every write that completed before this request durable.
    Flush,
    /// Free the space; reads return zeros afterwards. Only a volume of a pool too full to write the
    /// rest of a block that the range covers in part keeps that block as it is.
    Discard {
        /// First byte.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Write zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// How many.
        len: u64,
        /// Whether the space may be freed.
        unmap: bool,
        /// Complete only once on stable storage.
        durable: bool,
    },
    /// Which parts of the range hold data: the completion carries [`Done::Extents`] for a
    /// non-empty prefix.
    Extents {
        /// First byte.
        offset: u64,
        /// How many.
        len: u64,
    },
}

impl Request {
    /// First byte and length, except of a flush.
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

/// What a finished request yields.
#[derive(Debug)]
pub enum Done {
    /// Nothing but success.
    Nothing,
    /// The bytes read.
    Pages(Pages),
    /// `(length, holds data)` runs from the start of the asked range.
    Extents(Vec<(u64, bool)>),
}

/// The immediate answer of [`BlockDevice::submit`].
#[derive(Debug)]
pub enum Submitted {
    /// Finished; the ticket is returned unused.
    Ready(Result<Done, BlockError>),
    /// The lane's completion queue will deliver the ticket's token with the outcome.
    Pending,
}

/// Space in use, for thin-provisioning thresholds and listings; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Allocated to this device.
    pub allocated: u64,
    /// What it takes more from when it needs more; `None` where it needs none, or where that is not
    /// visible (a thin volume of another system).
    pub pool: Option<PoolSpace>,
}

/// Why a device is out of service until somebody acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// A clause without a full stop.
    pub reason: String,
    /// The remedy, a clause without a full stop.
    pub remedy: String,
    /// Whether reads are stopped, too.
    pub stops_reads: bool,
}

/// Space of the file system or pool beneath a device that takes space when it is written; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpace {
    /// Still available; others may take it as well.
    pub available: u64,
    /// All that there could ever be for those who share it.
    pub capacity: u64,
}

/// Where the time of requests went, in esxtop's terms, as sums since the device was opened; of two
/// readings the difference counts. GAVG is `guest_us` over `commands`, DAVG `device_us`, QAVG
/// `queue_us`; KAVG is GAVG less DAVG.
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

/// When the writes of a device become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When a write or a flush asks for it.
    AsAsked,
    /// Before any write is acknowledged.
    Always,
    /// Some time after they were acknowledged, and flushes too: a power cut loses them.
    Never,
}

/// An access that is about to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// Where, in bytes.
    pub offset: u64,
    /// Whether it reads.
    pub is_read: bool,
}

/// A block device: anything that a logical unit can be made of.
pub trait BlockDevice: Send + Sync + fmt::Debug {
    /// The shape; may change only through [`BlockDevice::refresh`].
    fn geometry(&self) -> Geometry;

    /// Starts a request. Never blocks.
    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted;

    /// Whether a read is answered with pages that the device keeps anyway, so that it takes no
    /// memory of its own.
    fn reads_in_place(&self) -> bool {
        false
    }

    /// Whether reads leave blocks in a cache, from which they are read quicker again.
    fn has_read_cache(&self) -> bool {
        false
    }

    /// Whether [`BlockDevice::foresee`] does anything.
    fn foresees(&self) -> bool {
        false
    }

    /// Reads and writes that begin at these places are about to be submitted, it seems: whoever
    /// will wait for memory may begin to. Nothing else may follow from it; the places were not
    /// checked.
    fn foresee(&self, accesses: &[Foreseen]) {
        let _ = accesses;
    }

    /// Where the time goes, for devices at the end of a wire.
    fn latency_split(&self) -> Option<LatencySplit> {
        None
    }

    /// When writes become durable, where an administrator decides that for the device; as of the
    /// last [`BlockDevice::usage`].
    fn durability(&self) -> Option<Durability> {
        None
    }

    /// Whether it takes no changes now, where an administrator decides that for the device; as of
    /// the last [`BlockDevice::usage`].
    fn is_read_only(&self) -> bool {
        false
    }

    /// The command by which an administrator lets it take changes again, where
    /// [`BlockDevice::is_read_only`]; `None` where it never takes any.
    fn read_only_remedy(&self) -> Option<String> {
        None
    }

    /// Why it takes no changes, or serves nothing, until an administrator has seen to it. May
    /// block; never called from an event loop.
    fn suspension(&self) -> Option<Suspension> {
        None
    }

    /// Why flushes and durable writes fail until the device is opened anew or the loss is
    /// acknowledged: acknowledged writes may be lost. May block; never called from an event loop.
    fn lost_writes(&self) -> Option<String> {
        None
    }

    /// An administrator knows of [`BlockDevice::lost_writes`]: flushes are tried again. Returns
    /// whether that is possible now: some devices refuse while a flush is under way. May block;
    /// never called from an event loop.
    fn acknowledge_lost_writes(&self) -> bool {
        true
    }

    /// The remedy where no space is left for writes.
    fn space_remedy(&self) -> Option<String> {
        None
    }

    /// Space in use. May block; never called from an event loop.
    fn usage(&self) -> Result<Usage, BlockError>;

    /// How often it was opened anew beneath those who use it. Each time it may have lost writes
    /// that were not flushed: blocks that are read from then on may hold what they held before
    /// these.
    fn reopenings(&self) -> u64 {
        0
    }

    /// Whether it never serves a request again, and has to be opened anew: its pool was exported,
    /// say.
    fn is_over(&self) -> bool {
        false
    }

    /// Why requests cannot be served now, where the device knows and it may pass: a network that is
    /// down.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Has other hosts kept from writing to it, or lets them. `None`: no other host is known to
    /// reach it, and nothing is done.
    fn fence(&self, order: fence::FenceOrder) -> Option<fence::Fencing> {
        let _ = order;
        None
    }

    /// Whether other hosts are kept from writing to it; `None`: no other host is known to reach it.
    fn fence_state(&self) -> Option<fence::FenceState> {
        None
    }

    /// Looks at the size of what lies beneath again (a grown file or zvol). May block.
    fn refresh(&self) -> Result<Geometry, BlockError> {
        Ok(self.geometry())
    }
}

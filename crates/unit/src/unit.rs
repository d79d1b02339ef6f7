//! A logical unit at work: the SCSI device server, the block device beneath it, and the order and
//! exclusion of its commands.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scsi::logical_unit::LogicalUnit;
use scsi::range_lock::RangeLock;
use scsi::task_set::TaskSets;
use scsi::{BlockRange, WriteThrough};

use super::loops::Loops;
use super::shortage::Shortage;
use super::state;
use backends::backing::Backing;
use block::{BlockDevice, BlockError, BlockErrorKind, Durability, Request, Usage, lane};

/// Time that a device may take to empty its write cache.
const PATIENCE: Duration = Duration::from_secs(10);

/// A logical unit that is served. Shared by all event loops.
#[derive(Debug)]
pub struct Unit {
    /// The administrator's name for it.
    pub name: String,
    /// Decides what commands mean.
    pub logical: Arc<LogicalUnit>,
    /// Keeps the blocks.
    pub device: Arc<dyn BlockDevice>,
    /// Orders commands.
    pub task_sets: Arc<TaskSets>,
    /// Keeps atomic commands apart from writes.
    pub range_lock: RangeLock,
    /// Event loops that serve the unit.
    pub loops: Arc<Loops>,
    /// Files and disks of which the device is made.
    pub backing: Backing,
    /// File of the unit's persistent state (reservations, saved mode pages).
    pub state_file: PathBuf,
    /// Reads are answered with memory that the device keeps anyway.
    pub reads_in_place: bool,
    /// The device makes use of a look ahead.
    pub foresees: bool,
    block_shift: u32,
    errors: AtomicU64,
    shortage: Shortage,
    /// Number of times that the device had been opened anew at the last look.
    reopenings: AtomicU64,
    /// Held while the device is asked and initiators are told.
    following: Mutex<()>,
}

impl Unit {
    /// Joins a device server and a device. Operations that must wait are woken through `loops`.
    pub fn new(
        name: String,
        logical: Arc<LogicalUnit>,
        device: Arc<dyn BlockDevice>,
        backing: Backing,
        state_file: PathBuf,
        loops: Arc<Loops>,
    ) -> Self {
        let wake = loops.wake();
        let block_len = logical.block_len();
        Self {
            name,
            reads_in_place: device.reads_in_place(),
            reopenings: AtomicU64::new(device.reopenings()),
            foresees: device.foresees(),
            device,
            task_sets: TaskSets::new(wake.clone()),
            range_lock: RangeLock::new(block_len, wake),
            loops,
            backing,
            state_file,
            block_shift: block_len.trailing_zeros(),
            logical,
            errors: AtomicU64::new(0),
            shortage: Shortage::default(),
            following: Mutex::default(),
        }
    }

    /// Stores the unit's persistent state after an administrator changed what a restart takes from
    /// it. Where that fails the change holds all the same: what was stored under another
    /// configuration counts for nothing. May block.
    pub fn store_state(&self) {
        if let Err(error) = self.try_to_store_state() {
            tracing::warn!(unit = self.name, %error, "the state of a changed unit could not be stored");
        }
    }

    /// [`Self::store_state`] for callers that tell the administrator where it fails.
    ///
    /// # Errors
    /// The state could not be stored.
    pub fn try_to_store_state(&self) -> Result<(), BlockError> {
        let image = self.logical.image_to_save();
        state::save(&self.state_file, &image).map(drop)
    }

    /// Whether writes that need space fail, or would.
    pub fn is_short_of_space(&self, usage: &Usage) -> bool {
        let granule = self.device.geometry().discard.max(self.logical.block_len());
        let space = usage.pool.filter(|_| self.logical.is_thin());
        space.is_some_and(|space| {
            self.shortage
                .is_felt(self.written(), space.available, granule.into())
        })
    }

    /// Writes that succeeded.
    fn written(&self) -> u64 {
        self.logical.statistics().totals().write_commands
    }

    /// Counts and logs a block request that failed, and the initiator that asked for it; `None`:
    /// the daemon did.
    #[cold]
    pub fn note_error(&self, error: &BlockError, initiator: Option<&str>) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        if error.kind() == BlockErrorKind::NoSpace {
            self.shortage.note(self.written());
        }
        tracing::warn!(unit = self.name, initiator, %error, "block request failed");
    }

    /// Block requests that failed.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Tells the device server of a request that changes blocks, before it is carried out.
    pub fn note_request(&self, request: &Request) {
        if let Some(changed) = self.changed_by(request) {
            self.logical.note_write(changed);
        }
    }

    /// Returns the blocks that a request changes, whole or in part; `None` if it changes none.
    pub fn changed_by(&self, request: &Request) -> Option<BlockRange> {
        let (offset, len) = match request {
            Request::Write { offset, data, .. } => (*offset, data.len() as u64),
            Request::Discard { offset, len } | Request::WriteZeroes { offset, len, .. } => {
                (*offset, *len)
            }
            Request::Read { .. } | Request::Flush | Request::Extents { .. } => return None,
        };
        if len == 0 {
            return None;
        }
        let (first, last) = (self.blocks(offset), self.blocks(offset + (len - 1)));
        BlockRange::new(first, last - first + 1)
    }

    /// Tells the device server where the device was opened anew and may have lost writes, before it
    /// is given what was read since.
    pub fn note_reopening(&self) {
        let now = self.device.reopenings();
        if self.reopenings.load(Ordering::Acquire) != now {
            self.logical.note_loss();
            // Last: who finds it done relies on that.
            self.reopenings.store(now, Ordering::Release);
        }
    }

    /// Whether a write that was not asked to be `durable` has to be made so before it is answered:
    /// the write cache was switched off while it was under way, and nobody will flush for it.
    #[inline]
    pub fn is_late(&self, durable: bool) -> bool {
        !durable && !self.logical.write_cache_enabled()
    }

    /// Makes durable what was acknowledged from the write cache, before that is said to be off.
    /// Until the result is dropped nothing is acknowledged from it. May block.
    ///
    /// # Errors
    /// The device could not do it; the cache goes on.
    pub fn empty_cache(&self) -> Result<WriteThrough, BlockError> {
        let hold = self.logical.write_through();
        let device = Arc::clone(&self.device);
        let (reply, answer) = channel();
        // A thread of its own: a device that does not answer must not keep the administrator
        // waiting for ever. An answer that comes too late gives the hold back.
        let work = move || {
            let emptied = lane::ask(&*device, Request::Flush).map(|_| hold);
            drop(reply.send(emptied));
        };
        let thread = std::thread::Builder::new().name("emptying".into());
        thread
            .spawn(work)
            .map_err(|error| BlockError::writing(error, "starting a thread"))?;
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let context = format!("the device did not flush within {} s", PATIENCE.as_secs());
            Err(BlockError::new(BlockErrorKind::Write, context))
        })
    }

    /// Tells initiators what the device's administrator decided: that it takes no writes; and of a
    /// write cache, where that is when writes are durable. One that loses what was flushed has it
    /// switched on, whatever they asked for. May block.
    pub fn follow_device(&self) {
        let _following = self.one_after_another();
        self.logical
            .set_protected_beneath(self.device.is_read_only());
        let fixed = match self.device.durability() {
            None | Some(Durability::AsAsked) => None,
            Some(Durability::Always) => Some(false),
            Some(Durability::Never) => Some(true),
        };
        let is_off = self.logical.would_switch_write_cache_off(fixed);
        let emptied = match is_off.then(|| self.empty_cache()) {
            // It is asked again in a second.
            Some(Err(error)) => return self.note_error(&error, None),
            Some(Ok(hold)) => Some(hold),
            None => None,
        };
        self.logical.fix_write_cache(fixed);
        drop(emptied);
    }

    /// Lets the unit have the size that its device has; a smaller one where it `may_shrink`.
    pub fn follow_size(&self, may_shrink: bool) {
        let _following = self.one_after_another();
        let blocks = self.blocks(self.device.geometry().len);
        let before = self.logical.blocks();
        if blocks > before || may_shrink && blocks < before {
            tracing::info!(
                unit = self.name,
                before,
                blocks,
                "the device has another size, and the unit with it"
            );
            self.logical.resize(blocks);
        }
    }

    /// Orders callers: one that looked at the device earlier must not tell later.
    fn one_after_another(&self) -> MutexGuard<'_, ()> {
        self.following
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The first byte of a range and its length in bytes.
    #[inline]
    pub fn bytes(&self, range: BlockRange) -> (u64, u64) {
        (
            range.start.0 << self.block_shift,
            range.count.0 << self.block_shift,
        )
    }

    /// Returns the number of blocks that `bytes` fill.
    pub fn blocks(&self, bytes: u64) -> u64 {
        bytes >> self.block_shift
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;

    use scsi::alua::{GroupLayout, TargetPortGroups};

    use super::*;
    use crate::shape::unit_config;
    use block::memory::MemoryDevice;
    use block::{Geometry, Lane, Submitted, Ticket, Usage};
    use model::config::{BackendSpec, UnitSpec};

    const BLOCK: u64 = 512;

    /// A device of changing size: who asks for it while it is held knows it, and is answered later.
    #[derive(Debug)]
    struct Resized {
        inner: MemoryDevice,
        len: AtomicU64,
        /// Whether the next question is held, and how many were asked since.
        held: Mutex<(bool, u32)>,
        changed: Condvar,
    }

    impl Resized {
        fn hold(&self) {
            *self.held.lock().expect("whole") = (true, 0);
        }

        fn wait_for_the_question(&self) {
            let held = self.held.lock().expect("whole");
            drop(self.changed.wait_while(held, |held| held.1 == 0));
        }
    }

    impl BlockDevice for Resized {
        fn geometry(&self) -> Geometry {
            let len = self.len.load(Ordering::SeqCst);
            let mut held = self.held.lock().expect("whole");
            held.1 += 1;
            self.changed.notify_all();
            if std::mem::take(&mut held.0) {
                // Until another one asked, or had time to.
                let time = Duration::from_millis(500);
                let waited = self
                    .changed
                    .wait_timeout_while(held, time, |held| held.1 < 3);
                drop(waited);
            }
            Geometry {
                len,
                ..self.inner.geometry()
            }
        }

        fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
            self.inner.submit(request, ticket, lane)
        }

        fn usage(&self) -> Result<Usage, BlockError> {
            self.inner.usage()
        }
    }

    fn spec() -> UnitSpec {
        UnitSpec {
            name: "lu".into(),
            naa: "6e000000000000010000000000000001".into(),
            serial: "1".into(),
            backend: BackendSpec::Volume {
                volume: "tank/lu".into(),
            },
            block_size: BLOCK as u32,
            physical_block_size: BLOCK as u32,
            write_cache: false,
            read_only: false,
            thin: true,
            threshold_percent: None,
            offline: false,
        }
    }

    #[test]
    fn who_looked_at_the_size_earlier_does_not_tell_it_later() {
        let device = Arc::new(Resized {
            inner: MemoryDevice::new(64 * BLOCK, BLOCK as u32, 1 << 20).expect("memory"),
            len: AtomicU64::new(16 * BLOCK),
            held: Mutex::default(),
            changed: Condvar::new(),
        });
        let groups = TargetPortGroups::new(GroupLayout::default()).expect("a layout");
        let config = unit_config(&spec(), device.geometry()).expect("a unit");
        let unit = Unit::new(
            "lu".into(),
            LogicalUnit::new(config, Arc::new(groups)),
            device.clone(),
            Backing::default(),
            PathBuf::new(),
            Loops::new(),
        );
        device.len.store(32 * BLOCK, Ordering::SeqCst);
        device.hold();
        std::thread::scope(|threads| {
            threads.spawn(|| unit.follow_size(true));
            device.wait_for_the_question();
            device.len.store(64 * BLOCK, Ordering::SeqCst);
            unit.follow_size(true);
            // It may go on now.
            device.geometry();
        });
        assert_eq!(unit.logical.blocks(), 64);
    }
}

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
use super::space_shortage::Shortage;
use crate::state_file;
use crate::timing::tally::UnitTally;
use block::backing::Backing;
use block::{BlockDevice, BlockError, BlockErrorKind, Durability, Request, Usage, lane};
use model::figures::UnderWay;

/// Time that a device may take to empty its write cache.
const PATIENCE: Duration = Duration::from_secs(10);

/// A logical unit that is served. All event loops share it.
#[derive(Debug)]
pub struct Unit {
    /// The administrator's name for it.
    pub name: String,
    /// SCSI device server, which decides the meaning of commands.
    pub logical: Arc<LogicalUnit>,
    /// Block device that holds the data.
    pub device: Arc<dyn BlockDevice>,
    /// Task sets, which order commands.
    pub task_sets: Arc<TaskSets>,
    /// Range lock, which keeps atomic commands apart from writes.
    pub range_lock: RangeLock,
    /// Event loops that serve the unit.
    pub loops: Arc<Loops>,
    /// Files and disks of which the device is made.
    pub backing: Backing,
    /// File of the unit's persistent state (reservations, saved mode pages).
    pub state_file: PathBuf,
    /// Whether reads are answered with memory that the device keeps anyway.
    pub reads_in_place: bool,
    /// Whether the device makes use of read-ahead hints.
    pub foresees: bool,
    /// Times of the commands of all sessions.
    pub tally: Arc<UnitTally>,
    block_shift: u32,
    errors: AtomicU64,
    shortage: Shortage,
    /// Number of times that the device had been opened anew at the last look.
    reopenings: AtomicU64,
    /// Lock that is held while the device is asked and initiators are told.
    following: Mutex<()>,
}

impl Unit {
    /// Joins a device server and a device. `loops` wakes operations that must wait.
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
            reads_in_place: device.reads_in_place(),
            reopenings: AtomicU64::new(device.reopenings()),
            foresees: device.foresees(),
            tally: UnitTally::new(name.clone()),
            name,
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

    /// Stores the unit's persistent state after an administrator changed the part that a restart
    /// reads. If storing fails, the change holds all the same, because state stored under another
    /// configuration does not count. The call may block.
    pub fn store_state(&self) {
        if let Err(error) = self.try_to_store_state() {
            tracing::warn!(unit = self.name, %error, "the state of a changed unit could not be stored");
        }
    }

    /// Stores the state as [`Self::store_state`] does, for callers that report a failure to the
    /// administrator.
    ///
    /// # Errors
    /// The state could not be stored.
    pub fn try_to_store_state(&self) -> Result<(), BlockError> {
        let image = self.logical.image_to_save();
        state_file::save(&self.state_file, &image).map(drop)
    }

    /// Reports whether writes that need space fail, or would fail.
    pub fn is_short_of_space(&self, usage: &Usage) -> bool {
        let granule = self.device.geometry().discard.max(self.logical.block_len());
        let space = usage.pool.filter(|_| self.logical.is_thin());
        space.is_some_and(|space| {
            self.shortage
                .is_felt(self.written(), space.available, granule.into())
        })
    }

    /// Returns the number of writes that succeeded.
    fn written(&self) -> u64 {
        self.logical.statistics().totals().write_commands
    }

    /// Counts and logs a block request that failed, with the initiator that asked for it. `None`
    /// means the daemon.
    #[cold]
    pub fn note_error(&self, error: &BlockError, initiator: Option<&str>) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        if error.kind() == BlockErrorKind::NoSpace {
            self.shortage.note(self.written());
        }
        tracing::warn!(unit = self.name, initiator, %error, "block request failed");
    }

    /// Returns the number of block requests that failed.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Tells the device server of a request that changes blocks, before it is carried out.
    pub fn note_request(&self, request: &Request) {
        if let Some(changed) = self.changed_by(request) {
            self.logical.note_write(changed);
        }
    }

    /// Returns the blocks that a request changes, in whole or in part, or `None` if it changes
    /// none.
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

    /// Tells the device server if the device was reopened and may have lost writes. This comes
    /// before data that was read since the reopening reaches the device server.
    pub fn note_reopening(&self) {
        let now = self.device.reopenings();
        if self.reopenings.load(Ordering::Acquire) != now {
            self.logical.note_loss();
            // The count is stored last, because a caller that finds the new count relies on the
            // rest.
            self.reopenings.store(now, Ordering::Release);
        }
    }

    /// Reports whether a write must be made durable before it is answered, although it was not
    /// asked to be `durable`. The write cache was then switched off while the write was under way,
    /// and no client will flush it.
    #[inline]
    pub fn is_late(&self, durable: bool) -> bool {
        !durable && !self.logical.write_cache_enabled()
    }

    /// Makes writes durable that were acknowledged from the write cache, before the cache is
    /// reported off. Until the result is dropped, no write is acknowledged from the cache. The call
    /// may block.
    ///
    /// # Errors
    /// The device failed to flush. The cache stays on.
    pub fn empty_cache(&self) -> Result<WriteThrough, BlockError> {
        let hold = self.logical.write_through();
        let device = Arc::clone(&self.device);
        let (reply, answer) = channel();
        // The flush has a thread of its own, because a dead device must not keep the administrator
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

    /// Reports to initiators the decisions of the device's administrator: whether the device takes
    /// writes, and whether it has a write cache. The second is reported if the administrator
    /// decides when writes are durable. A device that loses flushed data has its cache reported on,
    /// whatever initiators asked for. The call may block.
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
            // The device is asked again in a second.
            Some(Err(error)) => return self.note_error(&error, None),
            Some(Ok(hold)) => Some(hold),
            None => None,
        };
        self.logical.fix_write_cache(fixed);
        drop(emptied);
    }

    /// Sets the unit's size to that of its device. The unit only shrinks if it `may_shrink`.
    pub fn follow_size(&self, may_shrink: bool) {
        let _following = self.one_after_another();
        let blocks = self.blocks(self.device.geometry().len);
        let before = self.logical.blocks();
        if blocks > before || may_shrink && blocks < before {
            tracing::info!(
                unit = self.name,
                before,
                blocks,
                "the size of the device has changed, and the unit's size with it"
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

    /// Returns the commands of all nexuses that are under way now.
    pub fn under_way(&self) -> UnderWay {
        let (active, queued) = self.task_sets.under_way();
        UnderWay {
            active: active + self.tally.operations(),
            queued,
        }
    }

    /// Returns the first byte of a range, and its length in bytes.
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
    use model::backend::Capabilities;
    use model::config::{BackendSpec, UnitSpec};

    const BLOCK: u64 = 512;

    /// A device of changing size. While it is held, a caller that asks for its size gets the old
    /// answer, but later.
    #[derive(Debug)]
    struct Resized {
        inner: MemoryDevice,
        len: AtomicU64,
        /// Whether the next question is held, and the number of questions since.
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
                // The answer waits until another caller has asked, or had time to ask.
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
        let config =
            unit_config(&spec(), Capabilities::default(), device.geometry()).expect("a unit");
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
            // The first caller may continue now.
            device.geometry();
        });
        assert_eq!(unit.logical.blocks(), 64);
    }
}

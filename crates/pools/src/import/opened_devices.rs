//! Devices of an open pool. The engine's requests to a leaf go to its device, and the answers
//! return in the engine's terms.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pages::Pages;
use slab::Slab;
use smallvec::{SmallVec, smallvec};
use store::engine::{Event, Pool};
use store::vdev::{
    DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, DeviceRequest, IoId, LeafId,
};

use crate::direct::Direct;
use crate::import::overlay::Overlay;
use block::lane::{Outcome, Waker};
use block::{
    BlockDevice, BlockError, BlockErrorKind, Done, Geometry, Lane, Request, Submitted, Ticket,
};

/// Devices of a pool's leaves, and the lane of their requests.
#[derive(Debug)]
pub(crate) struct Devices {
    lane: Lane,
    /// Part of the pool that lanes read beside the engine. It has the devices of the leaves too.
    direct: Arc<Direct>,
    leaves: HashMap<LeafId, Arc<dyn BlockDevice>>,
    /// Devices of ready spares, by guid.
    spares: HashMap<u64, Arc<dyn BlockDevice>>,
    flights: Slab<Flight>,
    /// Reads that were not started yet. Adjacent reads become one.
    reads: Vec<Reading>,
    /// Bytes of reads that are under way.
    reading: u64,
    /// Answers that came at once.
    ready: Vec<(IoId, DeviceOutcome)>,
    /// Answers taken from the lane. The buffer is kept between turns, to save its allocation.
    taken: Vec<(u64, Outcome)>,
    /// Writes that are kept in memory, if nothing is to be written to the devices.
    overlay: Option<Overlay>,
}

/// Request that a device works on.
#[derive(Debug)]
enum Flight {
    Read(Reading),
    Change(IoId, Op),
}

/// Adjacent reads of one leaf.
#[derive(Debug)]
struct Reading {
    leaf: LeafId,
    /// First byte of the range.
    offset: u64,
    len: u32,
    /// Request and bytes of each part.
    parts: SmallVec<[(IoId, u32); 1]>,
}

/// Most bytes that one read takes.
const MAX_READ: u32 = 1 << 20;
/// Bytes of reads under way with which a leaf has enough work.
const ENOUGH: u64 = 2 << 20;

#[derive(Clone, Copy, Debug)]
enum Op {
    Read,
    Write,
    Flush,
    Trim,
}

impl Devices {
    /// Returns an empty set of devices.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub(crate) fn new(io_uring: bool) -> io::Result<Self> {
        Ok(Self {
            lane: Lane::standing_with(io_uring)?,
            direct: Arc::default(),
            leaves: HashMap::new(),
            spares: HashMap::new(),
            flights: Slab::new(),
            reads: Vec::new(),
            reading: 0,
            ready: Vec::new(),
            taken: Vec::new(),
            overlay: None,
        })
    }

    /// Keeps later writes in memory, and reads them from there. Nothing more goes to the devices.
    pub(crate) fn write_nothing(&mut self) {
        self.overlay.get_or_insert_default();
    }

    /// Returns the part of the pool that lanes read beside the engine.
    pub(crate) fn direct(&self) -> &Arc<Direct> {
        &self.direct
    }

    /// Lets lanes read beside the engine, unless the newest bytes are only in memory.
    pub(crate) fn serve_directly(&self, pool: &Pool) {
        if self.overlay.is_none() {
            self.direct.serve(pool);
        }
    }

    /// Gives a leaf its device.
    pub(crate) fn attach(&mut self, leaf: LeafId, device: Arc<dyn BlockDevice>) {
        self.direct.attach(leaf, &device);
        self.leaves.insert(leaf, device);
    }

    /// Takes a leaf's device out of use. Requests under way are still answered.
    pub(crate) fn detach(&mut self, leaf: LeafId) -> Option<Arc<dyn BlockDevice>> {
        self.direct.detach(leaf);
        self.leaves.remove(&leaf)
    }

    /// Gives a spare that stands in its device. The device may be that of the leaf that the spare
    /// was until now.
    pub(crate) fn heed(&mut self, event: &Event, pool: &Pool) {
        let Event::SpareInUse { leaf, guid } = event else {
            return;
        };
        if pool.leaf(*guid) != Some(*leaf) {
            return;
        }
        let mut leaves = self.leaves.keys().copied();
        let before = leaves.find(|of| of != leaf && pool.guid(*of) == Some(*guid));
        let left = before.and_then(|before| self.detach(before));
        if let Some(device) = self.spares.remove(guid).or(left) {
            self.attach(*leaf, device);
        }
    }

    /// Takes the devices from all leaves and spares.
    pub(crate) fn let_go(&mut self) {
        self.direct.let_go();
        self.leaves.clear();
        self.spares.clear();
    }

    /// Takes the devices of leaves that are no longer used, and returns them.
    pub(crate) fn unused(&mut self, pool: &Pool) -> Vec<(LeafId, Arc<dyn BlockDevice>)> {
        let is_unused = |leaf: &LeafId| !pool.uses(*leaf);
        let unused: Vec<_> = self.leaves.extract_if(|leaf, _| is_unused(leaf)).collect();
        unused
            .iter()
            .for_each(|(leaf, _)| self.direct.detach(*leaf));
        unused
    }

    /// Takes the devices of former spares, and returns them.
    pub(crate) fn no_spares(&mut self, pool: &Pool) -> Vec<(u64, Arc<dyn BlockDevice>)> {
        let is_spare = |guid: &u64| pool.config().spares.iter().any(|spare| spare.guid == *guid);
        self.spares.extract_if(|guid, _| !is_spare(guid)).collect()
    }

    /// Returns all devices of leaves and spares with their guids. `guid` returns the guid of a
    /// leaf.
    pub(crate) fn all(
        &self,
        guid: impl Fn(LeafId) -> Option<u64>,
    ) -> Vec<(u64, Arc<dyn BlockDevice>)> {
        let leaves = self.leaves.iter();
        let leaves = leaves.filter_map(|(leaf, device)| Some((guid(*leaf)?, device)));
        let spares = self.spares.iter().map(|(guid, device)| (*guid, device));
        let all = leaves.chain(spares);
        all.map(|(guid, device)| (guid, Arc::clone(device)))
            .collect()
    }

    /// Returns the device of a leaf.
    pub(crate) fn of(&self, leaf: LeafId) -> Option<&Arc<dyn BlockDevice>> {
        self.leaves.get(&leaf)
    }

    /// Keeps the device of a spare.
    pub(crate) fn keep_spare(&mut self, guid: u64, device: Arc<dyn BlockDevice>) {
        self.spares.insert(guid, device);
    }

    /// Takes the device of a spare that is used from now on, or no longer kept.
    pub(crate) fn take_spare(&mut self, guid: u64) -> Option<Arc<dyn BlockDevice>> {
        self.spares.remove(&guid)
    }

    /// Tells the pool which spares have no device. These spares are not to be called.
    pub(crate) fn tell_away_spares(&self, pool: &mut Pool) {
        let is_away = |guid: &u64| {
            let mut leaves = self.leaves.keys();
            let is_kept = self.spares.contains_key(guid);
            pool.leaf(*guid).is_none()
                && !is_kept
                && !leaves.any(|of| pool.guid(*of) == Some(*guid))
        };
        let spares = pool.config().spares.iter().map(|spare| spare.guid);
        let away = spares.filter(is_away).collect();
        pool.set_away_spares(away);
    }

    /// Returns the guids of the ready spares that have a device.
    pub(crate) fn ready_spares(&self) -> Vec<u64> {
        self.spares.keys().copied().collect()
    }

    /// Returns a waker that wakes [`Devices::wait`] from any thread.
    pub(crate) fn waker(&self) -> Waker {
        self.lane.waker()
    }

    /// Reports whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        let is_engine_idle = self.flights.is_empty() && self.ready.is_empty();
        is_engine_idle && self.reads.is_empty() && self.direct.is_idle()
    }

    /// Queues a request for the next [`Devices::start_batch`]. Exactly one answer follows.
    pub(crate) fn submit(&mut self, request: DeviceRequest) {
        let io = request.io;
        let request = match &mut self.overlay {
            Some(overlay) => match overlay.take(request) {
                Ok(request) => request,
                Err(outcome) => return self.ready.push((io, outcome)),
            },
            None => request,
        };
        let DeviceRequest { io, leaf, op } = request;
        let Some(device) = self.leaves.get(&leaf) else {
            let error = DeviceError::new(DeviceErrorKind::Gone, "the device was not found");
            return self.ready.push((io, Err(error)));
        };
        let (op, request) = match op {
            DeviceOp::Read { offset, len } => {
                return self.gather(Reading {
                    leaf,
                    offset,
                    len,
                    parts: smallvec![(io, len)],
                });
            }
            DeviceOp::Write {
                offset,
                data,
                durable,
            } => {
                let request = Request::Write {
                    offset,
                    data,
                    durable,
                };
                (Op::Write, request)
            }
            DeviceOp::Flush => (Op::Flush, Request::Flush),
            DeviceOp::Trim { .. } if device.geometry().discard == 0 => {
                let error = DeviceError::new(DeviceErrorKind::Unsupported, "it does not trim");
                return self.ready.push((io, Err(error)));
            }
            DeviceOp::Trim { offset, len } => {
                let Some((offset, len)) = freed_by(&device.geometry(), offset, len) else {
                    return self.ready.push((io, Ok(Pages::new())));
                };
                (Op::Trim, Request::Discard { offset, len })
            }
        };
        let token = self.flights.insert(Flight::Change(io, op));
        let ticket = Ticket::new(token as u64);
        if let Submitted::Ready(outcome) = device.submit(request, ticket, &mut self.lane) {
            self.flights.remove(token);
            self.ready.push((io, op.judge(outcome)));
        }
    }

    /// Reports whether the devices have little to read at present.
    pub(crate) fn have_little_to_read(&self) -> bool {
        let gathered: u64 = self.reads.iter().map(|read| u64::from(read.len)).sum();
        self.reading + gathered < ENOUGH * self.leaves.len() as u64
    }

    /// Keeps a read until the batch starts, and joins it to a read that it follows.
    fn gather(&mut self, read: Reading) {
        let last = self.reads.iter_mut().rev().find(|of| of.leaf == read.leaf);
        if let Some(last) = last
            && last.offset + u64::from(last.len) == read.offset
            && last.len + read.len <= MAX_READ
        {
            last.len += read.len;
            last.parts.extend(read.parts);
        } else {
            self.reads.push(read);
        }
    }

    fn start_read(&mut self, read: Reading) {
        let Some(device) = self.leaves.get(&read.leaf) else {
            let error = BlockError::new(BlockErrorKind::Gone, "the device was not found");
            return self.read_ended(read, Err(error));
        };
        let (offset, len) = (read.offset, read.len);
        self.reading += u64::from(len);
        let token = self.flights.insert(Flight::Read(read));
        let (request, ticket) = (Request::Read { offset, len }, Ticket::new(token as u64));
        if let Submitted::Ready(outcome) = device.submit(request, ticket, &mut self.lane)
            && let Flight::Read(read) = self.flights.remove(token)
        {
            self.reading -= u64::from(len);
            self.read_ended(read, outcome);
        }
    }

    /// Hands the queued requests to the kernel.
    pub(crate) fn start_batch(&mut self) {
        let mut reads = std::mem::take(&mut self.reads);
        reads.drain(..).for_each(|read| self.start_read(read));
        // Reads that are repeated in parts have arrived meanwhile.
        reads.append(&mut self.reads);
        self.reads = reads;
        self.lane.submit_batch();
    }

    /// Gives each part its bytes. If several parts failed together, each is read again on its own:
    /// one bad sector says nothing about its neighbours.
    fn read_ended(&mut self, read: Reading, outcome: Outcome) {
        let outcome = Op::Read.judge(outcome).and_then(|data| {
            let error = DeviceError::new(
                DeviceErrorKind::Medium,
                "the device returned fewer bytes than were requested",
            );
            (data.len() == read.len as usize)
                .then_some(data)
                .ok_or(error)
        });
        match outcome {
            Err(_) if read.parts.len() > 1 => {
                let mut offset = read.offset;
                for (io, len) in read.parts {
                    self.start_read(Reading {
                        leaf: read.leaf,
                        offset,
                        len,
                        parts: smallvec![(io, len)],
                    });
                    offset += u64::from(len);
                }
            }
            Err(error) => {
                let parts = read.parts.into_iter();
                self.ready
                    .extend(parts.map(|(io, _)| (io, Err(error.clone()))));
            }
            Ok(data) => {
                let mut at = 0;
                for (io, len) in read.parts {
                    let end = at + len as usize;
                    self.ready.push((io, Ok(data.slice(at..end))));
                    at = end;
                }
            }
        }
    }

    /// Appends the answers.
    pub(crate) fn take(&mut self, answers: &mut Vec<(IoId, DeviceOutcome)>) {
        let mut taken = std::mem::take(&mut self.taken);
        self.lane.take_completions(&mut taken);
        for (token, outcome) in taken.drain(..) {
            match self.flights.try_remove(token as usize) {
                Some(Flight::Read(read)) => {
                    self.reading -= u64::from(read.len);
                    self.read_ended(read, outcome);
                }
                Some(Flight::Change(io, op)) => self.ready.push((io, op.judge(outcome))),
                None => {}
            }
        }
        self.taken = taken;
        if let Some(overlay) = &mut self.overlay {
            for (io, outcome) in self.ready.drain(..) {
                answers.push((io, overlay.overlaid(io, outcome)));
            }
        }
        answers.append(&mut self.ready);
    }

    /// Waits until no device has work, for `within` at most: a device that hangs is not waited for.
    pub(crate) fn come_to_rest(&mut self, within: Duration) {
        let until = Instant::now() + within;
        let mut answers = Vec::new();
        loop {
            self.take(&mut answers);
            answers.clear();
            let is_over = self.flights.is_empty() || Instant::now() >= until;
            if is_over || self.wait(Some(until)).is_err() {
                return;
            }
        }
    }

    /// Sleeps until an answer comes, the waker is called, or `until` is reached.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        if self.ready.is_empty() {
            self.lane.wait(until)
        } else {
            Ok(())
        }
    }
}

impl Drop for Devices {
    /// Lets others use the devices.
    fn drop(&mut self) {
        self.direct.stop();
        self.direct.let_go();
    }
}

/// Returns the part of a range that a device frees in whole units. The rest would be overwritten
/// with zeros instead, to no use.
fn freed_by(geometry: &Geometry, offset: u64, len: u64) -> Option<(u64, u64)> {
    let size = u64::from(geometry.discard.max(geometry.granularity));
    let first = u64::from(geometry.discard_alignment) % size;
    // The units begin at `first`, and at each multiple of `size` before and after it.
    let start = (offset + size - first).next_multiple_of(size) - size + first;
    let end = offset + len;
    let end = end.checked_sub(first)? / size * size + first;
    (start < end).then(|| (start, end - start))
}

impl Op {
    /// Translates a device's answer into the engine's terms.
    fn judge(self, outcome: Outcome) -> DeviceOutcome {
        match (self, outcome) {
            (Self::Read, Ok(Done::Pages(data))) => Ok(data),
            (_, Ok(_)) => Ok(Pages::new()),
            (op, Err(error)) => Err(op.failed(&error)),
        }
    }

    fn failed(self, error: &BlockError) -> DeviceError {
        let kind = match (error.kind(), self) {
            // A loss during a flush may concern any place on the device.
            (BlockErrorKind::Write | BlockErrorKind::Medium, Self::Flush) => {
                DeviceErrorKind::Failed
            }
            (BlockErrorKind::Write | BlockErrorKind::Medium, _) => DeviceErrorKind::Medium,
            (BlockErrorKind::NoSpace, _) => DeviceErrorKind::NoSpace,
            (BlockErrorKind::Reserved, _) => DeviceErrorKind::Reserved,
            (BlockErrorKind::Gone | BlockErrorKind::Away, _) => DeviceErrorKind::Gone,
            (BlockErrorKind::ReadOnly | BlockErrorKind::Invalid, Self::Trim) => {
                DeviceErrorKind::Unsupported
            }
            (BlockErrorKind::OutOfRange, Self::Trim) => DeviceErrorKind::Unsupported,
            (
                BlockErrorKind::ReadOnly | BlockErrorKind::Invalid | BlockErrorKind::OutOfRange,
                _,
            ) => DeviceErrorKind::Failed,
        };
        let context = match kind {
            // For these kinds the engine's words already say so.
            DeviceErrorKind::NoSpace | DeviceErrorKind::Gone | DeviceErrorKind::Reserved => {
                error.doing()
            }
            _ => error.to_string(),
        };
        DeviceError::new(kind, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_kind() {
        let failed = |op: Op, kind| op.failed(&BlockError::new(kind, "x")).kind;
        let read = Op::Read;
        assert_eq!(
            failed(read, BlockErrorKind::Medium),
            DeviceErrorKind::Medium
        );
        assert_eq!(
            failed(Op::Write, BlockErrorKind::Write),
            DeviceErrorKind::Medium
        );
        assert_eq!(
            failed(Op::Flush, BlockErrorKind::Write),
            DeviceErrorKind::Failed
        );
        assert_eq!(
            failed(Op::Write, BlockErrorKind::NoSpace),
            DeviceErrorKind::NoSpace
        );
        assert_eq!(failed(read, BlockErrorKind::Gone), DeviceErrorKind::Gone);
        assert_eq!(
            failed(Op::Write, BlockErrorKind::ReadOnly),
            DeviceErrorKind::Failed
        );
        assert_eq!(
            failed(Op::Trim, BlockErrorKind::Invalid),
            DeviceErrorKind::Unsupported
        );
    }

    #[test]
    fn a_failure_is_told_once() {
        let told = |kind| {
            let error = BlockError::new(kind, "writing 4096 bytes to /a").at(512);
            Op::Write.failed(&error).to_string()
        };
        let expected = "device has no room there: it has shrunk, or what it lies on is full: writing \
                        4096 bytes to /a at byte 512";
        assert_eq!(told(BlockErrorKind::NoSpace), expected);
        let expected = "device is gone: writing 4096 bytes to /a at byte 512";
        assert_eq!(told(BlockErrorKind::Gone), expected);
        // Facts that the engine's words omit are told.
        let expected = "device failed: device is read-only: writing 4096 bytes to /a at byte 512";
        assert_eq!(told(BlockErrorKind::ReadOnly), expected);
    }

    #[test]
    fn only_what_a_device_frees_as_a_whole_is_trimmed() {
        let geometry = |discard, discard_alignment| Geometry {
            discard,
            discard_alignment,
            ..block::memory::MemoryDevice::new(1 << 30, 512, 1 << 20)
                .expect("a device")
                .geometry()
        };
        let (fine, coarse, askew) = (geometry(512, 0), geometry(16384, 0), geometry(16384, 4096));
        assert_eq!(freed_by(&fine, 4096, 8192), Some((4096, 8192)));
        assert_eq!(freed_by(&coarse, 16384, 32768), Some((16384, 32768)));
        assert_eq!(freed_by(&coarse, 4096, 32768), Some((16384, 16384)));
        assert_eq!(freed_by(&coarse, 4096, 24576), None);
        assert_eq!(freed_by(&askew, 4096, 16384), Some((4096, 16384)));
        assert_eq!(freed_by(&askew, 0, 36864), Some((4096, 32768)));
        assert_eq!(freed_by(&askew, 8192, 12288), None);
    }

    #[test]
    fn a_short_read_is_no_read() {
        let mut devices = Devices::new(false).expect("a lane");
        let mut answer = |len| {
            let read = Reading {
                leaf: LeafId(0),
                offset: 0,
                len: 8192,
                parts: smallvec![(IoId(1), 8192)],
            };
            devices.read_ended(read, Ok(Done::Pages(Pages::zeroes(len))));
            devices.ready.pop().expect("an answer").1
        };
        assert_eq!(
            answer(4096).expect_err("short").kind,
            DeviceErrorKind::Medium
        );
        assert_eq!(answer(8192).map(|data| data.len()), Ok(8192));
    }

    /// Device of 16 sectors, each filled with its own number; sector 5 cannot be read. It counts
    /// the requests.
    #[derive(Debug, Default)]
    struct Sectors(std::sync::atomic::AtomicU32);

    impl BlockDevice for Sectors {
        fn geometry(&self) -> block::Geometry {
            unreachable!("nobody asks")
        }

        fn usage(&self) -> Result<block::Usage, BlockError> {
            unreachable!("nobody asks")
        }

        fn submit(&self, request: Request, _: Ticket, _: &mut Lane) -> Submitted {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Request::Read { offset, len } = request else {
                unreachable!("only reads are asked for");
            };
            let sectors = offset / 4096..(offset + u64::from(len)) / 4096;
            Submitted::Ready(if sectors.contains(&5) {
                Err(BlockError::new(BlockErrorKind::Medium, "sector 5"))
            } else {
                let bytes: Vec<u8> = sectors.flat_map(|at| [at as u8; 4096]).collect();
                Ok(Done::Pages(Pages::from_bytes(&bytes)))
            })
        }
    }

    #[test]
    fn reads_behind_one_another_are_one_and_a_bad_sector_spoils_only_its_own() {
        let sectors = Arc::new(Sectors::default());
        let mut devices = Devices::new(false).expect("a lane");
        let device: Arc<dyn BlockDevice> = Arc::<Sectors>::clone(&sectors);
        devices.attach(LeafId(0), device);
        let mut read = |first: u64, count: u64| {
            sectors.0.store(0, std::sync::atomic::Ordering::Relaxed);
            for sector in first..first + count {
                devices.submit(DeviceRequest {
                    io: IoId(sector),
                    leaf: LeafId(0),
                    op: DeviceOp::Read {
                        offset: sector * 4096,
                        len: 4096,
                    },
                });
            }
            assert!(!devices.is_idle());
            devices.start_batch();
            let mut answers = Vec::new();
            devices.take(&mut answers);
            assert!(devices.is_idle());
            let asked = sectors.0.load(std::sync::atomic::Ordering::Relaxed);
            let outcomes: Vec<_> = answers
                .into_iter()
                .map(|(io, outcome)| (io.0, outcome.map(|data| data.to_vec()[0]).ok()))
                .collect();
            (asked, outcomes)
        };
        assert_eq!(
            read(1, 3),
            (1, vec![(1, Some(1)), (2, Some(2)), (3, Some(3))])
        );
        assert_eq!(read(4, 3), (4, vec![(4, Some(4)), (5, None), (6, Some(6))]));
    }

    #[test]
    fn they_have_little_to_read_until_enough_is_under_way() {
        const READ: u32 = 256 << 10;
        let folder = tempfile::tempdir().expect("a folder");
        let options = block::file::FileOptions {
            block_size: 4096,
            preallocate: false,
            direct: false,
        };
        let path = folder.path().join("device");
        block::file::FileDevice::create(&path, 8 << 20, options).expect("a file");
        let device = block::file::FileDevice::open(&path, options);
        let mut devices = Devices::new(false).expect("a lane");
        devices.attach(LeafId(0), Arc::new(device.expect("a file")));
        let mut count = 0;
        while devices.have_little_to_read() {
            devices.submit(DeviceRequest {
                io: IoId(count),
                leaf: LeafId(0),
                op: DeviceOp::Read {
                    offset: count * u64::from(READ),
                    len: READ,
                },
            });
            count += 1;
        }
        assert_eq!(count, ENOUGH / u64::from(READ));
        devices.start_batch();
        let mut answers = Vec::new();
        while answers.is_empty() {
            assert!(!devices.have_little_to_read());
            devices.wait(None).expect("the lane waits");
            devices.take(&mut answers);
        }
        assert!(devices.have_little_to_read());
    }

    /// Device that notes for each write whether it is to be durable.
    #[derive(Debug, Default)]
    struct Noting(std::sync::Mutex<Vec<bool>>);

    impl BlockDevice for Noting {
        fn geometry(&self) -> block::Geometry {
            unreachable!("nobody asks")
        }

        fn usage(&self) -> Result<block::Usage, BlockError> {
            unreachable!("nobody asks")
        }

        fn submit(&self, request: Request, _: Ticket, _: &mut Lane) -> Submitted {
            let Request::Write { durable, .. } = request else {
                unreachable!("only writes are asked for");
            };
            self.0.lock().expect("nobody panicked").push(durable);
            Submitted::Ready(Ok(Done::Nothing))
        }
    }

    #[test]
    fn a_device_is_told_which_writes_are_to_be_durable() {
        let noting = Arc::new(Noting::default());
        let mut devices = Devices::new(false).expect("a lane");
        let device: Arc<dyn BlockDevice> = Arc::<Noting>::clone(&noting);
        devices.attach(LeafId(0), device);
        for (number, durable) in [true, false, true].into_iter().enumerate() {
            devices.submit(DeviceRequest {
                io: IoId(number as u64),
                leaf: LeafId(0),
                op: DeviceOp::Write {
                    offset: 0,
                    data: Pages::zeroes(4096),
                    durable,
                },
            });
        }
        assert_eq!(
            *noting.0.lock().expect("nobody panicked"),
            [true, false, true]
        );
    }

    #[test]
    fn a_leaf_without_a_device_is_gone() {
        let mut devices = Devices::new(false).expect("a lane");
        devices.submit(DeviceRequest {
            io: IoId(7),
            leaf: LeafId(0),
            op: DeviceOp::Flush,
        });
        let mut answers = Vec::new();
        devices.take(&mut answers);
        assert!(
            matches!(&answers[..], [(IoId(7), Err(error))] if error.kind == DeviceErrorKind::Gone)
        );
        assert!(devices.is_idle());
    }
}

//! Block I/O on an open descriptor: the common part of files and block device nodes.
//!
//! Reads and writes go through the lane's io_uring. Without io_uring they go to threads that may
//! block; all other requests block in the kernel anyway and always go to these threads. In both
//! cases [`Transfer`] decides when a request is done and what its failure means.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, seek};
use rustix::io::Errno;

use super::blocking_threads::Share;
use super::flush::{Flushes, Waiter};
use super::lane::{Outcome, Remote};
use super::transfer::{Bytes, Progress, Transfer};
use super::{
    BlockError, BlockErrorKind, Done, Geometry, Lane, Pages, PagesMut, Request, Submitted, Ticket,
};
use pages::PAGE_SIZE;

/// Most runs that one [`Request::Extents`] returns.
const MAX_EXTENTS: usize = 1024;
/// Zeros written by one call if the kernel cannot zero a range itself.
const ZEROES_AT_ONCE: u64 = 1 << 20;

/// Demands of direct I/O (O_DIRECT), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectIo {
    /// Alignment of memory addresses.
    pub(super) memory: usize,
    /// Alignment of offsets and lengths.
    pub(super) offset: usize,
}

/// An open file or device node.
pub(super) struct KernelFile {
    file: File,
    name: String,
    /// Geometry of the device, in which all but `len` is fixed.
    geometry: Geometry,
    len: AtomicU64,
    /// Demands of direct I/O; `None` if the kernel's page cache lies between.
    direct: Option<DirectIo>,
    /// Whether the file can report holes (SEEK_HOLE).
    holes: bool,
    /// Whether the kernel supports RWF_DSYNC here.
    dsync: AtomicBool,
    flushes: Flushes,
    /// Threads for calls that block in the kernel.
    threads: Share,
}

/// Work that remains of a transfer after its last byte.
enum Settled {
    /// Nothing remains.
    Outcome(Ticket, Outcome),
    /// A flush must still make the transfer durable.
    Flush(Ticket),
}

impl KernelFile {
    pub(super) fn new(
        file: File,
        name: String,
        geometry: Geometry,
        direct: Option<DirectIo>,
        holes: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            file,
            name,
            len: AtomicU64::new(geometry.len),
            geometry,
            direct,
            holes,
            dsync: AtomicBool::new(true),
            flushes: Flushes::default(),
            threads: Share::default(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Implements [`super::BlockDevice::lost_writes`].
    pub(super) fn lost_writes(&self) -> Option<String> {
        self.flushes.failure()
    }

    /// Implements [`super::BlockDevice::acknowledge_lost_writes`].
    pub(super) fn acknowledge_lost_writes(&self) -> bool {
        self.flushes.acknowledge_failure()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn geometry(&self) -> Geometry {
        Geometry {
            len: self.len.load(Ordering::Relaxed),
            ..self.geometry
        }
    }

    /// Adopts a new size of the storage beneath, cut to whole blocks.
    pub(super) fn set_len(&self, len: u64) -> Geometry {
        self.len.store(
            len - len % u64::from(self.geometry.granularity),
            Ordering::Relaxed,
        );
        self.geometry()
    }

    /// Returns the alignment of offsets inside a transfer that the kernel accepts.
    pub(super) fn alignment(&self) -> usize {
        self.direct.map_or(1, |direct| direct.offset)
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Implements [`super::BlockDevice::submit`].
    pub(super) fn submit(
        self: &Arc<Self>,
        request: Request,
        ticket: Ticket,
        lane: &mut Lane,
    ) -> Submitted {
        if let Err(error) = self.geometry().check(&request) {
            return Submitted::Ready(Err(error));
        }
        match request {
            Request::Read { offset, len } => {
                let (len, skew) = (len as usize, self.skew(offset));
                let bytes = match self.is_direct() {
                    true => PagesMut::allocate_for_device(len, skew),
                    false => PagesMut::allocate_at(len, skew),
                };
                self.start(offset, Bytes::Read(bytes), ticket, lane)
            }
            Request::Write {
                offset,
                data,
                durable,
            } => {
                let data = self.placed(offset, data);
                self.start(
                    offset,
                    Bytes::Write {
                        data,
                        durable,
                        dsync: false,
                    },
                    ticket,
                    lane,
                )
            }
            Request::Flush => {
                lane.count_pending();
                let waiter = Waiter {
                    lane: lane.remote(),
                    ticket,
                };
                if self.flushes.join(waiter) {
                    self.begin_flushes();
                }
                Submitted::Pending
            }
            Request::Discard { offset, len } => {
                let file = Arc::clone(self);
                lane.run_blocking_in(&self.threads, ticket, move || file.discard(offset, len))
            }
            Request::WriteZeroes {
                offset,
                len,
                unmap,
                durable,
            } => self.start_zeroing(offset, len, unmap, durable, ticket, lane),
            Request::Extents { offset, len } => {
                let file = Arc::clone(self);
                lane.run_blocking_in(&self.threads, ticket, move || file.extents(offset, len))
            }
        }
    }

    /// Returns the place in a page at which a buffer starts, so that its pages are the device's
    /// pages.
    fn skew(&self, offset: u64) -> usize {
        let skew = (offset % PAGE_SIZE as u64) as usize;
        match self.direct {
            Some(direct) if !skew.is_multiple_of(direct.memory) => 0,
            _ => skew,
        }
    }

    /// Returns the data at an address that suits direct I/O: in place, or copied.
    fn placed(&self, offset: u64, data: Pages) -> Pages {
        let Some(direct) = self.direct else {
            return data;
        };
        let fits = |chunk: &[u8]| {
            chunk.as_ptr().addr().is_multiple_of(direct.memory)
                && chunk.len().is_multiple_of(direct.offset)
        };
        if data.chunks().all(fits) {
            return data;
        }
        let mut copy = PagesMut::allocate_at(data.len(), self.skew(offset));
        let mut at = 0;
        for chunk in data.chunks() {
            copy.copy_from(at, chunk);
            at += chunk.len();
        }
        copy.freeze()
    }

    fn start(
        self: &Arc<Self>,
        offset: u64,
        mut bytes: Bytes,
        ticket: Ticket,
        lane: &mut Lane,
    ) -> Submitted {
        if let Bytes::Write {
            durable: true,
            dsync,
            ..
        } = &mut bytes
        {
            // Through the page cache, each fdatasync outside `flushes` could take away the error
            // that belongs to another request.
            *dsync = self.is_direct() && self.dsync.load(Ordering::Relaxed);
        }
        lane.count_pending();
        lane.start(Transfer {
            file: Arc::clone(self),
            ticket,
            offset,
            bytes,
            done: 0,
        });
        Submitted::Pending
    }

    fn start_zeroing(
        self: &Arc<Self>,
        offset: u64,
        len: u64,
        unmap: bool,
        durable: bool,
        ticket: Ticket,
        lane: &mut Lane,
    ) -> Submitted {
        let file = Arc::clone(self);
        let zero = move || {
            if unmap {
                file.discard(offset, len)
            } else {
                file.zero(offset, len)
            }
        };
        if !durable {
            return lane.run_blocking_in(&self.threads, ticket, zero);
        }
        lane.count_pending();
        let (file, remote) = (Arc::clone(self), lane.remote());
        self.threads.run(Box::new(move || match zero() {
            Ok(_) => {
                if file.flushes.join(Waiter {
                    lane: remote,
                    ticket,
                }) {
                    file.run_flushes();
                }
            }
            failed => remote.complete(ticket, failed),
        }));
        Submitted::Pending
    }

    fn begin_flushes(self: &Arc<Self>) {
        let file = Arc::clone(self);
        self.threads.run(Box::new(move || file.run_flushes()));
    }

    fn run_flushes(&self) {
        self.flushes.run(&self.name, || {
            fdatasync(&self.file).map_err(io::Error::from)
        });
    }

    fn discard(&self, offset: u64, len: u64) -> Outcome {
        if self.geometry.discard == 0 {
            // Reserved space stays reserved.
            return self.zero(offset, len);
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, punch, offset, len) {
            Ok(()) => Ok(Done::Nothing),
            Err(Errno::OPNOTSUPP) => self.zero(offset, len),
            Err(errno) => Err(self.write_error(errno.into(), "discarding", offset)),
        }
    }

    fn zero(&self, offset: u64, len: u64) -> Outcome {
        let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        let zeroed = match fallocate(&self.file, zero, offset, len) {
            Err(Errno::OPNOTSUPP) => self.write_zeroes(offset, len),
            other => other.map_err(io::Error::from),
        };
        match zeroed {
            Ok(()) => Ok(Done::Nothing),
            Err(error) => Err(self.write_error(error, "zeroing", offset)),
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        // The zeros lie in a page that is never written, at an address that suits direct I/O.
        let zeroes = PagesMut::allocate(len.min(ZEROES_AT_ONCE) as usize).freeze();
        let mut at = 0;
        while at < len {
            for chunk in zeroes.chunks() {
                let count = (chunk.len() as u64).min(len - at) as usize;
                self.file.write_all_at(&chunk[..count], offset + at)?;
                at += count as u64;
            }
        }
        Ok(())
    }

    fn extents(&self, offset: u64, len: u64) -> Outcome {
        let end = offset + len;
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut at = offset;
        while at < end && runs.len() < MAX_EXTENTS {
            let data = self.next(SeekFrom::Data(at), end, at)?;
            // A block that holds data in part counts as data.
            let data = data - data % u64::from(self.geometry.granularity);
            if data > at {
                runs.push((data - at, false));
            }
            if data < end {
                let hole = self.next(SeekFrom::Hole(data.max(at)), end, at)?;
                let hole = hole
                    .next_multiple_of(u64::from(self.geometry.granularity))
                    .min(end);
                runs.push((hole - data, true));
                at = hole;
            } else {
                at = end;
            }
        }
        Ok(Done::Extents(runs))
    }

    /// Returns the next hole or data, at most `end`.
    fn next(&self, from: SeekFrom, end: u64, at: u64) -> Result<u64, BlockError> {
        if !self.holes {
            let SeekFrom::Data(start) = from else {
                return Ok(end);
            };
            return Ok(start);
        }
        match seek(&self.file, from) {
            Ok(found) => Ok(found.min(end)),
            // The rest is a hole.
            Err(Errno::NXIO) => Ok(end),
            Err(errno) => {
                let context = format!("looking for holes in {}", self.name);
                Err(BlockError::reading(errno.into(), context).at(at))
            }
        }
    }

    fn write_error(&self, error: io::Error, doing: &str, offset: u64) -> BlockError {
        BlockError::writing(error, format!("{doing} {}", self.name)).at(offset)
    }

    /// Determines the result of a finished transfer.
    fn settle(&self, transfer: Transfer, result: io::Result<()>) -> Settled {
        let failed_at = transfer.offset + transfer.done as u64;
        match result {
            Ok(()) => match transfer.bytes {
                Bytes::Write {
                    durable: true,
                    dsync: false,
                    ..
                } => Settled::Flush(transfer.ticket),
                _ => {
                    let (ticket, outcome) = transfer.finish();
                    Settled::Outcome(ticket, outcome)
                }
            },
            Err(error) if transfer.is_read() => {
                let context = format!("reading {}", self.name);
                let error = BlockError::reading(error, context).at(failed_at);
                Settled::Outcome(transfer.ticket, Err(error))
            }
            Err(error) => {
                let dsync = matches!(transfer.bytes, Bytes::Write { dsync: true, .. });
                let error = self.write_error(error, "writing", failed_at);
                if dsync && error.kind() == BlockErrorKind::Write {
                    // The flush inside the write may have failed, and with it other data.
                    self.flushes
                        .fail(format!("a durable write to {} failed", self.name));
                }
                Settled::Outcome(transfer.ticket, Err(error))
            }
        }
    }
}

impl fmt::Debug for KernelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelFile")
            .field("name", &self.name)
            .field("geometry", &self.geometry())
            .field("direct", &self.direct)
            .field("flushes", &self.flushes)
            .finish_non_exhaustive()
    }
}

/// Takes the ring's answer to a transfer. The transfer goes on, or its outcome is queued on the
/// lane.
pub(super) fn answered(mut transfer: Transfer, moved: io::Result<usize>, lane: &mut Lane) {
    let result = match transfer.advance(moved) {
        Progress::Again => return lane.start(transfer),
        Progress::Finished(result) => result,
    };
    if let Err(error) = &result
        && (error.kind() == io::ErrorKind::WouldBlock || refuses_dsync(&transfer, error))
    {
        // A thread may wait, and try other ways.
        return run_on_thread(transfer, lane.remote());
    }
    let file = Arc::clone(&transfer.file);
    match file.settle(transfer, result) {
        Settled::Outcome(ticket, outcome) => lane.complete(ticket, outcome),
        Settled::Flush(ticket) => {
            if file.flushes.join(Waiter {
                lane: lane.remote(),
                ticket,
            }) {
                file.begin_flushes();
            }
        }
    }
}

/// Runs a transfer, or the rest of it, to its end on a thread that may block.
pub(super) fn run_on_thread(mut transfer: Transfer, remote: Remote) {
    let file = Arc::clone(&transfer.file);
    file.threads.run(Box::new(move || {
        let mut result = transfer.run();
        if let Err(error) = &result
            && refuses_dsync(&transfer, error)
            && let Bytes::Write { dsync, .. } = &mut transfer.bytes
        {
            // Write first and flush afterwards: for this write, and from now on for all.
            *dsync = false;
            transfer.file.dsync.store(false, Ordering::Relaxed);
            result = transfer.run();
        }
        let file = Arc::clone(&transfer.file);
        match file.settle(transfer, result) {
            Settled::Outcome(ticket, outcome) => {
                // The receiver of the last outcome may close the file and open it again.
                drop(file);
                remote.complete(ticket, outcome);
            }
            Settled::Flush(ticket) => {
                if file.flushes.join(Waiter {
                    lane: remote,
                    ticket,
                }) {
                    file.run_flushes();
                }
            }
        }
    }));
}

fn refuses_dsync(transfer: &Transfer, error: &io::Error) -> bool {
    matches!(transfer.bytes, Bytes::Write { dsync: true, .. })
        && error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

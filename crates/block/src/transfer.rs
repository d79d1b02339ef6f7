//! One read or write on an open descriptor, from its start to its last byte.
//!
//! The kernel may move fewer bytes than requested. A transfer remembers its progress, so that
//! io_uring and plain system calls share one way to continue, to stop and to fail.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::kernel_file::KernelFile;
use super::lane::{Outcome, Ticket};
use super::{Done, Pages, PagesMut};

/// Most pieces of memory that the kernel takes in one call (IOV_MAX).
pub(super) const MAX_PIECES: usize = 1024;

/// A read or write in progress.
pub(super) struct Transfer {
    pub(super) file: Arc<KernelFile>,
    pub(super) ticket: Ticket,
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
    /// Number of bytes moved so far.
    pub(super) done: usize,
}

/// Data of a transfer.
pub(super) enum Bytes {
    /// A buffer that is read from the file.
    Read(PagesMut),
    /// Pages that are written to the file.
    Write {
        data: Pages,
        /// Whether the write is done only once its bytes are on stable storage.
        durable: bool,
        /// Whether each call makes its bytes durable itself (RWF_DSYNC); otherwise a flush follows.
        dsync: bool,
    },
}

/// Next step after an answer of the kernel.
pub(super) enum Progress {
    /// Request the rest.
    Again,
    /// All bytes were moved, or the transfer failed.
    Finished(io::Result<()>),
}

impl Transfer {
    pub(super) fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Read(buffer) => buffer.len(),
            Bytes::Write { data, .. } => data.len(),
        }
    }

    pub(super) fn is_read(&self) -> bool {
        matches!(self.bytes, Bytes::Read(_))
    }

    /// Returns the flags for the system call.
    pub(super) fn flags(&self) -> ReadWriteFlags {
        match self.bytes {
            Bytes::Write { dsync: true, .. } => ReadWriteFlags::DSYNC,
            _ => ReadWriteFlags::empty(),
        }
    }

    /// Takes an answer of the kernel.
    pub(super) fn advance(&mut self, moved: io::Result<usize>) -> Progress {
        match moved {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Progress::Again,
            Err(error) => Progress::Finished(Err(error)),
            Ok(0) => self.stuck(),
            Ok(count) => {
                let before = self.done;
                self.done = (before + count).min(self.len());
                if let Bytes::Read(buffer) = &mut self.bytes {
                    buffer.mark_filled(before, self.done - before);
                }
                if self.done == self.len() {
                    return Progress::Finished(Ok(()));
                }
                // Direct I/O continues at an aligned place.
                self.done -= self.done % self.file.alignment();
                if self.done == before {
                    return self.stuck();
                }
                Progress::Again
            }
        }
    }

    /// Handles an answer that moved nothing, or too little for direct I/O to continue. A repeated
    /// request would get this answer for ever.
    fn stuck(&self) -> Progress {
        Progress::Finished(Err(if self.is_read() {
            // The transfer met the end of the file: somebody truncated it.
            Errno::NXIO.into()
        } else {
            Errno::IO.into()
        }))
    }

    /// Moves all bytes with system calls that block.
    pub(super) fn run(&mut self) -> io::Result<()> {
        loop {
            let moved = self.call().map_err(io::Error::from);
            if let Progress::Finished(result) = self.advance(moved) {
                return result;
            }
        }
    }

    fn call(&mut self) -> rustix::io::Result<usize> {
        let (flags, at) = (self.flags(), self.offset + self.done as u64);
        let (fd, done, rest) = (self.file.fd(), self.done, self.len() - self.done);
        match &mut self.bytes {
            Bytes::Read(buffer) => {
                let mut pieces: Vec<IoSliceMut<'_>> = buffer
                    .chunks_mut(done, rest)
                    .take(MAX_PIECES)
                    .map(IoSliceMut::new)
                    .collect();
                preadv2(fd, &mut pieces, at, flags)
            }
            Bytes::Write { data, .. } => {
                let data = data.slice(done..done + rest);
                let pieces: Vec<IoSlice<'_>> =
                    data.chunks().take(MAX_PIECES).map(IoSlice::new).collect();
                pwritev2(fd, &pieces, at, flags)
            }
        }
    }

    /// Returns the ticket, and the result of the request now that all bytes were moved.
    pub(super) fn finish(self) -> (Ticket, Outcome) {
        let done = match self.bytes {
            Bytes::Read(buffer) => Done::Pages(buffer.freeze()),
            Bytes::Write { .. } => Done::Nothing,
        };
        (self.ticket, Ok(done))
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.is_read() { "Read" } else { "Write" };
        write!(
            f,
            "{name}({}+{}, {} done)",
            self.offset,
            self.len(),
            self.done
        )
    }
}

//! One io_uring: transfers in, finished transfers out, one system call for a whole batch.
//!
//! The kernel reads and writes the memory of a transfer while it is in flight. So the ring owns
//! every transfer until its completion has arrived. This is the whole safety argument of this file.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use io_uring::types::Fd;
use io_uring::{IoUring, Probe, opcode, squeue};
use smallvec::SmallVec;

use super::transfer::{Bytes, MAX_PIECES, Transfer};

/// Requests that one batch can hold; more are submitted in several calls.
const ENTRIES: u32 = 256;

/// An io_uring and the transfers in its work.
pub(super) struct Ring {
    ring: IoUring,
    /// Transfers that the kernel may be touching, by the entry's user data.
    slots: Vec<Option<Box<Flight>>>,
    free: Vec<usize>,
    /// Number of entries pushed but not submitted.
    queued: usize,
    /// Transfers that wait for room in the submission queue.
    backlog: VecDeque<Box<Flight>>,
}

/// A transfer with the list of its pieces of memory, which the kernel reads as well. It stays in
/// one place (boxed) from submission to completion.
struct Flight {
    transfer: Transfer,
    pieces: SmallVec<[libc::iovec; 1]>,
}

// SAFETY: the pointers in `pieces` point into memory that `transfer` owns, which may move between
// threads.
unsafe impl Send for Flight {}

impl Ring {
    /// Creates a ring, if the kernel offers one with the needed functions. The error says why not
    /// (ENOSYS, EPERM under seccomp or `kernel.io_uring_disabled`, …).
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            // The loop enters the kernel often enough by itself, so it needs no interruption.
            .setup_coop_taskrun()
            .setup_clamp()
            .build(ENTRIES)
            .or_else(|_| IoUring::builder().setup_clamp().build(ENTRIES))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Readv::CODE,
            opcode::Write::CODE,
            opcode::Writev::CODE,
        ];
        if !needed.iter().all(|code| probe.is_supported(*code))
            || !ring.params().is_feature_nodrop()
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            queued: 0,
            backlog: VecDeque::new(),
        })
    }

    /// Returns a descriptor that is readable while completions wait.
    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps its descriptor open as long as it lives, and the descriptor is
        // borrowed here.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Returns the number of transfers that the ring owns.
    pub(super) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() + self.backlog.len()
    }

    /// Takes a transfer, which starts with the next [`Ring::submit`].
    pub(super) fn push(&mut self, transfer: Transfer) {
        self.backlog.push_back(Box::new(Flight {
            transfer,
            pieces: SmallVec::new(),
        }));
        self.fill_queue();
    }

    /// Moves transfers from the backlog to the submission queue while there is room.
    fn fill_queue(&mut self) {
        let room = self.ring.params().cq_entries() as usize;
        // If more were in flight than the completion queue holds, the rest would need another way
        // of fetching.
        while self.queued < ENTRIES as usize && self.slots.len() - self.free.len() < room {
            let Some(mut flight) = self.backlog.pop_front() else {
                return;
            };
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            let entry = flight.entry().user_data(slot as u64);
            self.slots[slot] = Some(flight);
            // SAFETY: the file, the memory and the list of pieces live in the slot until the
            // completion is reaped. The box keeps them in place.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_err() {
                // The kernel made a smaller queue than requested: wait for room.
                self.backlog.extend(self.slots[slot].take());
                self.free.push(slot);
                return;
            }
            self.queued += 1;
        }
    }

    /// Starts all pushed transfers. Transfers for which the kernel has no room now stay for the
    /// next call.
    pub(super) fn submit(&mut self) {
        while self.queued > 0 {
            match self.ring.submit() {
                Ok(count) => {
                    self.queued -= count.min(self.queued);
                    self.fill_queue();
                    if count == 0 {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // EAGAIN, EBUSY: completions must be reaped first.
                Err(_) => return,
            }
        }
    }

    /// Returns the transfers that the kernel answered.
    pub(super) fn reap(&mut self, answered: &mut Vec<(Transfer, io::Result<usize>)>) {
        let Self {
            ring, slots, free, ..
        } = self;
        for completion in ring.completion() {
            let slot = completion.user_data() as usize;
            let Some(flight) = slots.get_mut(slot).and_then(Option::take) else {
                continue;
            };
            free.push(slot);
            let moved = usize::try_from(completion.result())
                .map_err(|_| io::Error::from_raw_os_error(-completion.result()));
            answered.push((flight.transfer, moved));
        }
        self.fill_queue();
    }

    /// Sleeps until at least one completion has arrived.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.submit();
        match self.ring.submit_and_wait(1) {
            Ok(count) => {
                self.queued -= count.min(self.queued);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A dropped lane was drained, so this is for unwinding. Memory to which the kernel may
        // still write is never freed: it leaks instead.
        for flight in self.slots.iter_mut().filter_map(Option::take) {
            std::mem::forget(flight);
        }
    }
}

impl Flight {
    /// Builds the submission queue entry for the rest of the transfer.
    fn entry(&mut self) -> squeue::Entry {
        let Self { transfer, pieces } = self;
        let at = transfer.offset + transfer.done as u64;
        let (done, rest) = (transfer.done, transfer.len() - transfer.done);
        let flags = transfer.flags().bits() as i32;
        let fd = Fd(transfer.file.fd().as_raw_fd());
        pieces.clear();
        match &mut transfer.bytes {
            Bytes::Read(buffer) => {
                for chunk in buffer.chunks_mut(done, rest) {
                    add_piece(pieces, chunk.as_mut_ptr(), chunk.len());
                }
                if let Some((start, len)) = in_one_piece(pieces) {
                    let entry = opcode::Read::new(fd, start, len);
                    return entry.offset(at).rw_flags(flags).build();
                }
                let count = pieces.len().min(MAX_PIECES) as u32;
                opcode::Readv::new(fd, pieces.as_ptr(), count)
                    .offset(at)
                    .rw_flags(flags)
                    .build()
            }
            Bytes::Write { data, .. } => {
                for chunk in data.slice(done..done + rest).chunks() {
                    add_piece(pieces, chunk.as_ptr().cast_mut(), chunk.len());
                }
                if let Some((start, len)) = in_one_piece(pieces) {
                    let entry = opcode::Write::new(fd, start, len);
                    return entry.offset(at).rw_flags(flags).build();
                }
                let count = pieces.len().min(MAX_PIECES) as u32;
                opcode::Writev::new(fd, pieces.as_ptr(), count)
                    .offset(at)
                    .rw_flags(flags)
                    .build()
            }
        }
    }
}

/// Returns the memory of a list of one piece. For it, the kernel needs no list.
fn in_one_piece(pieces: &[libc::iovec]) -> Option<(*mut u8, u32)> {
    match pieces {
        [piece] => Some((piece.iov_base.cast(), piece.iov_len.try_into().ok()?)),
        _ => None,
    }
}

/// Adds memory to the list. Pages that happen to be neighbours become one piece.
fn add_piece(pieces: &mut SmallVec<[libc::iovec; 1]>, start: *mut u8, len: usize) {
    let end = pieces.last().map_or(null_mut(), |last| {
        last.iov_base.wrapping_byte_add(last.iov_len)
    });
    match pieces.last_mut() {
        Some(last) if end == start.cast() => last.iov_len += len,
        _ => pieces.push(libc::iovec {
            iov_base: start.cast(),
            iov_len: len,
        }),
    }
}

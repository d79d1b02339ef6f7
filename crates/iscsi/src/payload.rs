//! Traits by which data moves through the crate without a copy. The runtime's buffers implement
//! them.
//!
//! The crate decides which bytes go where, but never owns the memory in which they lie. A
//! [`Payload`] is data on its way out. A [`DataOutBuffer`] is space for data on its way in.

use std::ops::Range;

/// Immutable bytes to be sent, possibly scattered in memory.
pub trait Payload {
    /// Record of a command that its runtime gets back once the last byte of the answer has left.
    type Receipt: std::fmt::Debug;

    /// Returns the length in bytes.
    fn len(&self) -> usize;

    /// Reports whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pieces of `range` in order. `range.end` is at most [`Payload::len`].
    fn chunks(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]>;

    /// Returns these bytes once more, for a PDU that leaves before the one of this payload. It is
    /// cheap: a reference count. Resources reserved for the bytes stay with this payload.
    fn shared(&self) -> Self;
}

/// Space for one command's data-out. Bytes land at their final place in any order.
pub trait DataOutBuffer {
    /// Stores `bytes` at `offset`. The receiver guarantees that `offset + bytes.len()` is within
    /// the length that the command wants.
    fn put(&mut self, offset: usize, bytes: &[u8]);

    /// Returns the space at `offset` for up to `len` bytes, for reading from a socket straight into
    /// it.
    fn room(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]>;

    /// Notes that bytes were read into the space at `offset`.
    fn mark_filled(&mut self, offset: usize, len: usize);
}

impl Payload for std::sync::Arc<[u8]> {
    type Receipt = ();

    fn len(&self) -> usize {
        self.as_ref().len()
    }

    fn chunks(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self[range])
    }

    fn shared(&self) -> Self {
        Self::clone(self)
    }
}

impl DataOutBuffer for Vec<u8> {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.len() < end {
            self.resize(end, 0);
        }
        self[offset..end].copy_from_slice(bytes);
    }

    fn room(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]> {
        if self.len() < offset + len {
            self.resize(offset + len, 0);
        }
        std::iter::once(&mut self[offset..offset + len])
    }

    fn mark_filled(&mut self, _offset: usize, _len: usize) {}
}

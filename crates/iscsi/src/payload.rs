//! How data moves through the crate without being copied: two traits that the runtime's buffers fill.
//!
//! The crate decides which bytes go where; it never owns the memory they live in. A [`Payload`] is
//! data on its way out, a [`DataOutBuffer`] is room for data on its way in.

use std::ops::Range;

/// Immutable bytes to be sent, possibly scattered in memory.
pub trait Payload {
    /// Length in bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces of `range` in order. `range.end` is at most [`Payload::len`].
    fn chunks(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]>;

    /// The same bytes once more, for a PDU that leaves before the one that this goes with. Cheap: a reference count.
    /// What was set apart for the bytes stays with this one.
    fn shared(&self) -> Self;
}

/// Room for one command's data-out. Bytes land at their final place in any order.
pub trait DataOutBuffer {
    /// Stores `bytes` at `offset`; the receiver guarantees `offset + bytes.len()` is within what the
    /// command wants.
    fn put(&mut self, offset: usize, bytes: &[u8]);

    /// The room at `offset` for up to `len` bytes, for reading from a socket straight into it.
    fn room(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]>;

    /// Bytes were read into the room at `offset`.
    fn mark_filled(&mut self, offset: usize, len: usize);
}

impl Payload for std::sync::Arc<[u8]> {
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

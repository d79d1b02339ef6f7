//! Change of a range of bytes: a write, or a clearing, and the blocks that it touches.

use std::ops::Range;

use pages::Pages;

use crate::engine::io::prepared::Prepared;
use crate::engine::request::Received;
use crate::format::DatasetId;

/// Change of a range of bytes.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Write {
    pub(in crate::engine) dataset: DatasetId,
    pub(in crate::engine) offset: u64,
    pub(super) content: Content,
    pub(super) is_durable: bool,
    /// Attempt to receive a stream that the change belongs to.
    pub(super) attempt: Option<u64>,
    /// Blocks that another thread compressed and checksummed in advance.
    pub(in crate::engine) prepared: Option<Prepared>,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Data(Pages),
    Zeros(u64, Edges),
}

/// Effect of zeros on blocks that they cover in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edges {
    /// The covered part becomes zeros.
    Zeroed,
    /// The covered part becomes zeros if there is room to rewrite the rest of the block.
    ZeroedWithRoom,
    /// The block stays as it is.
    Kept,
}

impl Write {
    pub(in crate::engine) fn data(
        dataset: DatasetId,
        offset: u64,
        data: Pages,
        is_durable: bool,
    ) -> Self {
        let content = Content::Data(data);
        Self {
            dataset,
            offset,
            content,
            is_durable,
            attempt: None,
            prepared: None,
        }
    }

    /// Makes a write of blocks that were prepared in advance.
    pub(in crate::engine) fn prepared(
        dataset: DatasetId,
        offset: u64,
        prepared: Prepared,
        is_durable: bool,
    ) -> Self {
        let write = Self::data(dataset, offset, prepared.data().clone(), is_durable);
        Self {
            prepared: Some(prepared),
            ..write
        }
    }

    /// Returns the bytes of the blocks that were compressed in advance.
    pub(super) fn packed_bytes(&self) -> usize {
        self.prepared.as_ref().map_or(0, Prepared::packed_bytes)
    }

    /// Drops the blocks prepared in advance, to save memory. They are made again when the change's
    /// turn comes.
    pub(super) fn unprepared(self) -> Self {
        Self {
            prepared: None,
            ..self
        }
    }

    /// Makes the change for a piece of a received stream.
    pub(in crate::engine) fn received(
        dataset: DatasetId,
        offset: u64,
        content: Received,
        attempt: u64,
    ) -> Self {
        let content = match content {
            Received::Data(data) => Content::Data(data),
            Received::Holes(len) => Content::Zeros(len, Edges::Zeroed),
        };
        Self {
            dataset,
            offset,
            content,
            is_durable: false,
            attempt: Some(attempt),
            prepared: None,
        }
    }

    pub(in crate::engine) fn zeros(
        dataset: DatasetId,
        offset: u64,
        len: u64,
        is_durable: bool,
    ) -> Self {
        let content = Content::Zeros(len, Edges::Zeroed);
        Self {
            dataset,
            offset,
            content,
            is_durable,
            attempt: None,
            prepared: None,
        }
    }

    pub(in crate::engine) fn unmap(
        dataset: DatasetId,
        offset: u64,
        len: u64,
        is_durable: bool,
    ) -> Self {
        Self {
            content: Content::Zeros(len, Edges::ZeroedWithRoom),
            ..Self::zeros(dataset, offset, len, is_durable)
        }
    }

    /// Lets the change leave alone the blocks that it covers in part. Returns false if it must not,
    /// or already does.
    pub(in crate::engine) fn keep_edges(&mut self) -> bool {
        let Content::Zeros(_, edges @ Edges::ZeroedWithRoom) = &mut self.content else {
            return false;
        };
        *edges = Edges::Kept;
        true
    }

    /// Undoes [`Self::keep_edges`].
    pub(in crate::engine) fn zero_edges(&mut self) {
        if let Content::Zeros(_, edges @ Edges::Kept) = &mut self.content {
            *edges = Edges::ZeroedWithRoom;
        }
    }

    pub(in crate::engine) fn len(&self) -> u64 {
        match &self.content {
            Content::Data(data) => data.len() as u64,
            Content::Zeros(len, _) => *len,
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.offset + self.len()
    }

    /// Returns `len` bytes of the change from the volume's byte `start` on.
    pub(super) fn bytes(&self, start: u64, len: usize) -> Pages {
        match &self.content {
            Content::Data(data) => {
                let from = (start - self.offset) as usize;
                data.slice(from..from + len)
            }
            Content::Zeros(..) => Pages::zeroes(len as u32),
        }
    }

    /// Returns the blocks that the change covers in part and alters, in order.
    pub(super) fn partial(&self, block_size: u64) -> impl Iterator<Item = u64> + use<> {
        let (offset, end) = (self.offset, self.end());
        let first = offset / block_size;
        let last = (end - 1) / block_size;
        let are_kept = matches!(self.content, Content::Zeros(_, Edges::Kept));
        let is_part = !offset.is_multiple_of(block_size) || end < (first + 1) * block_size;
        let is_first = is_part && !are_kept;
        let is_last = last > first && !end.is_multiple_of(block_size) && !are_kept;
        let first = is_first.then_some(first);
        first.into_iter().chain(is_last.then_some(last))
    }

    /// Returns all blocks that the change touches.
    pub(in crate::engine) fn touched(&self, block_size: u64) -> Range<u64> {
        self.offset / block_size..self.end().div_ceil(block_size)
    }

    /// Returns the blocks that the change covers whole.
    pub(super) fn whole(&self, block_size: u64) -> Range<u64> {
        self.offset.div_ceil(block_size)..self.end() / block_size
    }

    /// Reports whether the change alters nothing.
    pub(in crate::engine) fn is_nothing(&self, block_size: u64) -> bool {
        let are_kept = matches!(self.content, Content::Zeros(_, Edges::Kept));
        are_kept && self.whole(block_size).is_empty()
    }

    /// Reports whether the change unmaps blocks, or writes zeros.
    pub(in crate::engine) fn is_zeros(&self) -> bool {
        matches!(self.content, Content::Zeros(..))
    }

    /// Returns the most blocks of data that the change may add.
    pub(in crate::engine) fn blocks(&self, block_size: u64) -> u64 {
        match &self.content {
            Content::Data(_) => self.end().div_ceil(block_size) - self.offset / block_size,
            Content::Zeros(..) => self.partial(block_size).count() as u64,
        }
    }
}

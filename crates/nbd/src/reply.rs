//! Answers in the agreed style: simple, structured or extended ("Simple reply message", "Structured
//! reply chunk message").
//!
//! Only headers, errors and descriptors are written here. The bytes of a read follow
//! [`Replies::data`] in the stream unchanged.

use crate::handshake::{Agreed, HeaderStyle};
use crate::request::Asked;
use crate::wire::{
    BASE_ALLOCATION_ID, EXTENDED_REPLY_MAGIC, ErrorCode, MAX_STRING, SIMPLE_REPLY_MAGIC,
    STATE_HOLE, STATE_ZERO, STRUCTURED_REPLY_MAGIC, chunk,
};

/// Most descriptors in one answer to BLOCK_STATUS. A client asks again from the place where they
/// end.
pub const MAX_DESCRIPTORS: usize = 16 << 10;

/// Run of bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes, not 0.
    pub len: u64,
    /// Whether the run holds data. Otherwise it takes no space and reads as zeros.
    pub data: bool,
}

/// Writer of the answers of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Replies {
    agreed: Agreed,
    /// Minimum block of the export in bytes: descriptors are multiples of it.
    granularity: u64,
}

impl Replies {
    /// Makes a writer for the agreed style, over an export with this minimum block in bytes.
    pub fn new(agreed: Agreed, minimum_block: u32) -> Self {
        Self {
            agreed,
            granularity: u64::from(minimum_block),
        }
    }

    /// Writes that a request succeeded and returns nothing. For a read this means that it asked for
    /// no bytes.
    pub fn done(&self, asked: &Asked, out: &mut Vec<u8>) {
        if self.is_simple(asked) {
            return simple(0, asked, out);
        }
        self.chunk(asked, chunk::FLAG_DONE, chunk::NONE, 0, out);
    }

    /// Writes that a read succeeded: `len` bytes of data follow in the stream.
    pub fn data(&self, asked: &Asked, len: u32, out: &mut Vec<u8>) {
        if self.agreed.style == HeaderStyle::Simple {
            return simple(0, asked, out);
        }
        let payload = u64::from(len) + 8;
        self.chunk(asked, chunk::FLAG_DONE, chunk::OFFSET_DATA, payload, out);
        out.extend(asked.offset.to_be_bytes());
    }

    /// Writes that a request failed, because of `message`. `offset` is the byte of the export at
    /// which it failed, if that is known to lie inside the request.
    pub fn error(
        &self,
        asked: &Asked,
        code: ErrorCode,
        message: &str,
        offset: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        if self.agreed.style == HeaderStyle::Simple {
            return simple(code as u32, asked, out);
        }
        let message = first_bytes(message, MAX_STRING).as_bytes();
        let (kind, fixed) = match offset {
            Some(_) => (chunk::ERROR_OFFSET, 14),
            None => (chunk::ERROR, 6),
        };
        let payload = fixed + message.len() as u64;
        self.chunk(asked, chunk::FLAG_DONE, kind, payload, out);
        out.extend((code as u32).to_be_bytes());
        out.extend((message.len() as u16).to_be_bytes());
        out.extend_from_slice(message);
        if let Some(offset) = offset {
            out.extend(offset.to_be_bytes());
        }
    }

    /// Writes the answer to BLOCK_STATUS: runs from its offset on. With `limit` the answer is one
    /// run of at most `limit` bytes. Without any run there is no answer, so it writes nothing and
    /// returns false.
    pub fn block_status(
        &self,
        asked: &Asked,
        extents: impl IntoIterator<Item = Extent>,
        limit: Option<u64>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut runs = self.descriptors(extents);
        if let Some(limit) = limit {
            runs.truncate(1);
            runs.iter_mut().for_each(|run| run.len = run.len.min(limit));
        }
        if runs.is_empty() {
            return false;
        }
        let count = runs.len() as u64;
        let wide = self.agreed.style == HeaderStyle::Extended;
        let (kind, payload) = match wide {
            true => (chunk::BLOCK_STATUS_EXT, 8 + 16 * count),
            false => (chunk::BLOCK_STATUS, 4 + 8 * count),
        };
        self.chunk(asked, chunk::FLAG_DONE, kind, payload, out);
        out.extend(BASE_ALLOCATION_ID.to_be_bytes());
        if wide {
            out.extend((count as u32).to_be_bytes());
        }
        for run in runs {
            let state = if run.data { 0 } else { STATE_HOLE | STATE_ZERO };
            if wide {
                out.extend(run.len.to_be_bytes());
                out.extend(u64::from(state).to_be_bytes());
            } else {
                out.extend((run.len as u32).to_be_bytes());
                out.extend(state.to_be_bytes());
            }
        }
        true
    }

    /// Returns runs as descriptors. Neighbours of one kind are joined, and a run whose length does
    /// not fit into 32 bits is cut.
    fn descriptors(&self, extents: impl IntoIterator<Item = Extent>) -> Vec<Extent> {
        let longest = match self.agreed.style {
            HeaderStyle::Extended => u64::MAX,
            _ => u64::from(u32::MAX) / self.granularity * self.granularity,
        };
        let mut runs: Vec<Extent> = Vec::new();
        for Extent { mut len, data } in extents {
            if let Some(last) = runs.last_mut().filter(|last| last.data == data) {
                let more = len.min(longest - last.len);
                last.len += more;
                len -= more;
            }
            while len > 0 {
                if runs.len() == MAX_DESCRIPTORS {
                    return runs;
                }
                let piece = len.min(longest);
                runs.push(Extent { len: piece, data });
                len -= piece;
            }
        }
        runs
    }

    /// Reports whether the answer is a simple one. With structured replies this is allowed for
    /// every answer without data, and it is shorter.
    fn is_simple(&self, asked: &Asked) -> bool {
        match self.agreed.style {
            HeaderStyle::Simple => true,
            HeaderStyle::Structured => !asked.is_read,
            HeaderStyle::Extended => false,
        }
    }

    fn chunk(&self, asked: &Asked, flags: u16, kind: u16, payload: u64, out: &mut Vec<u8>) {
        let extended = self.agreed.style == HeaderStyle::Extended;
        let magic = match extended {
            true => EXTENDED_REPLY_MAGIC,
            false => STRUCTURED_REPLY_MAGIC,
        };
        out.extend(magic.to_be_bytes());
        out.extend(flags.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(asked.cookie.to_be_bytes());
        if extended {
            out.extend(asked.offset.to_be_bytes());
            out.extend(payload.to_be_bytes());
        } else {
            // A payload is at most the maximum payload, 32 bits, and a few bytes (see `Command`).
            out.extend((payload as u32).to_be_bytes());
        }
    }
}

fn simple(error: u32, asked: &Asked, out: &mut Vec<u8>) {
    out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend(asked.cookie.to_be_bytes());
}

/// Returns the part of `text` that fits into `len` bytes, in whole characters.
fn first_bytes(text: &str, len: usize) -> &str {
    &text[..text.floor_char_boundary(len)]
}

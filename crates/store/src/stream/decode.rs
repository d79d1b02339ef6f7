//! Reading a stream of whoever wrote it: nothing is handed out that is not proven, and memory is bounded.

use pages::Pages;

use super::begin::Begin;
use super::error::{StreamError, StreamErrorKind};
use super::record::{
    COVERED, HEADER, Header, Kind, MAGIC, PREAMBLE, VERSION, checksum, preamble, seed,
};
use crate::compress;
use crate::format::Compression;

/// What a stream says next.
#[derive(Clone, Debug)]
pub enum Item {
    /// A snapshot begins.
    Begin(Box<Begin>),
    /// A block has these bytes.
    Data {
        /// Its number.
        block: u64,
        /// Its bytes.
        packed: Packed,
    },
    /// Blocks are holes.
    Free {
        /// The first one.
        first: u64,
        /// How many, not 0.
        count: u64,
    },
    /// The snapshot is complete: all that was said of it is so.
    End,
    /// The stream is complete.
    Close,
}

/// A block as it was sent.
#[derive(Clone, Debug)]
pub struct Packed {
    /// How it is packed.
    pub compression: Compression,
    /// What of.
    pub payload: Pages,
    len: usize,
}

impl Packed {
    /// The block's bytes; `None` where the sender packed something else. Takes as long as it takes to
    /// unpack it, so who only passes a stream on need not.
    pub fn unpack(&self) -> Option<Pages> {
        match self.compression {
            Compression::Off => (self.payload.len() == self.len).then(|| self.payload.clone()),
            packed => compress::unpack(packed, &self.payload, self.len),
        }
    }
}

/// Where in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preamble,
    /// Between two parts.
    Between,
    Part {
        block_size: u32,
        /// Blocks of the volume.
        end: u64,
        /// Blocks below it were told of.
        next: u64,
        /// Those that had bytes.
        blocks: u64,
    },
    Closed,
}

/// Reads a stream. Bytes go in in any pieces; what is left at the end is told by [`Decoder::finish`].
#[derive(Debug)]
pub struct Decoder {
    stage: Stage,
    /// Checksum of the last record.
    chain: u128,
    strong: blake3::Hasher,
    buffer: Vec<u8>,
    /// How many bytes of the buffer were read, and how many of these are hashed.
    read: usize,
    hashed: usize,
    /// Bytes of the stream before the buffer.
    before: u64,
    failure: Option<StreamError>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// At the beginning of a stream.
    pub fn new() -> Self {
        Self {
            stage: Stage::Preamble,
            chain: seed(),
            strong: blake3::Hasher::new(),
            buffer: Vec::new(),
            read: 0,
            hashed: 0,
            before: 0,
            failure: None,
        }
    }

    /// The next bytes. Memory holds them and less than one record: whoever feeds pieces of bounded length
    /// and asks for all items between them needs bounded memory.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.hash();
        self.buffer.drain(..self.read);
        self.before += self.read as u64;
        self.read = 0;
        self.hashed = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes of the stream that were understood.
    pub fn position(&self) -> u64 {
        self.before + self.read as u64
    }

    /// What the stream says next; `None` where more bytes are needed to know that.
    ///
    /// # Errors
    /// It is not believed from here on, and nothing more is said of it.
    pub fn next_item(&mut self) -> Result<Option<Item>, StreamError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let item = self.step();
        if let Err(error) = &item {
            self.failure = Some(error.clone());
        }
        item
    }

    /// No more bytes come.
    ///
    /// # Errors
    /// The stream is not complete, or something is behind it.
    pub fn finish(&self) -> Result<(), StreamError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let rest = self.buffer.len() - self.read;
        let (kind, context) = match self.stage {
            Stage::Closed if rest == 0 => return Ok(()),
            Stage::Closed => (StreamErrorKind::Invalid, "bytes are behind the end"),
            Stage::Preamble if self.position() == 0 && rest == 0 => {
                (StreamErrorKind::Truncated, "the stream is empty")
            }
            _ => (StreamErrorKind::Truncated, "the stream ends in its middle"),
        };
        Err(self.error(kind, context))
    }

    fn step(&mut self) -> Result<Option<Item>, StreamError> {
        if self.stage == Stage::Preamble && !self.read_preamble()? {
            return Ok(None);
        }
        let rest = &self.buffer[self.read..];
        if self.stage == Stage::Closed {
            return match rest.is_empty() {
                true => Ok(None),
                false => Err(self.error(StreamErrorKind::Invalid, "bytes are behind the end")),
            };
        }
        let Some((head, behind)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let damaged = "a record is damaged, missing or not in its place";
        let Some((header, sum)) = Header::from_bytes(head) else {
            return Err(self.error(StreamErrorKind::Damaged, damaged));
        };
        let Some(body) = behind.get(..header.len as usize) else {
            return Ok(None);
        };
        if checksum(self.chain, &head[..COVERED], [body]) != sum {
            return Err(self.error(StreamErrorKind::Damaged, damaged));
        }
        let start = self.read + HEADER;
        let item = self.take_record(header, start..start + header.len as usize)?;
        self.chain = sum;
        self.read = start + header.len as usize;
        Ok(Some(item))
    }

    fn read_preamble(&mut self) -> Result<bool, StreamError> {
        let known = self.buffer.len().min(MAGIC.len());
        if self.buffer[..known] != MAGIC[..known] {
            let context = "this is no stream of a Sandstone volume";
            return Err(self.error(StreamErrorKind::Foreign, context));
        }
        let Some(bytes) = self.buffer.first_chunk::<PREAMBLE>() else {
            return Ok(false);
        };
        if *bytes != preamble() {
            let version = u16::from_le_bytes([bytes[8], bytes[9]]);
            let context = format!("it is a stream of version {version}, and {VERSION} is known");
            return Err(self.error(StreamErrorKind::Version, context));
        }
        self.read = PREAMBLE;
        self.stage = Stage::Between;
        Ok(true)
    }

    /// A record whose checksum is right: whether it may stand here, and what it says.
    fn take_record(
        &mut self,
        header: Header,
        body: std::ops::Range<usize>,
    ) -> Result<Item, StreamError> {
        let Header { block, count, .. } = header;
        match (header.kind, self.stage) {
            (Kind::Failed, _) => {
                let reason = String::from_utf8_lossy(&self.buffer[body]).into_owned();
                Err(self.error(StreamErrorKind::Failed, reason))
            }
            (Kind::Begin, Stage::Between) => self.take_begin(body),
            (Kind::Close, Stage::Between) => {
                self.stage = Stage::Closed;
                Ok(Item::Close)
            }
            (
                Kind::Data,
                Stage::Part {
                    block_size,
                    end,
                    next,
                    blocks,
                },
            ) => {
                if block < next || block >= end || count != 1 {
                    return Err(self.misplaced(block));
                }
                self.stage = Stage::Part {
                    block_size,
                    end,
                    next: block + 1,
                    blocks: blocks + 1,
                };
                let packed = Packed {
                    compression: header.compression,
                    payload: Pages::from_bytes(&self.buffer[body]),
                    len: block_size as usize,
                };
                Ok(Item::Data { block, packed })
            }
            (
                Kind::Free,
                Stage::Part {
                    block_size,
                    end,
                    next,
                    blocks,
                },
            ) => {
                let behind = block.checked_add(count).filter(|behind| *behind <= end);
                let Some(behind) = behind.filter(|_| block >= next && count > 0) else {
                    return Err(self.misplaced(block));
                };
                self.stage = Stage::Part {
                    block_size,
                    end,
                    next: behind,
                    blocks,
                };
                let first = block;
                Ok(Item::Free { first, count })
            }
            (Kind::End, Stage::Part { end, blocks, .. }) => {
                self.hash();
                let is_right = *self.strong.finalize().as_bytes() == self.buffer[body];
                if !is_right || block != end || count != blocks {
                    let context = "the whole is not what its end says";
                    return Err(self.error(StreamErrorKind::Damaged, context));
                }
                self.stage = Stage::Between;
                Ok(Item::End)
            }
            _ => {
                let context = "a record stands where none of its kind may";
                Err(self.error(StreamErrorKind::Invalid, context))
            }
        }
    }

    fn take_begin(&mut self, body: std::ops::Range<usize>) -> Result<Item, StreamError> {
        let begin: Begin = serde_json::from_slice(&self.buffer[body]).map_err(|error| {
            let context = format!("what it says of its snapshot cannot be read: {error}");
            self.error(StreamErrorKind::Invalid, context)
        })?;
        if let Some(fault) = begin.fault() {
            return Err(self.error(StreamErrorKind::Invalid, fault));
        }
        self.stage = Stage::Part {
            block_size: begin.block_size,
            end: begin.blocks(),
            next: begin.start,
            blocks: 0,
        };
        Ok(Item::Begin(Box::new(begin)))
    }

    fn misplaced(&self, block: u64) -> StreamError {
        let context = format!("block {block} stands out of order, or outside the volume");
        self.error(StreamErrorKind::Invalid, context)
    }

    fn error(&self, kind: StreamErrorKind, context: impl Into<String>) -> StreamError {
        StreamError::new(kind, self.position(), context)
    }

    /// Hashes what was read.
    fn hash(&mut self) {
        self.strong.update(&self.buffer[self.hashed..self.read]);
        self.hashed = self.read;
    }
}

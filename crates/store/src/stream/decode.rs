//! The reader of a stream from any writer. It hands out nothing that is not proven, and its memory
//! is bounded.

use pages::Pages;

use super::begin::Begin;
use super::error::{StreamError, StreamErrorKind};
use super::record::{
    COVERED, HEADER, Header, MAGIC, PREAMBLE, RecordKind, VERSION, checksum, preamble, seed,
};
use crate::compress;
use crate::format::Compression;

/// Next item of a stream.
#[derive(Clone, Debug)]
pub enum Item {
    /// A snapshot begins.
    Begin(Box<Begin>),
    /// A block has these bytes.
    Data {
        /// Number of the block.
        block: u64,
        /// Bytes of the block.
        packed: Packed,
    },
    /// Blocks are holes.
    Free {
        /// First block.
        first: u64,
        /// Number of blocks, not 0.
        count: u64,
    },
    /// The snapshot is complete: all that the stream said of the snapshot is true.
    End,
    /// The stream is complete.
    Close,
}

/// A block as the sender packed it.
#[derive(Clone, Debug)]
pub struct Packed {
    /// Compression of the block.
    pub compression: Compression,
    /// Bytes that were packed.
    pub payload: Pages,
    len: usize,
}

impl Packed {
    /// Unpacks the block's bytes. Returns `None` if the sender packed something else. Unpacking
    /// takes time, so a caller that only passes a stream on need not call this.
    pub fn unpack(&self) -> Option<Pages> {
        match self.compression {
            Compression::Off => (self.payload.len() == self.len).then(|| self.payload.clone()),
            packed => compress::unpack(packed, &self.payload, self.len),
        }
    }
}

/// Position in the structure of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecodeStage {
    Preamble,
    /// The reader is between two parts.
    Between,
    Part {
        block_size: u32,
        /// Number of blocks of the volume.
        end: u64,
        /// Number below which the stream has described all blocks.
        next: u64,
        /// Number of blocks that had bytes.
        blocks: u64,
    },
    Closed,
}

/// Reader of a stream. The caller feeds bytes in any pieces. [`Decoder::finish`] reports whether
/// the stream was complete.
#[derive(Debug)]
pub struct Decoder {
    stage: DecodeStage,
    /// Checksum of the last record.
    chain: u128,
    strong: blake3::Hasher,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read, followed by how many of those are hashed.
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
    /// Makes a reader at the beginning of a stream.
    pub fn new() -> Self {
        Self {
            stage: DecodeStage::Preamble,
            chain: seed(),
            strong: blake3::Hasher::new(),
            buffer: Vec::new(),
            read: 0,
            hashed: 0,
            before: 0,
            failure: None,
        }
    }

    /// Feeds the next bytes. Memory holds them and less than one record. So a caller needs bounded
    /// memory if it feeds pieces of bounded length and asks for all items between them.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.hash();
        self.buffer.drain(..self.read);
        self.before += self.read as u64;
        self.read = 0;
        self.hashed = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of bytes of the stream that were understood.
    pub fn position(&self) -> u64 {
        self.before + self.read as u64
    }

    /// Returns the next item of the stream. Returns `None` if the reader needs more bytes to know
    /// the item.
    ///
    /// # Errors
    /// The stream is not believed from here on, and the reader says nothing more of it.
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

    /// Notes that no more bytes come.
    ///
    /// # Errors
    /// The stream is not complete, or bytes follow it.
    pub fn finish(&self) -> Result<(), StreamError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let rest = self.buffer.len() - self.read;
        let (kind, context) = match self.stage {
            DecodeStage::Closed if rest == 0 => return Ok(()),
            DecodeStage::Closed => (
                StreamErrorKind::Invalid,
                "bytes follow the end of the stream",
            ),
            DecodeStage::Preamble if self.position() == 0 && rest == 0 => {
                (StreamErrorKind::Truncated, "the stream is empty")
            }
            _ => (StreamErrorKind::Truncated, "the stream was cut off"),
        };
        Err(self.error(kind, context))
    }

    fn step(&mut self) -> Result<Option<Item>, StreamError> {
        if self.stage == DecodeStage::Preamble && !self.read_preamble()? {
            return Ok(None);
        }
        let rest = &self.buffer[self.read..];
        if self.stage == DecodeStage::Closed {
            return match rest.is_empty() {
                true => Ok(None),
                false => Err(self.error(
                    StreamErrorKind::Invalid,
                    "bytes follow the end of the stream",
                )),
            };
        }
        let Some((head, behind)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let damaged = "a record is damaged, missing or out of place";
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
            let context = "the input is not a stream of a Sandstone volume";
            return Err(self.error(StreamErrorKind::Foreign, context));
        }
        let Some(bytes) = self.buffer.first_chunk::<PREAMBLE>() else {
            return Ok(false);
        };
        if *bytes != preamble() {
            let version = u16::from_le_bytes([bytes[8], bytes[9]]);
            let context = format!(
                "the stream has version {version}, but this program knows version {VERSION}"
            );
            return Err(self.error(StreamErrorKind::Version, context));
        }
        self.read = PREAMBLE;
        self.stage = DecodeStage::Between;
        Ok(true)
    }

    /// Takes a record whose checksum is right. Checks whether the record may stand here, and
    /// returns its item.
    fn take_record(
        &mut self,
        header: Header,
        body: std::ops::Range<usize>,
    ) -> Result<Item, StreamError> {
        let Header { block, count, .. } = header;
        match (header.kind, self.stage) {
            (RecordKind::Failed, _) => {
                let reason = String::from_utf8_lossy(&self.buffer[body]).into_owned();
                Err(self.error(StreamErrorKind::Failed, reason))
            }
            (RecordKind::Begin, DecodeStage::Between) => self.take_begin(body),
            (RecordKind::Close, DecodeStage::Between) => {
                self.stage = DecodeStage::Closed;
                Ok(Item::Close)
            }
            (
                RecordKind::Data,
                DecodeStage::Part {
                    block_size,
                    end,
                    next,
                    blocks,
                },
            ) => {
                if block < next || block >= end || count != 1 {
                    return Err(self.misplaced(block));
                }
                self.stage = DecodeStage::Part {
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
                RecordKind::Free,
                DecodeStage::Part {
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
                self.stage = DecodeStage::Part {
                    block_size,
                    end,
                    next: behind,
                    blocks,
                };
                let first = block;
                Ok(Item::Free { first, count })
            }
            (RecordKind::End, DecodeStage::Part { end, blocks, .. }) => {
                self.hash();
                let is_right = *self.strong.finalize().as_bytes() == self.buffer[body];
                if !is_right || block != end || count != blocks {
                    let context =
                        "the received data does not match the checksum at the end of the stream";
                    return Err(self.error(StreamErrorKind::Damaged, context));
                }
                self.stage = DecodeStage::Between;
                Ok(Item::End)
            }
            _ => {
                let context = "a record of this kind cannot follow here";
                Err(self.error(StreamErrorKind::Invalid, context))
            }
        }
    }

    fn take_begin(&mut self, body: std::ops::Range<usize>) -> Result<Item, StreamError> {
        let begin: Begin = serde_json::from_slice(&self.buffer[body]).map_err(|error| {
            let context = format!("the description of the snapshot cannot be read: {error}");
            self.error(StreamErrorKind::Invalid, context)
        })?;
        if let Some(fault) = begin.fault() {
            return Err(self.error(StreamErrorKind::Invalid, fault));
        }
        self.stage = DecodeStage::Part {
            block_size: begin.block_size,
            end: begin.blocks(),
            next: begin.start,
            blocks: 0,
        };
        Ok(Item::Begin(Box::new(begin)))
    }

    fn misplaced(&self, block: u64) -> StreamError {
        let context = format!("block {block} is out of order or outside the volume");
        self.error(StreamErrorKind::Invalid, context)
    }

    fn error(&self, kind: StreamErrorKind, context: impl Into<String>) -> StreamError {
        StreamError::new(kind, self.position(), context)
    }

    /// Hashes the bytes that were read.
    fn hash(&mut self) {
        self.strong.update(&self.buffer[self.hashed..self.read]);
        self.hashed = self.read;
    }
}

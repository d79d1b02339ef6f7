//! Request of the transmission phase: its header on the wire, and its command after the check
//! against the export ("Request message", "Request types").

use crate::Export;
use crate::handshake::{Agreed, HeaderStyle};
use crate::wire::{
    EXTENDED_REQUEST_MAGIC, ErrorCode, REQUEST_MAGIC, command, command_flag as flag,
};

/// Length of a compact header in bytes.
pub(crate) const COMPACT_LENGTH: usize = 28;
/// Length of an extended header in bytes.
pub(crate) const EXTENDED_LENGTH: usize = 32;

/// Request as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flags: u16,
    pub(crate) kind: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Request to which an answer belongs, and the form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Client's name for the request, returned unchanged.
    pub cookie: u64,
    /// Offset of the request, which extended replies repeat.
    pub offset: u64,
    /// Whether the request is a read, whose answers have a form of their own.
    pub is_read: bool,
}

/// Request that may go to the device. Offsets and lengths are bytes, inside the export and
/// multiples of its minimum block. Lengths are not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Request that is to be answered.
    pub asked: Asked,
    /// Command to carry out.
    pub command: Command,
}

/// Command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read of at most the maximum payload.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Write of at most the maximum payload. The payload follows.
    Write {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// Whether to answer only once the data is on stable storage.
        fua: bool,
    },
    /// Make all writes durable that were answered, on whatever connection they came.
    Flush,
    /// Forget the data and free its space.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Whether to answer only once the result is on stable storage.
        fua: bool,
    },
    /// Bring the data near, at most the maximum payload.
    Cache {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Write zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Whether the space may be freed.
        may_unmap: bool,
        /// Whether to answer only once the zeros are on stable storage.
        fua: bool,
    },
    /// Report the parts that hold data.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Whether to report one extent only, no longer than `len`.
        one: bool,
    },
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason for programs.
    pub code: ErrorCode,
    /// Reason for people.
    pub message: &'static str,
}

impl Refusal {
    pub(crate) const fn new(code: ErrorCode, message: &'static str) -> Self {
        Self { code, message }
    }
}

/// Verdict on a request once its header is known.
pub(crate) type Judged = Result<Option<Command>, Refusal>;

impl Header {
    /// Returns the length of a header in this style.
    pub(crate) fn length(style: HeaderStyle) -> usize {
        match style {
            HeaderStyle::Extended => EXTENDED_LENGTH,
            HeaderStyle::Simple | HeaderStyle::Structured => COMPACT_LENGTH,
        }
    }

    /// Reads a header of the right length, or returns `None` if the magic number is wrong.
    pub(crate) fn parse(bytes: &[u8], style: HeaderStyle) -> Option<Self> {
        let (magic, len) = match style {
            HeaderStyle::Extended => (EXTENDED_REQUEST_MAGIC, big_endian(bytes, 24, 8)),
            HeaderStyle::Simple | HeaderStyle::Structured => {
                (REQUEST_MAGIC, big_endian(bytes, 24, 4))
            }
        };
        (big_endian(bytes, 0, 4) == u64::from(magic)).then(|| Self {
            flags: big_endian(bytes, 4, 2) as u16,
            kind: big_endian(bytes, 6, 2) as u16,
            cookie: big_endian(bytes, 8, 8),
            offset: big_endian(bytes, 16, 8),
            len,
        })
    }

    pub(crate) fn asked(&self) -> Asked {
        Asked {
            cookie: self.cookie,
            offset: self.offset,
            is_read: self.kind == command::READ,
        }
    }

    /// Returns the number of bytes that follow the header. A write always has a payload: QEMU's
    /// client (10.0) speaks extended headers and forgets to set PAYLOAD_LEN.
    pub(crate) fn payload_len(&self, style: HeaderStyle) -> u64 {
        let flagged = style == HeaderStyle::Extended && self.flags & flag::PAYLOAD_LEN != 0;
        let has_payload = flagged || self.kind == command::WRITE;
        if has_payload { self.len } else { 0 }
    }

    /// Reports whether the payload names the part and the contexts that the client wants to know
    /// of.
    pub(crate) fn has_status_payload(&self, agreed: Agreed) -> bool {
        agreed.style == HeaderStyle::Extended
            && agreed.allocation
            && self.kind == command::BLOCK_STATUS
            && self.flags & flag::PAYLOAD_LEN != 0
    }

    /// Decides what to do. `None` means nothing at all (a length of 0), which succeeds.
    pub(crate) fn judge(&self, export: &Export, agreed: Agreed) -> Judged {
        self.check_flags(agreed)?;
        let (offset, len) = (self.offset, self.len);
        let fua = self.flags & flag::FUA != 0;
        let writes = matches!(
            self.kind,
            command::WRITE | command::TRIM | command::WRITE_ZEROES
        );
        if writes && export.read_only {
            return Err(Refusal::new(ErrorCode::Perm, "the export is read-only"));
        }
        if self.kind == command::FLUSH {
            return match (offset, len) {
                (0, 0) => Ok(Some(Command::Flush)),
                _ => Err(invalid("a flush takes no range")),
            };
        }
        self.check_range(export)?;
        if len == 0 {
            return match self.kind {
                command::BLOCK_STATUS => Err(invalid("a block status request needs a length")),
                _ => Ok(None),
            };
        }
        let command = match self.kind {
            command::READ => {
                let code = match agreed.style {
                    HeaderStyle::Simple => ErrorCode::Inval,
                    HeaderStyle::Structured | HeaderStyle::Extended => ErrorCode::Overflow,
                };
                let len = at_most(len, export.maximum_payload, code)?;
                Command::Read { offset, len }
            }
            command::WRITE => {
                let len = at_most(len, export.maximum_payload, ErrorCode::Inval)?;
                Command::Write { offset, len, fua }
            }
            command::TRIM if !export.can_trim => {
                return Err(invalid("the export does not support trim"));
            }
            command::TRIM => Command::Trim { offset, len, fua },
            command::CACHE => {
                let len = at_most(len, export.maximum_payload, ErrorCode::Overflow)?;
                Command::Cache { offset, len }
            }
            command::WRITE_ZEROES => self.write_zeroes(export)?,
            // The kind was checked with the flags, so this is BLOCK_STATUS.
            _ => Command::BlockStatus {
                offset,
                len,
                one: self.flags & flag::REQ_ONE != 0,
            },
        };
        Ok(Some(command))
    }

    fn write_zeroes(&self, export: &Export) -> Result<Command, Refusal> {
        let may_unmap = self.flags & flag::NO_HOLE == 0;
        let fast = export.can_zero_fast && may_unmap;
        if self.flags & flag::FAST_ZERO != 0 && !fast {
            let message = "zeros are no faster than a write";
            return Err(Refusal::new(ErrorCode::NotSup, message));
        }
        Ok(Command::WriteZeroes {
            offset: self.offset,
            len: self.len,
            may_unmap,
            fua: self.flags & flag::FUA != 0,
        })
    }

    /// Refuses unknown commands, and flags that mean nothing for their command ("Command flags").
    fn check_flags(&self, agreed: Agreed) -> Result<(), Refusal> {
        let extended = agreed.style == HeaderStyle::Extended;
        let own = match self.kind {
            command::READ if agreed.style != HeaderStyle::Simple => flag::DF,
            command::WRITE if extended => flag::PAYLOAD_LEN,
            command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
            command::BLOCK_STATUS if !agreed.allocation => {
                return Err(invalid("no metadata context was chosen"));
            }
            command::BLOCK_STATUS => flag::REQ_ONE,
            command::READ..=command::CACHE => 0,
            _ => return Err(invalid("unknown command")),
        };
        if self.flags & !(own | flag::FUA) != 0 {
            return Err(invalid("a flag that this command does not take"));
        }
        Ok(())
    }

    fn check_range(&self, export: &Export) -> Result<(), Refusal> {
        let end = self.offset.checked_add(self.len);
        if end.is_none_or(|end| end > export.size) {
            let code = match self.kind {
                command::WRITE | command::WRITE_ZEROES => ErrorCode::NoSpc,
                _ => ErrorCode::Inval,
            };
            return Err(Refusal::new(code, "beyond the end of the export"));
        }
        let mask = u64::from(export.minimum_block) - 1;
        if (self.offset | self.len) & mask != 0 {
            return Err(invalid("not a multiple of the minimum block size"));
        }
        Ok(())
    }
}

const fn invalid(message: &'static str) -> Refusal {
    Refusal::new(ErrorCode::Inval, message)
}

fn at_most(len: u64, maximum: u32, code: ErrorCode) -> Result<u32, Refusal> {
    let fits = u32::try_from(len).ok().filter(|len| *len <= maximum);
    fits.ok_or(Refusal::new(code, "longer than the maximum payload"))
}

/// Reads `len` bytes at `at` as a number. The caller made sure that they are there.
fn big_endian(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

//! Streams: a snapshot, or the changes from one snapshot to the next, as bytes. The bytes can lie
//! in a file, or go through a pipe or to another machine. This module handles bytes only;
//! `docs/stream.md` draws them.
//!
//! A stream is believed record by record. Each record carries a checksum that goes on from the one
//! before. So damage, a cut and a wrong order are found before anything of the record is used. A
//! part makes one snapshot. It counts only with its end, which has a strong checksum of everything
//! before.
//!
//! | question | file |
//! |---|---|
//! | What does a stream say of a snapshot? | `begin.rs` |
//! | What does a record look like? | `record.rs` |
//! | Who writes a stream? | `encode.rs` |
//! | Who reads a stream, believing nothing? | `decode.rs` |
//! | Where does an interrupted stream go on? | `token.rs` |

mod begin;
mod decode;
mod encode;
mod error;
mod record;
mod token;

#[cfg(test)]
mod tests;

pub(crate) use begin::MAX_SOURCE;
pub use begin::{Begin, MAX_BEGIN};
pub use decode::{Decoder, Item, Packed};
pub use encode::Encoder;
pub use error::{StreamError, StreamErrorKind};
pub use record::{HEADER, MAGIC, PREAMBLE, VERSION};
pub use token::ResumeToken;

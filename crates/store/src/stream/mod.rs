//! Streams: a snapshot, or what changed from one to the next, as bytes that can lie in a file, go through
//! a pipe or to another machine. Pure bytes; `docs/stream.md` draws them.
//!
//! A stream is believed record by record: each carries a checksum that goes on from the one before, so
//! that damage, a cut and another order are found before anything of the record is used. A part, which
//! makes one snapshot, counts only with its end, which has a strong checksum of everything until then.
//!
//! | question | file |
//! |---|---|
//! | what is said of a snapshot | `begin.rs` |
//! | how does a record look | `record.rs` |
//! | who writes a stream | `encode.rs` |
//! | who reads one, believing nothing | `decode.rs` |
//! | where does an interrupted one go on | `token.rs` |

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

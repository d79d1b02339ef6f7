//! iSNS without I/O: what a target tells a storage name server, what an initiator asks it, and what they
//! are answered (RFC 4171).
//!
//! A client keeps one *network entity* at the server, made of its portals, its iSCSI nodes and the
//! portal groups that join them; see [`Registration`]. Everything is a request and a response on a
//! TCP connection: [`Message`] is one of them whole, [`Assembler`] makes messages of received bytes.
//!
//! | what | where |
//! |---|---|
//! | headers, splitting and joining of long messages | `pdu.rs` |
//! | tag, length, value | `attribute.rs` |
//! | DevAttrReg, DevAttrQry, DevDereg | `request.rs` |
//! | status codes and the answers | `response.rs` |
//! | what an initiator asks: which targets there are | `query.rs` |

mod attribute;
mod pdu;
mod query;
mod request;
mod response;

pub use attribute::{Attribute, Attributes, Tag};
pub use pdu::{Assembler, Flags, Function, MAX_MESSAGE, MAX_PDU_PAYLOAD, Message};
pub use query::{FoundTarget, Visitor, found_targets};
pub use request::{Node, Registration};
pub use response::{Response, Status};

use std::fmt;

/// The TCP port of iSNS servers (RFC 4171 §4.3.1).
pub const DEFAULT_PORT: u16 = 3205;

/// Why received bytes are no iSNS message. The stream they came from cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Another protocol version than 1, or another protocol.
    Version(u16),
    /// The PDU length is not a multiple of four, or over the limit.
    Length(usize),
    /// A message in pieces whose pieces do not follow each other.
    Sequence,
    /// The message is longer than [`MAX_MESSAGE`].
    TooLong,
    /// It is signed, and this client shares no keys with a server.
    Signed,
    /// An attribute that runs over the end of its message, or is not padded to four bytes.
    Attribute,
    /// An attribute whose value has another size or form than its tag asks for.
    Value(Tag),
    /// A response without a status code.
    NoStatus,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version {version} is not iSNS version 1"),
            Self::Length(length) => write!(f, "a PDU of {length} bytes is not allowed"),
            Self::Sequence => f.write_str("the pieces of a message do not follow each other"),
            Self::TooLong => write!(f, "a message of more than {MAX_MESSAGE} bytes"),
            Self::Signed => f.write_str("a signed message, and no keys are shared"),
            Self::Attribute => f.write_str("an attribute runs over the end of its message"),
            Self::Value(tag) => write!(f, "the value of attribute {} is malformed", tag.0),
            Self::NoStatus => f.write_str("a response without a status code"),
        }
    }
}

impl std::error::Error for DecodeError {}

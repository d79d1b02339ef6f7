//! iSNS without I/O: messages of a target and of an initiator to a storage name server, and the
//! answers (RFC 4171).
//!
//! A client keeps one *network entity* at the server, made of its portals, its iSCSI nodes and the
//! portal groups that join them (see [`Registration`]). Every exchange is a request and a response
//! on a TCP connection. [`Message`] is a complete request or response, and [`Assembler`] makes
//! messages of received bytes.
//!
//! | part | file |
//! |---|---|
//! | headers, splitting and joining of long messages | `pdu.rs` |
//! | tag, length, value | `attribute.rs` |
//! | DevAttrReg, DevAttrQry, DevDereg | `request.rs` |
//! | status codes and the answers | `response.rs` |
//! | an initiator's query for targets | `query.rs` |

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

/// TCP port of iSNS servers (RFC 4171 §4.3.1).
pub const DEFAULT_PORT: u16 = 3205;

/// Reasons why received bytes are no iSNS message. Their stream cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The message has another protocol version than 1, or another protocol.
    Version(u16),
    /// The PDU length is not a multiple of four, or is over the limit.
    Length(usize),
    /// The pieces of a message do not follow each other.
    Sequence,
    /// The message is longer than [`MAX_MESSAGE`].
    TooLong,
    /// The message is signed, and this client shares no keys with a server.
    Signed,
    /// An attribute runs over the end of its message, or is not padded to four bytes.
    Attribute,
    /// An attribute's value has another size or form than its tag asks for.
    Value(Tag),
    /// A response has no status code.
    NoStatus,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version {version} is not iSNS version 1"),
            Self::Length(length) => write!(f, "a PDU of {length} bytes is not allowed"),
            Self::Sequence => f.write_str("the parts of a message are not in sequence"),
            Self::TooLong => write!(f, "a message is longer than {MAX_MESSAGE} bytes"),
            Self::Signed => f.write_str("a message is signed, but no keys are shared"),
            Self::Attribute => f.write_str("an attribute extends beyond the end of its message"),
            Self::Value(tag) => write!(f, "the value of attribute {} is malformed", tag.0),
            Self::NoStatus => f.write_str("a response has no status code"),
        }
    }
}

impl std::error::Error for DecodeError {}

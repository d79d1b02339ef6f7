//! iSCSI without I/O: bytes in, events and bytes out (RFC 7143).
//!
//! Target and initiator share the PDUs, the text keys and their negotiation, CHAP and the digests.
//! CDB and sense data pass through as opaque bytes. Nothing here reads a clock, opens a socket or
//! makes up random numbers.
//!
//! | part | module |
//! |---|---|
//! | the 48 bytes of each PDU | [`pdu`] |
//! | LOGIN at the target | [`target::login`] |
//! | a session's commands, data and responses at the target | [`target::Session`] |
//! | SendTargets | [`target::discovery`], [`send_targets`] |
//! | LOGIN at the initiator | [`initiator::login`] |
//! | an initiator's session | [`initiator::Session`] |
//! | `key=value` text, and the negotiation of keys | [`text_keys`], [`negotiation`] |
//! | rule for names that other systems chose | [`name`] |
//! | authentication | [`chap`] |
//! | CRC32C | [`digest`] |
//! | registration with a storage name server (RFC 4171) | [`isns`] |
//! | sequence numbers that wrap | [`serial_number`] |

pub mod chap;
pub mod digest;
pub mod initiator;
pub mod isns;
pub mod lun;
pub mod name;
pub mod negotiation;
pub mod payload;
pub mod pdu;
pub mod send_targets;
pub mod serial_number;
pub mod target;
pub mod text_keys;

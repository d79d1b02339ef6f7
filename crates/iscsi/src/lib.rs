//! iSCSI without I/O: bytes in, events and bytes out (RFC 7143).
//!
//! Target and initiator share the PDUs, the text keys and their negotiation, CHAP and the digests.
//! CDB and sense data pass through as opaque bytes; nothing here reads a clock, opens a socket or
//! makes up random numbers.

pub mod chap;
pub mod digest;
pub mod initiator;
pub mod negotiation;
pub mod payload;
pub mod pdu;
pub mod send_targets;
pub mod serial_number;
pub mod target;
pub mod text_keys;

//! iSNSP messages and the PDUs that carry them: a message of more than one PDU's payload is split
//! and joined again (RFC 4171 §5.1).

use super::DecodeError;

/// Length of a PDU header in bytes.
const HEADER_LEN: usize = 12;

/// Most payload of one PDU in bytes: the largest length in 16 bits that is a multiple of four.
pub const MAX_PDU_PAYLOAD: usize = 65_532;

/// Longest message that is joined, in bytes. It is far above a server's answer to a client that
/// asks about itself, and far below a harmful size.
pub const MAX_MESSAGE: usize = 4 << 20;

/// Question or answer of a message (RFC 4171 §4.1.3). Responses have the top bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub u16);

impl Function {
    /// Device attribute registration.
    pub const DEV_ATTR_REG: Self = Self(0x0001);
    /// Device attribute query.
    pub const DEV_ATTR_QRY: Self = Self(0x0002);
    /// Device deregistration.
    pub const DEV_DEREG: Self = Self(0x0004);

    /// Returns the function of the response to this request.
    #[must_use]
    pub const fn response(self) -> Self {
        Self(self.0 | 0x8000)
    }
}

/// Flags of a message (RFC 4171 §5.1.4), beside those of the first and last PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The sender is a client.
    pub const CLIENT: Self = Self(0x8000);
    /// The sender is a server.
    pub const SERVER: Self = Self(0x4000);
    /// Flag of a registration that first removes all that was registered under this key.
    pub const REPLACE: Self = Self(0x1000);

    const SIGNED: u16 = 0x2000;
    const LAST_PDU: u16 = 0x0800;
    const FIRST_PDU: u16 = 0x0400;

    /// Joins both sets of flags.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Complete request or response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Question or answer of the message.
    pub function: Function,
    /// Sender of the message, and whether to replace.
    pub flags: Flags,
    /// Number that a request shares with its response.
    pub transaction_id: u16,
    /// Attributes, in a response after four bytes of status.
    pub payload: Vec<u8>,
}

impl Message {
    /// Returns the PDUs of this message, one behind the other. The payload is a multiple of four
    /// bytes, as every payload made of attributes is.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.payload.len() + HEADER_LEN);
        let pieces = self.payload.len().div_ceil(MAX_PDU_PAYLOAD).max(1);
        let mut rest = &self.payload[..];
        for sequence in 0..pieces {
            let (piece, after) = rest.split_at(rest.len().min(MAX_PDU_PAYLOAD));
            rest = after;
            let mut flags = self.flags.0;
            if sequence == 0 {
                flags |= Flags::FIRST_PDU;
            }
            if sequence + 1 == pieces {
                flags |= Flags::LAST_PDU;
            }
            let words = [
                1,
                self.function.0,
                piece.len() as u16,
                flags,
                self.transaction_id,
                sequence as u16,
            ];
            for word in words {
                bytes.extend_from_slice(&word.to_be_bytes());
            }
            bytes.extend_from_slice(piece);
        }
        bytes
    }
}

/// Maker of messages from the bytes of a connection, however they arrive.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    received: Vec<u8>,
    begun: Option<Begun>,
}

/// Message of which PDUs are still to come.
#[derive(Clone, Debug)]
struct Begun {
    message: Message,
    next_sequence: u16,
}

impl Assembler {
    /// Takes bytes that were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Returns the next complete message, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// The bytes are no iSNS messages, and the connection is of no more use.
    pub fn next_message(&mut self) -> Result<Option<Message>, DecodeError> {
        loop {
            let Some(header) = self.received.first_chunk::<HEADER_LEN>() else {
                return Ok(None);
            };
            let word = |index: usize| u16::from_be_bytes([header[index], header[index + 1]]);
            let (version, function, length) = (word(0), Function(word(2)), usize::from(word(4)));
            let (flags, transaction_id, sequence) = (word(6), word(8), word(10));
            if version != 1 {
                return Err(DecodeError::Version(version));
            }
            if !length.is_multiple_of(4) {
                return Err(DecodeError::Length(length));
            }
            if flags & Flags::SIGNED != 0 {
                return Err(DecodeError::Signed);
            }
            let Some(piece) = self.received.get(HEADER_LEN..HEADER_LEN + length) else {
                return Ok(None);
            };
            let mut begun = match self.begun.take() {
                None if flags & Flags::FIRST_PDU != 0 && sequence == 0 => Begun {
                    message: Message {
                        function,
                        flags: Flags(flags & !(Flags::FIRST_PDU | Flags::LAST_PDU)),
                        transaction_id,
                        payload: Vec::new(),
                    },
                    next_sequence: 0,
                },
                Some(begun)
                    if flags & Flags::FIRST_PDU == 0
                        && begun.next_sequence == sequence
                        && begun.message.function == function
                        && begun.message.transaction_id == transaction_id =>
                {
                    begun
                }
                _ => return Err(DecodeError::Sequence),
            };
            if begun.message.payload.len() + length > MAX_MESSAGE {
                return Err(DecodeError::TooLong);
            }
            begun.message.payload.extend_from_slice(piece);
            self.received.drain(..HEADER_LEN + length);
            if flags & Flags::LAST_PDU != 0 {
                return Ok(Some(begun.message));
            }
            begun.next_sequence = sequence.checked_add(1).ok_or(DecodeError::Sequence)?;
            self.begun = Some(begun);
        }
    }
}

//! iSNSP messages and the PDUs that carry them: a message of more than one PDU's payload is split and
//! joined again (RFC 4171 §5.1).

use super::DecodeError;

/// Bytes of a PDU header.
const HEADER_LEN: usize = 12;

/// The most payload of one PDU in bytes: what 16 bits of length can tell, in words of four.
pub const MAX_PDU_PAYLOAD: usize = 65_532;

/// The longest message that is joined, in bytes: far above what a server answers to a client that
/// asks about itself, far below what would hurt.
pub const MAX_MESSAGE: usize = 4 << 20;

/// What a message asks or answers (RFC 4171 §4.1.3). Responses have the top bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub u16);

impl Function {
    /// Device attribute registration.
    pub const DEV_ATTR_REG: Self = Self(0x0001);
    /// Device attribute query.
    pub const DEV_ATTR_QRY: Self = Self(0x0002);
    /// Device deregistration.
    pub const DEV_DEREG: Self = Self(0x0004);

    /// The function of the response to this request.
    #[must_use]
    pub const fn response(self) -> Self {
        Self(self.0 | 0x8000)
    }
}

/// Flags of a message (RFC 4171 §5.1.4) beside those that tell first and last PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The sender is a client.
    pub const CLIENT: Self = Self(0x8000);
    /// The sender is a server.
    pub const SERVER: Self = Self(0x4000);
    /// In a registration: what was registered before under this key goes first.
    pub const REPLACE: Self = Self(0x1000);

    const SIGNED: u16 = 0x2000;
    const LAST_PDU: u16 = 0x0800;
    const FIRST_PDU: u16 = 0x0400;

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A whole request or response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it asks or answers.
    pub function: Function,
    /// Who sends it, and replace.
    pub flags: Flags,
    /// The same in a request and its response.
    pub transaction_id: u16,
    /// Attributes; in a response after four bytes of status.
    pub payload: Vec<u8>,
}

impl Message {
    /// The PDUs of this message, one behind the other. The payload is a multiple of four bytes, as
    /// every payload made of attributes is.
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

/// Makes messages of the bytes of a connection, however they arrive.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    received: Vec<u8>,
    begun: Option<Begun>,
}

/// A message of which PDUs are still to come.
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

    /// The next whole message; `None` until more bytes arrive.
    ///
    /// # Errors
    /// The bytes are no iSNS messages; the connection is of no more use.
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

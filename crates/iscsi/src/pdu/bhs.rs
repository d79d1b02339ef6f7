//! Basic header segment: the common layout of the 48 bytes at the start of every PDU (RFC 7143
//! §11.2.1).

use std::fmt;

/// Length of a basic header segment in bytes.
pub const BHS_LENGTH: usize = 48;

/// A basic header segment as it travels.
pub type RawBhs = [u8; BHS_LENGTH];

/// Reserved value of Initiator Task Tag and Target Transfer Tag: "no tag".
pub const RESERVED_TAG: u32 = 0xffff_ffff;

/// Longest data segment that a header can state, in bytes (DataSegmentLength has 24 bits).
pub const MAX_DATA_SEGMENT_LENGTH: u32 = 0x00ff_ffff;

/// Reasons why a header cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduError {
    /// The opcode is none of RFC 7143 §11.2.1.2.
    UnknownOpcode(u8),
    /// The header is of another type than the expected one.
    WrongOpcode {
        /// Expected opcode.
        expected: Opcode,
        /// Byte 0 of the header without the immediate bit.
        found: u8,
    },
    /// A field, of this name, holds a value that the RFC forbids.
    Invalid(&'static str),
    /// An additional header segment does not fit the length stated for all of them.
    TruncatedAhs,
}

impl fmt::Display for PduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOpcode(opcode) => write!(f, "unknown opcode {opcode:#04x}"),
            Self::WrongOpcode { expected, found } => {
                write!(
                    f,
                    "expected {expected:?} (opcode {:#04x}), found opcode {found:#04x}",
                    *expected as u8
                )
            }
            Self::Invalid(field) => write!(f, "invalid value of {field}"),
            Self::TruncatedAhs => f.write_str("additional header segment exceeds TotalAHSLength"),
        }
    }
}

impl std::error::Error for PduError {}

/// Type of a PDU (RFC 7143 §11.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// NOP-Out, from the initiator.
    NopOut = 0x00,
    /// SCSI Command, from the initiator.
    ScsiCommand = 0x01,
    /// SCSI Task Management Function Request, from the initiator.
    TaskManagementRequest = 0x02,
    /// Login Request, from the initiator.
    LoginRequest = 0x03,
    /// Text Request, from the initiator.
    TextRequest = 0x04,
    /// SCSI Data-Out, from the initiator.
    DataOut = 0x05,
    /// Logout Request, from the initiator.
    LogoutRequest = 0x06,
    /// SNACK Request, from the initiator.
    SnackRequest = 0x10,
    /// NOP-In, from the target.
    NopIn = 0x20,
    /// SCSI Response, from the target.
    ScsiResponse = 0x21,
    /// SCSI Task Management Function Response, from the target.
    TaskManagementResponse = 0x22,
    /// Login Response, from the target.
    LoginResponse = 0x23,
    /// Text Response, from the target.
    TextResponse = 0x24,
    /// SCSI Data-In, from the target.
    DataIn = 0x25,
    /// Logout Response, from the target.
    LogoutResponse = 0x26,
    /// Ready To Transfer, from the target.
    ReadyToTransfer = 0x31,
    /// Asynchronous Message, from the target.
    AsyncMessage = 0x32,
    /// Reject, from the target.
    Reject = 0x3f,
}

impl Opcode {
    /// Returns the opcode in byte 0 of a header. The immediate bit is ignored.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte & 0x3f {
            0x00 => Self::NopOut,
            0x01 => Self::ScsiCommand,
            0x02 => Self::TaskManagementRequest,
            0x03 => Self::LoginRequest,
            0x04 => Self::TextRequest,
            0x05 => Self::DataOut,
            0x06 => Self::LogoutRequest,
            0x10 => Self::SnackRequest,
            0x20 => Self::NopIn,
            0x21 => Self::ScsiResponse,
            0x22 => Self::TaskManagementResponse,
            0x23 => Self::LoginResponse,
            0x24 => Self::TextResponse,
            0x25 => Self::DataIn,
            0x26 => Self::LogoutResponse,
            0x31 => Self::ReadyToTransfer,
            0x32 => Self::AsyncMessage,
            0x3f => Self::Reject,
            _ => return None,
        })
    }

    /// Reports whether initiators send this PDU (bit 5 of the opcode is clear).
    #[inline]
    pub const fn from_initiator(self) -> bool {
        self as u8 & 0x20 == 0
    }
}

/// Fields that every header has at a common place.
#[derive(Clone, Copy, Debug)]
pub struct Bhs<'a>(&'a RawBhs);

impl<'a> Bhs<'a> {
    /// Wraps `raw` without any check.
    #[inline]
    pub const fn new(raw: &'a RawBhs) -> Self {
        Self(raw)
    }

    /// Returns the type of the PDU.
    ///
    /// # Errors
    /// [`PduError::UnknownOpcode`].
    #[inline]
    pub const fn opcode(self) -> Result<Opcode, PduError> {
        match Opcode::from_byte(self.0[0]) {
            Some(opcode) => Ok(opcode),
            None => Err(PduError::UnknownOpcode(self.0[0] & 0x3f)),
        }
    }

    /// Returns the I bit: immediate delivery (requests only).
    #[inline]
    pub const fn immediate(self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// Returns the F bit (the T bit of a login PDU).
    #[inline]
    pub const fn is_final(self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// Returns TotalAHSLength in bytes (a multiple of four, at most 1020).
    #[inline]
    pub const fn total_ahs_length(self) -> usize {
        self.0[4] as usize * 4
    }

    /// Returns DataSegmentLength in bytes, without padding.
    #[inline]
    pub const fn data_segment_length(self) -> usize {
        u32::from_be_bytes([0, self.0[5], self.0[6], self.0[7]]) as usize
    }

    /// Returns the data segment's length on the wire, padded to a multiple of four.
    #[inline]
    pub const fn padded_data_segment_length(self) -> usize {
        padded(self.data_segment_length())
    }

    /// Returns the length of the whole PDU on the wire, digests included.
    #[inline]
    pub const fn pdu_length(self, header_digest: bool, data_digest: bool) -> usize {
        let header = BHS_LENGTH + self.total_ahs_length() + if header_digest { 4 } else { 0 };
        let data = self.padded_data_segment_length();
        header + data + if data_digest && data > 0 { 4 } else { 0 }
    }

    /// Returns the LUN field (bytes 8 to 15) as a big-endian number.
    #[inline]
    pub const fn lun(self) -> u64 {
        be64(self.0, 8)
    }

    /// Returns the Initiator Task Tag.
    #[inline]
    pub const fn itt(self) -> u32 {
        be32(self.0, 16)
    }

    /// Returns ExpStatSN, which lies in bytes 28 to 31 of every PDU of an initiator (RFC 7143 §11).
    #[inline]
    pub const fn exp_stat_sn(self) -> u32 {
        be32(self.0, 28)
    }
}

/// Rounds `length` up to a multiple of four, as data segments and AHS are on the wire.
#[inline]
pub const fn padded(length: usize) -> usize {
    (length + 3) & !3
}

/// Fails unless `raw` is a header of the given type.
#[inline]
pub(super) const fn expect(raw: &RawBhs, expected: Opcode) -> Result<(), PduError> {
    let found = raw[0] & 0x3f;
    if found == expected as u8 {
        Ok(())
    } else {
        Err(PduError::WrongOpcode { expected, found })
    }
}

/// Clears `raw`, and writes the fields with which every request begins.
#[inline]
pub(super) fn start(raw: &mut RawBhs, opcode: Opcode, immediate: bool, flags: u8) {
    *raw = [0; BHS_LENGTH];
    raw[0] = opcode as u8 | bit(immediate, 0x40);
    raw[1] = flags;
}

/// Writes DataSegmentLength. The upper eight bits of `length` do not exist on the wire.
#[inline]
pub(super) fn put_data_segment_length(raw: &mut RawBhs, length: u32) {
    debug_assert!(length <= MAX_DATA_SEGMENT_LENGTH);
    let [_, a, b, c] = length.to_be_bytes();
    raw[5] = a;
    raw[6] = b;
    raw[7] = c;
}

/// Returns DataSegmentLength as the PDU structures keep it.
#[inline]
pub(super) const fn data_segment_length(raw: &RawBhs) -> u32 {
    u32::from_be_bytes([0, raw[5], raw[6], raw[7]])
}

/// Returns `mask` if `set`, else 0.
#[inline]
pub(super) const fn bit(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}

/// Reads the big-endian number of 16 bits at `at`.
#[inline]
pub(super) const fn be16(raw: &RawBhs, at: usize) -> u16 {
    u16::from_be_bytes([raw[at], raw[at + 1]])
}

/// Reads the big-endian number of 32 bits at `at`.
#[inline]
pub(super) const fn be32(raw: &RawBhs, at: usize) -> u32 {
    u32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

/// Reads the big-endian number of 64 bits at `at`.
#[inline]
pub(super) const fn be64(raw: &RawBhs, at: usize) -> u64 {
    ((be32(raw, at) as u64) << 32) | be32(raw, at + 4) as u64
}

/// Writes a number of 16 bits at `at`.
#[inline]
pub(super) fn put16(raw: &mut RawBhs, at: usize, value: u16) {
    raw[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes a number of 32 bits at `at`.
#[inline]
pub(super) fn put32(raw: &mut RawBhs, at: usize, value: u32) {
    raw[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Writes a number of 64 bits at `at`.
#[inline]
pub(super) fn put64(raw: &mut RawBhs, at: usize, value: u64) {
    raw[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

/// Defines an enumeration of one-byte codes that keeps values it does not know.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            /// A value that the RFC does not define.
            Other(u8),
        }

        impl $name {
            /// Returns the meaning of a code.
            #[inline]
            pub const fn from_code(code: u8) -> Self {
                match code { $($value => Self::$variant,)* other => Self::Other(other) }
            }

            /// Returns the code on the wire.
            #[inline]
            pub const fn code(self) -> u8 {
                match self { $(Self::$variant => $value,)* Self::Other(other) => other }
            }
        }
    };
}
pub(super) use codes;

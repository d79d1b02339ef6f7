//! SCSI Command and its additional header segments (RFC 7143 §11.2.2, §11.3).

use super::bhs::{
    Opcode, PduError, RawBhs, be32, be64, bit, data_segment_length, expect, padded,
    put_data_segment_length, put32, put64, start,
};

/// Order of the task among others (RFC 7143 §11.3.1, SAM-5 8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TaskAttribute {
    /// Untagged, which is treated as simple.
    Untagged = 0,
    /// SIMPLE.
    Simple = 1,
    /// ORDERED.
    Ordered = 2,
    /// HEAD OF QUEUE.
    HeadOfQueue = 3,
    /// ACA.
    Aca = 4,
}

impl TaskAttribute {
    /// Returns the attribute in the low three bits of `code`. Values 5 to 7 are reserved.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code & 7 {
            0 => Self::Untagged,
            1 => Self::Simple,
            2 => Self::Ordered,
            3 => Self::HeadOfQueue,
            4 => Self::Aca,
            _ => return None,
        })
    }
}

/// SCSI Command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiCommand {
    /// I: outside the command window, executed at once.
    pub immediate: bool,
    /// F: no unsolicited Data-Out follows.
    pub is_final: bool,
    /// R: the command reads.
    pub read: bool,
    /// W: the command writes.
    pub write: bool,
    /// Task attribute, for the order of commands.
    pub attribute: TaskAttribute,
    /// Length of all additional header segments, in words of four bytes.
    pub total_ahs_length: u8,
    /// Length of the immediate data in bytes.
    pub data_segment_length: u32,
    /// Logical unit, as on the wire (SAM-5 4.6).
    pub lun: u64,
    /// Initiator Task Tag.
    pub itt: u32,
    /// Bytes that the initiator expects to move (of the write, if the command does both).
    pub expected_data_transfer_length: u32,
    /// Position in the session's order of commands.
    pub cmd_sn: u32,
    /// Acknowledges every status before it.
    pub exp_stat_sn: u32,
    /// Command descriptor block, or its first 16 bytes (see [`Ahs::ExtendedCdb`]).
    pub cdb: [u8; 16],
}

impl ScsiCommand {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode, or a reserved task attribute.
    #[inline]
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::ScsiCommand)?;
        let Some(attribute) = TaskAttribute::from_code(raw[1]) else {
            return Err(PduError::Invalid("ATTR"));
        };
        let mut cdb = [0; 16];
        cdb.copy_from_slice(&raw[32..48]);
        Ok(Self {
            immediate: raw[0] & 0x40 != 0,
            is_final: raw[1] & 0x80 != 0,
            read: raw[1] & 0x40 != 0,
            write: raw[1] & 0x20 != 0,
            attribute,
            total_ahs_length: raw[4],
            data_segment_length: data_segment_length(raw),
            lun: be64(raw, 8),
            itt: be32(raw, 16),
            expected_data_transfer_length: be32(raw, 20),
            cmd_sn: be32(raw, 24),
            exp_stat_sn: be32(raw, 28),
            cdb,
        })
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, raw: &mut RawBhs) {
        let flags = bit(self.is_final, 0x80)
            | bit(self.read, 0x40)
            | bit(self.write, 0x20)
            | self.attribute as u8;
        start(raw, Opcode::ScsiCommand, self.immediate, flags);
        raw[4] = self.total_ahs_length;
        put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.expected_data_transfer_length);
        put32(raw, 24, self.cmd_sn);
        put32(raw, 28, self.exp_stat_sn);
        raw[32..48].copy_from_slice(&self.cdb);
    }
}

/// One additional header segment (RFC 7143 §11.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahs<'a> {
    /// Bytes of the CDB after the first 16.
    ExtendedCdb(&'a [u8]),
    /// Expected Bidirectional Read Data Length in bytes.
    BidirectionalReadLength(u32),
    /// Type that RFC 7143 does not define.
    Unknown {
        /// AHSType.
        ahs_type: u8,
        /// Bytes after the type, AHSLength of them.
        content: &'a [u8],
    },
}

const AHS_EXTENDED_CDB: u8 = 1;
const AHS_BIDIRECTIONAL_READ: u8 = 2;

impl Ahs<'_> {
    /// Appends the segment, padded, to `out`. An extended CDB longer than 1012 bytes cannot be
    /// carried by TotalAHSLength, and is refused with `false`.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        let mut put = |ahs_type: u8, specific: u8, content: &[u8]| {
            let length = content.len() + 1;
            if length > 1013 {
                return false;
            }
            // AHSLength counts the bytes after AHSType, of which the first is AHS-specific.
            out.extend_from_slice(&(length as u16).to_be_bytes());
            out.extend_from_slice(&[ahs_type, specific]);
            out.extend_from_slice(content);
            out.resize(out.len() + padded(content.len()) - content.len(), 0);
            true
        };
        match self {
            Self::ExtendedCdb(cdb) => put(AHS_EXTENDED_CDB, 0, cdb),
            Self::BidirectionalReadLength(length) => {
                put(AHS_BIDIRECTIONAL_READ, 0, &length.to_be_bytes())
            }
            Self::Unknown { ahs_type, content } => match content.split_first() {
                Some((specific, rest)) => put(*ahs_type, *specific, rest),
                None => false,
            },
        }
    }
}

/// Iterator over the additional header segments of one PDU.
#[derive(Clone, Debug)]
pub struct AhsIter<'a> {
    rest: &'a [u8],
}

impl<'a> AhsIter<'a> {
    /// Iterates over the TotalAHSLength bytes that follow the basic header.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for AhsIter<'a> {
    type Item = Result<Ahs<'a>, PduError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        let [high, low, ahs_type, body @ ..] = rest else {
            return Some(Err(PduError::TruncatedAhs));
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((content, _)) = body.split_at_checked(length) else {
            return Some(Err(PduError::TruncatedAhs));
        };
        // The segment starts with three bytes of header and ends on a multiple of four. The padding
        // of the last segment can be missing only if the sender gave a wrong TotalAHSLength.
        let Some(after) = rest.get(padded(3 + length)..) else {
            return Some(Err(PduError::TruncatedAhs));
        };
        self.rest = after;
        Some(match (*ahs_type, content) {
            // A CDB that fits the header has no extended CDB segment (RFC 7143 §11.2.2.3).
            (AHS_EXTENDED_CDB, [_reserved, cdb @ ..]) if !cdb.is_empty() => {
                Ok(Ahs::ExtendedCdb(cdb))
            }
            (AHS_BIDIRECTIONAL_READ, [_reserved, a, b, c, d]) => {
                Ok(Ahs::BidirectionalReadLength(u32::from_be_bytes([
                    *a, *b, *c, *d,
                ])))
            }
            (AHS_EXTENDED_CDB | AHS_BIDIRECTIONAL_READ, _) => Err(PduError::Invalid("AHSLength")),
            (ahs_type, content) => Ok(Ahs::Unknown { ahs_type, content }),
        })
    }
}

//! Parameter lists of EXTENDED COPY (SPC-4 6.4.2 and 6.5.2): headers, CSCD descriptors and segment
//! descriptors. They are checked in the order in which the standard names the errors.

use std::sync::Arc;

use super::{Run, Source};
use crate::cdb::Cdb;
use crate::itl_nexus::ItlNexus;
use crate::sense::{Asc, Sense, SenseKey};
use crate::third_party_copy::{
    MAX_CSCD_DESCRIPTORS, MAX_DESCRIPTOR_LIST_LEN, MAX_SEGMENT_DESCRIPTORS, MAX_SEGMENT_LEN,
};

/// Layout of the parameter list, which differs between the two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One-byte list identifier, 16-byte header.
    Lid1,
    /// Four-byte list identifier, 48-byte header.
    Lid4,
}

impl Layout {
    pub(super) fn header_len(self) -> usize {
        match self {
            Self::Lid1 => 16,
            Self::Lid4 => 48,
        }
    }
}

const CSCD_LEN: usize = 32;
const IDENTIFICATION_CSCD: u8 = 0xE4;
const BLOCK_TO_BLOCK: u8 = 0x02;
const BLOCK_TO_BLOCK_WITH_OFFSET: u8 = 0x0A;

/// Parameter list of the right form. The units it names have not been looked for.
#[derive(Debug)]
pub(super) struct ParameterList {
    /// List identifier, or `None` if none is kept.
    pub(super) list_id: Option<u32>,
    cscds: Vec<Cscd>,
    segments: Vec<Segment>,
}

/// Identification CSCD descriptor (SPC-4 6.4.3.2).
#[derive(Debug)]
struct Cscd {
    /// PERIPHERAL DEVICE TYPE.
    device_type: u8,
    /// The NAA designator; `None` for designators of another kind.
    naa: Option<Vec<u8>>,
    /// DISK BLOCK LENGTH, or zero if not given.
    block_len: u32,
    /// Offset of the descriptor in the parameter list.
    at: u16,
}

/// Segment descriptor (SPC-4 6.4.4.5 and 6.4.4.11).
#[derive(Debug)]
struct Segment {
    source: u16,
    destination: u16,
    source_lba: u64,
    destination_lba: u64,
    len: SegmentLen,
    at: u16,
}

#[derive(Clone, Copy, Debug)]
enum SegmentLen {
    /// Blocks of the source, or with DC = 1 of the destination.
    Blocks { count: u16, of_destination: bool },
    /// Bytes, and byte offsets into the first blocks.
    Bytes {
        count: u32,
        source_offset: u16,
        destination_offset: u16,
    },
}

/// Fields of either header.
struct Header {
    list_id: u32,
    usage: u8,
    cscd_len: usize,
    segment_len: usize,
    inline_len: usize,
}

/// Checks the form of a parameter list. `list_len` is the PARAMETER LIST LENGTH. `list` may be
/// shorter only if that length exceeds every limit.
pub(super) fn parse(layout: Layout, list: &[u8], list_len: u32) -> Result<ParameterList, Sense> {
    let header_len = layout.header_len();
    if list.len() < header_len {
        return Err(Sense::parameter_list_length_error());
    }
    let header = match layout {
        Layout::Lid1 => lid1_header(Cdb(list)),
        Layout::Lid4 => lid4_header(Cdb(list))?,
    };
    let keeps_list_id = match (header.usage, layout) {
        (0b00 | 0b10, _) => true,
        // Without a list identifier the field must be zero (SPC-4 table 85).
        (0b11, _) if header.list_id == 0 => false,
        (0b11, Layout::Lid1) => return Err(Sense::invalid_field_in_parameter_list(0)),
        (0b11, Layout::Lid4) => return Err(Sense::invalid_field_in_parameter_list(20)),
        _ => return Err(Sense::invalid_field_in_parameter_list(1)),
    };
    let descriptors_len = header.cscd_len + header.segment_len;
    if descriptors_len > MAX_DESCRIPTOR_LIST_LEN as usize {
        return Err(Sense::parameter_list_length_error());
    }
    if header_len + descriptors_len + header.inline_len > list_len as usize {
        return Err(Sense::parameter_list_length_error());
    }
    if header.inline_len > 0 {
        return Err(Sense::illegal(Asc::INLINE_DATA_LENGTH_EXCEEDED));
    }
    let (cscd_bytes, rest) = list[header_len..].split_at(header.cscd_len);
    Ok(ParameterList {
        list_id: keeps_list_id.then_some(header.list_id),
        cscds: parse_cscds(cscd_bytes, layout)?,
        segments: parse_segments(&rest[..header.segment_len], header_len + header.cscd_len)?,
    })
}

fn lid1_header(list: Cdb<'_>) -> Header {
    Header {
        list_id: u32::from(list.u8(0)),
        usage: list.u8(1) >> 3 & 0b11,
        cscd_len: usize::from(list.u16(2)),
        segment_len: list.u32(8) as usize,
        inline_len: list.u32(12) as usize,
    }
}

fn lid4_header(list: Cdb<'_>) -> Result<Header, Sense> {
    /// PARAMETER LIST FORMAT, HEADER CSCD DESCRIPTOR LIST LENGTH and TYPE CODE have one value each.
    const FIXED: [(usize, u8); 4] = [(0, 0x01), (2, 0x00), (3, 0x20), (16, 0xFF)];
    for (at, value) in FIXED {
        if list.u8(at) != value {
            return Err(Sense::invalid_field_in_parameter_list(at as u16));
        }
    }
    // IMMED asks for a copy in the background, which is not offered.
    if list.bit(15, 0) {
        return Err(Sense::invalid_field_in_parameter_list(15));
    }
    Ok(Header {
        list_id: list.u32(20),
        usage: list.u8(1) >> 3 & 0b11,
        cscd_len: usize::from(list.u16(42)),
        segment_len: usize::from(list.u16(44)),
        inline_len: usize::from(list.u16(46)),
    })
}

fn parse_cscds(bytes: &[u8], layout: Layout) -> Result<Vec<Cscd>, Sense> {
    if bytes.len() > usize::from(MAX_CSCD_DESCRIPTORS) * CSCD_LEN {
        return Err(Sense::illegal(Asc::TOO_MANY_TARGET_DESCRIPTORS));
    }
    if !bytes.len().is_multiple_of(CSCD_LEN) {
        // CSCD DESCRIPTOR LIST LENGTH.
        let at = match layout {
            Layout::Lid1 => 2,
            Layout::Lid4 => 42,
        };
        return Err(Sense::invalid_field_in_parameter_list(at));
    }
    let mut cscds = Vec::new();
    for (index, bytes) in bytes.chunks_exact(CSCD_LEN).enumerate() {
        // Both descriptor lists together end far below 65 536.
        let at = (layout.header_len() + index * CSCD_LEN) as u16;
        let fields = Cdb(bytes);
        if fields.u8(0) != IDENTIFICATION_CSCD {
            return Err(Sense::illegal(Asc::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE));
        }
        let designator_len = usize::from(fields.u8(7));
        let Some(designator) = bytes[8..28].get(..designator_len) else {
            return Err(Sense::invalid_field_in_parameter_list(at + 7));
        };
        // Code set binary, association logical unit, designator type NAA.
        let is_naa = fields.u8(4) & 0x0F == 1 && fields.u8(5) & 0x3F == 0x03;
        cscds.push(Cscd {
            device_type: fields.u8(1) & 0x1F,
            naa: is_naa.then(|| designator.to_vec()),
            block_len: fields.u24(29),
            at,
        });
    }
    Ok(cscds)
}

fn parse_segments(bytes: &[u8], start: usize) -> Result<Vec<Segment>, Sense> {
    let mut segments = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        if segments.len() == usize::from(MAX_SEGMENT_DESCRIPTORS) {
            return Err(Sense::illegal(Asc::TOO_MANY_SEGMENT_DESCRIPTORS));
        }
        let at = (start + bytes.len() - rest.len()) as u16;
        let fields = Cdb(rest);
        let expected_len = match fields.u8(0) {
            BLOCK_TO_BLOCK => 0x18,
            BLOCK_TO_BLOCK_WITH_OFFSET => 0x1C,
            _ => {
                return Err(Sense::illegal(
                    Asc::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE,
                ));
            }
        };
        if fields.u16(2) != expected_len {
            return Err(Sense::invalid_field_in_parameter_list(at + 2));
        }
        let len = 4 + usize::from(expected_len);
        if rest.len() < len {
            return Err(Sense::parameter_list_length_error());
        }
        let segment_len = if fields.u8(0) == BLOCK_TO_BLOCK {
            SegmentLen::Blocks {
                count: fields.u16(10),
                of_destination: fields.bit(1, 1),
            }
        } else {
            SegmentLen::Bytes {
                count: fields.u32(8),
                source_offset: fields.u16(28),
                destination_offset: fields.u16(30),
            }
        };
        segments.push(Segment {
            source: fields.u16(4),
            destination: fields.u16(6),
            source_lba: fields.u64(12),
            destination_lba: fields.u64(20),
            len: segment_len,
            at,
        });
        rest = &rest[len..];
    }
    Ok(segments)
}

impl ParameterList {
    /// Finds the units that the segments name and checks every segment against them, before the
    /// first block is copied.
    pub(super) fn resolve(&self, reachable: &[Arc<ItlNexus>]) -> Result<Vec<Run>, Sense> {
        let mut runs = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            let failed = |sense: Sense| sense.with_command_specific(index as u64);
            let source = self.unit(segment.source, reachable).map_err(failed)?;
            let destination = self.unit(segment.destination, reachable).map_err(failed)?;
            runs.push(segment.run(source, destination).map_err(failed)?);
        }
        Ok(runs)
    }

    /// Returns the unit behind a CSCD descriptor index if the initiator sees the unit.
    fn unit(&self, index: u16, reachable: &[Arc<ItlNexus>]) -> Result<Arc<ItlNexus>, Sense> {
        let aborted = |asc| Sense::new(SenseKey::CopyAborted, asc);
        let cscd = self
            .cscds
            .get(usize::from(index))
            .ok_or(aborted(Asc::UNREACHABLE_COPY_TARGET))?;
        if cscd.device_type != 0 {
            return Err(aborted(Asc::INCORRECT_COPY_TARGET_DEVICE_TYPE));
        }
        let found = cscd.naa.as_ref().and_then(|naa| {
            let mut reachable = reachable.iter();
            reachable.find(|itl| itl.is_attached() && itl.unit().has_naa(naa))
        });
        let itl = found.ok_or(aborted(Asc::COPY_TARGET_DEVICE_NOT_REACHABLE))?;
        if cscd.block_len != 0 && cscd.block_len != itl.unit().block_len() {
            return Err(Sense::invalid_field_in_parameter_list(cscd.at + 29));
        }
        Ok(Arc::clone(itl))
    }
}

impl Segment {
    fn run(&self, source: Arc<ItlNexus>, destination: Arc<ItlNexus>) -> Result<Run, Sense> {
        let source_block = u64::from(source.unit().block_len());
        let destination_block = u64::from(destination.unit().block_len());
        let bytes = match self.len {
            SegmentLen::Blocks {
                count,
                of_destination,
            } => {
                let block = if of_destination {
                    destination_block
                } else {
                    source_block
                };
                u64::from(count) * block
            }
            SegmentLen::Bytes {
                count,
                source_offset,
                destination_offset,
            } => {
                // DATA SEGMENT GRANULARITY: whole blocks only.
                let offsets = u64::from(source_offset) | u64::from(destination_offset);
                if offsets != 0 {
                    return Err(Sense::invalid_field_in_parameter_list(self.at + 28));
                }
                u64::from(count)
            }
        };
        if bytes > u64::from(MAX_SEGMENT_LEN) {
            return Err(Sense::invalid_field_in_parameter_list(self.at + 8));
        }
        if !bytes.is_multiple_of(source_block) || !bytes.is_multiple_of(destination_block) {
            let inexact = Asc::UNEXPECTED_INEXACT_SEGMENT;
            return Err(Sense::new(SenseKey::CopyAborted, inexact));
        }
        let run = Run {
            source: Source::Unit {
                itl: source,
                lba: self.source_lba,
            },
            destination,
            lba: self.destination_lba,
            bytes,
        };
        if !run.fits() {
            let asc = Asc::NO_ADDITIONAL_SENSE_INFORMATION;
            return Err(Sense::new(SenseKey::CopyAborted, asc));
        }
        Ok(run)
    }
}

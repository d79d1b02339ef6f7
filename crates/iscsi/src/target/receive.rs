//! Receiver that cuts a connection's byte stream into PDUs, wherever the network split it (RFC 7143
//! §11.2).
//!
//! A header is delivered as a whole. A data segment is delivered in the pieces in which it arrived,
//! so that its bytes can go to their final place at once. Digests are checked here and nowhere
//! else.

use std::fmt;

use crate::digest::{Crc32c, to_wire};
use crate::pdu::{BHS_LENGTH, Bhs, Opcode, RawBhs};

/// Position of the stream in a PDU.
#[derive(Debug)]
enum Position {
    /// Header: BHS, AHS, header digest.
    Header,
    /// Data segment, with the number of bytes left.
    Data(usize),
    /// Padding and data digest. The part that arrived so far is in `trailer`.
    Trailer,
}

/// Piece of a PDU.
#[derive(Debug)]
pub(super) enum Piece<'i> {
    /// The header is complete, and its digest is right. The AHS is in [`Receiver::ahs`].
    Header(RawBhs),
    /// Bytes of the data segment, in order.
    Data(&'i [u8]),
    /// The PDU is complete. The value is `false` if its data digest is wrong.
    End(bool),
}

/// Reasons why the stream cannot be followed any further, so that the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// The header digest is wrong, so the start of the next PDU is unknown (RFC 7143 §7.8).
    HeaderDigest,
    /// The data segment is longer than the MaxRecvDataSegmentLength that was declared.
    DataSegmentTooLong {
        /// Length of the segment in bytes.
        length: usize,
        /// Limit in bytes.
        limit: usize,
    },
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeaderDigest => f.write_str("header digest error"),
            Self::DataSegmentTooLong { length, limit } => {
                write!(
                    f,
                    "data segment of {length} bytes exceeds MaxRecvDataSegmentLength={limit}"
                )
            }
        }
    }
}

impl std::error::Error for ReceiveError {}

/// Receiving half of a connection.
#[derive(Debug)]
pub(super) struct Receiver {
    header_digest: bool,
    data_digest: bool,
    max_data_segment: usize,
    position: Position,
    /// Part of a header that has not arrived completely yet, empty between PDUs.
    partial: Vec<u8>,
    ahs: Vec<u8>,
    crc: Crc32c,
    /// Header of the PDU that is arriving.
    bhs: RawBhs,
    trailer: [u8; 7],
    trailer_have: u8,
    trailer_need: u8,
}

impl Receiver {
    pub(super) fn new(header_digest: bool, data_digest: bool, max_data_segment: usize) -> Self {
        Self {
            header_digest,
            data_digest,
            max_data_segment,
            position: Position::Header,
            partial: Vec::new(),
            ahs: Vec::new(),
            crc: Crc32c::new(),
            bhs: [0; BHS_LENGTH],
            trailer: [0; 7],
            trailer_have: 0,
            trailer_need: 0,
        }
    }

    /// Returns the additional header segments of the PDU whose header came last.
    pub(super) fn ahs(&self) -> &[u8] {
        &self.ahs
    }

    /// Reports whether data segments have a digest.
    #[inline]
    pub(super) fn has_data_digest(&self) -> bool {
        self.data_digest
    }

    /// Reports whether the data segment of the SCSI command with this tag is still arriving.
    #[inline]
    pub(super) fn is_within_command(&self, itt: u32) -> bool {
        let is_arriving = match self.position {
            Position::Header => false,
            Position::Data(_) => true,
            Position::Trailer => self.trailer_need > 0,
        };
        let bhs = Bhs::new(&self.bhs);
        is_arriving && bhs.itt() == itt && bhs.opcode() == Ok(Opcode::ScsiCommand)
    }

    /// Returns the header of the PDU that is arriving, or came last.
    pub(super) fn bhs(&self) -> &RawBhs {
        &self.bhs
    }

    /// Puts other header segments in place of the current ones, and returns the current ones.
    pub(super) fn swap_ahs(&mut self, ahs: Vec<u8>) -> Vec<u8> {
        std::mem::replace(&mut self.ahs, ahs)
    }

    /// Returns the number of bytes of the current data segment that have not arrived, for direct
    /// placement.
    pub(super) fn data_left(&self) -> usize {
        match self.position {
            Position::Data(left) => left,
            Position::Header | Position::Trailer => 0,
        }
    }

    /// Returns the headers that lie in `input`, which [`Receiver::next`] will be given next. They
    /// are not checked: a caller that looks ahead may not act on them.
    pub(super) fn upcoming<'i>(
        &self,
        input: &'i [u8],
    ) -> impl Iterator<Item = &'i RawBhs> + use<'i> {
        let (header, data) = (self.header_digest, self.data_digest);
        // In the middle of a PDU its end is not looked for: the next input begins with a header
        // again.
        let at_header = matches!(self.position, Position::Header) && self.partial.is_empty();
        let mut rest = if at_header { input } else { &[] };
        std::iter::from_fn(move || {
            let bhs = rest.first_chunk::<BHS_LENGTH>()?;
            let length = Bhs::new(bhs).pdu_length(header, data);
            rest = rest.get(length..).unwrap_or_default();
            Some(bhs)
        })
    }

    /// Returns the next piece, or `None` once `input` is used up.
    #[inline]
    pub(super) fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Piece<'i>>, ReceiveError> {
        match self.position {
            Position::Header => self.header(input),
            Position::Data(left) => {
                if input.is_empty() {
                    return Ok(None);
                }
                let (bytes, rest) = input.split_at(left.min(input.len()));
                *input = rest;
                self.placed(bytes);
                Ok(Some(Piece::Data(bytes)))
            }
            Position::Trailer => Ok(self.trailer(input)),
        }
    }

    /// Accounts for data-segment bytes, whether they came through [`Receiver::next`] or were read
    /// straight into their place.
    pub(super) fn placed(&mut self, bytes: &[u8]) {
        let Position::Data(left) = &mut self.position else {
            return;
        };
        *left -= bytes.len();
        let done = *left == 0;
        if self.data_digest {
            self.crc = self.crc.update(bytes);
        }
        if done {
            self.position = Position::Trailer;
        }
    }

    #[inline]
    fn header<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Piece<'i>>, ReceiveError> {
        let digest = if self.header_digest { 4 } else { 0 };
        // The common case: the whole header lies in the input.
        if self.partial.is_empty()
            && let Some((bhs, rest)) = input.split_first_chunk::<BHS_LENGTH>()
            && bhs[4] == 0
            && rest.len() >= digest
        {
            let (sent, rest) = rest.split_at(digest);
            *input = rest;
            self.ahs.clear();
            return self.complete(*bhs, sent);
        }
        self.split_header(input, digest)
    }

    #[cold]
    fn split_header<'i>(
        &mut self,
        input: &mut &'i [u8],
        digest: usize,
    ) -> Result<Option<Piece<'i>>, ReceiveError> {
        loop {
            let have = self.partial.len();
            let need = if have < BHS_LENGTH {
                BHS_LENGTH
            } else {
                BHS_LENGTH + usize::from(self.partial[4]) * 4 + digest
            };
            if have == need {
                break;
            }
            if input.is_empty() {
                return Ok(None);
            }
            let (bytes, rest) = input.split_at(input.len().min(need - have));
            self.partial.extend_from_slice(bytes);
            *input = rest;
        }
        let whole = std::mem::take(&mut self.partial);
        let (header, sent) = whole.split_at(whole.len() - digest);
        let mut bhs = [0; BHS_LENGTH];
        bhs.copy_from_slice(&header[..BHS_LENGTH]);
        self.ahs.clear();
        self.ahs.extend_from_slice(&header[BHS_LENGTH..]);
        self.complete(bhs, sent)
    }

    #[inline]
    fn complete<'i>(
        &mut self,
        bhs: RawBhs,
        digest: &[u8],
    ) -> Result<Option<Piece<'i>>, ReceiveError> {
        if self.header_digest {
            let crc = Crc32c::new().update(&bhs).update(&self.ahs).finish();
            if to_wire(crc) != *digest {
                return Err(ReceiveError::HeaderDigest);
            }
        }
        let length = Bhs::new(&bhs).data_segment_length();
        if length > self.max_data_segment {
            return Err(ReceiveError::DataSegmentTooLong {
                length,
                limit: self.max_data_segment,
            });
        }
        let padding = length.wrapping_neg() & 3;
        self.trailer_have = 0;
        self.trailer_need = padding as u8 + if self.data_digest && length > 0 { 4 } else { 0 };
        self.bhs = bhs;
        if self.data_digest {
            self.crc = Crc32c::new();
        }
        self.position = if length > 0 {
            Position::Data(length)
        } else {
            Position::Trailer
        };
        Ok(Some(Piece::Header(bhs)))
    }

    #[inline]
    fn trailer<'i>(&mut self, input: &mut &'i [u8]) -> Option<Piece<'i>> {
        let (have, need) = (
            usize::from(self.trailer_have),
            usize::from(self.trailer_need),
        );
        let take = (need - have).min(input.len());
        self.trailer[have..have + take].copy_from_slice(&input[..take]);
        *input = &input[take..];
        self.trailer_have += take as u8;
        if have + take < need {
            return None;
        }
        self.position = Position::Header;
        if !self.data_digest || need < 4 {
            return Some(Piece::End(true));
        }
        let (padding, sent) = self.trailer[..need].split_at(need - 4);
        Some(Piece::End(
            to_wire(self.crc.update(padding).finish()) == *sent,
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::digest::{crc32c, padded_crc32c};

    /// Builds a PDU of a data segment and `ahs` words of AHS, and returns it with its header.
    fn pdu(mark: u8, ahs: u8, data: &[u8], digests: (bool, bool)) -> (Vec<u8>, RawBhs) {
        let mut bhs = [mark; BHS_LENGTH];
        bhs[4] = ahs;
        bhs[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        let mut bytes = bhs.to_vec();
        bytes.resize(BHS_LENGTH + usize::from(ahs) * 4, mark);
        if digests.0 {
            bytes.extend(to_wire(crc32c(&bytes)));
        }
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        if digests.1 && !data.is_empty() {
            bytes.extend(to_wire(padded_crc32c(data)));
        }
        (bytes, bhs)
    }

    proptest! {
        #[test]
        fn what_is_upcoming_comes(
            pdus in proptest::collection::vec((any::<u8>(), 0u8..3, 0usize..70), 1..8),
            digests in any::<(bool, bool)>(),
            cut in 0usize..2000,
        ) {
            let pdus: Vec<_> = pdus
                .iter()
                .map(|(mark, ahs, length)| pdu(*mark, *ahs, &vec![7; *length], digests))
                .collect();
            let stream: Vec<u8> = pdus.iter().flat_map(|(bytes, _)| bytes).copied().collect();
            let cut = cut.min(stream.len());
            let mut receiver = Receiver::new(digests.0, digests.1, 8192);
            let mut came = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                let upcoming: Vec<RawBhs> = receiver.upcoming(part).copied().collect();
                let before = came.len();
                let mut input = part;
                while let Some(piece) = receiver.next(&mut input).unwrap() {
                    if let Piece::Header(bhs) = piece {
                        came.push(bhs);
                    }
                }
                // The digest or AHS of the last PDU may come later.
                let known = upcoming.len().min(came.len() - before);
                prop_assert_eq!(&came[before..before + known], &upcoming[..known]);
                prop_assert!(upcoming.len() <= known + 1);
            }
            let sent: Vec<RawBhs> = pdus.iter().map(|(_, bhs)| *bhs).collect();
            prop_assert_eq!(came, sent);
        }

        #[test]
        fn all_of_a_whole_input_is_upcoming(
            pdus in proptest::collection::vec((any::<u8>(), 0u8..3, 0usize..70), 1..8),
            digests in any::<(bool, bool)>(),
        ) {
            let pdus: Vec<_> = pdus
                .iter()
                .map(|(mark, ahs, length)| pdu(*mark, *ahs, &vec![7; *length], digests))
                .collect();
            let stream: Vec<u8> = pdus.iter().flat_map(|(bytes, _)| bytes).copied().collect();
            let receiver = Receiver::new(digests.0, digests.1, 8192);
            let upcoming: Vec<RawBhs> = receiver.upcoming(&stream).copied().collect();
            let sent: Vec<RawBhs> = pdus.iter().map(|(_, bhs)| *bhs).collect();
            prop_assert_eq!(upcoming, sent);
        }
    }
}

//! The initiator's byte stream: bytes cut anywhere become PDUs, and headers and data become bytes.
//!
//! Data segments are not collected. [`Framer::next`] hands out the pieces as they lie in the
//! receive buffer. So a read's data is copied once, to its final place.

use std::fmt;

use crate::digest::{Crc32c, DIGEST_LENGTH, crc32c, from_wire, padded_crc32c, to_wire};
use crate::pdu::{BHS_LENGTH, Bhs, RawBhs, padded};

/// Reasons why the stream cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The header's CRC is wrong.
    HeaderDigest,
    /// The data's CRC is wrong.
    DataDigest,
    /// A data segment is longer than our MaxRecvDataSegmentLength.
    DataTooLong,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeaderDigest => "header digest error",
            Self::DataDigest => "data digest error",
            Self::DataTooLong => "data segment longer than MaxRecvDataSegmentLength",
        })
    }
}

impl std::error::Error for StreamError {}

/// Part of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A header has arrived.
    Header(RawBhs),
    /// Bytes of its data segment.
    Data {
        /// Offset of these bytes in the data segment.
        at: u32,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The PDU is complete and its digests are right.
    End,
}

/// Length of the longest header: BHS, AHS, digest.
const MAX_HEADER: usize = BHS_LENGTH + 1020 + DIGEST_LENGTH;

#[derive(Clone, Copy, Debug)]
enum ConnectionState {
    Header,
    Data {
        length: u32,
        done: u32,
    },
    /// Padding and data digest.
    Trailer {
        length: u8,
        padding: u8,
    },
    End,
}

/// Cuts a byte stream into PDUs.
#[derive(Debug)]
pub(super) struct Framer {
    header_digest: bool,
    data_digest: bool,
    max_data: u32,
    state: ConnectionState,
    /// Part of a header or trailer that arrived in pieces.
    held: Vec<u8>,
    crc: Crc32c,
}

impl Framer {
    pub(super) fn new(header_digest: bool, data_digest: bool, max_data: u32) -> Self {
        let held = Vec::with_capacity(BHS_LENGTH);
        Self {
            header_digest,
            data_digest,
            max_data,
            state: ConnectionState::Header,
            held,
            crc: Crc32c::new(),
        }
    }

    /// Returns the next piece, or `None` once `input` is used up.
    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<Piece<'a>>, StreamError> {
        match self.state {
            ConnectionState::Header => self.header(input),
            ConnectionState::Data { length, done } => Ok(self.data(input, length, done)),
            ConnectionState::Trailer { length, padding } => self.trailer(input, length, padding),
            ConnectionState::End => {
                self.state = ConnectionState::Header;
                Ok(Some(Piece::End))
            }
        }
    }

    fn header<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, StreamError> {
        if self.held.is_empty()
            && let Some((bhs, _)) = input.split_first_chunk::<BHS_LENGTH>()
            && let Some((header, rest)) = input.split_at_checked(self.header_length(bhs))
        {
            *input = rest;
            return self.begin(bhs, header).map(Some);
        }
        loop {
            let wanted = match self.held.first_chunk::<BHS_LENGTH>() {
                Some(bhs) => self.header_length(bhs),
                None => BHS_LENGTH,
            };
            debug_assert!(wanted <= MAX_HEADER);
            let taken = (wanted - self.held.len()).min(input.len());
            let (bytes, rest) = input.split_at(taken);
            self.held.extend_from_slice(bytes);
            *input = rest;
            if self.held.len() < wanted {
                return Ok(None);
            }
            if let Some(bhs) = self.held.first_chunk::<BHS_LENGTH>().copied()
                && self.held.len() == self.header_length(&bhs)
            {
                let mut header = std::mem::take(&mut self.held);
                let piece = self.begin(&bhs, &header).map(Some);
                header.clear();
                self.held = header;
                return piece;
            }
        }
    }

    fn header_length(&self, bhs: &RawBhs) -> usize {
        let digest = if self.header_digest { DIGEST_LENGTH } else { 0 };
        BHS_LENGTH + Bhs::new(bhs).total_ahs_length() + digest
    }

    /// Begins a PDU whose header is complete, with AHS and digest in `header`.
    fn begin<'a>(&mut self, bhs: &RawBhs, header: &[u8]) -> Result<Piece<'a>, StreamError> {
        if self.header_digest
            && let Some((covered, digest)) = header.split_last_chunk::<DIGEST_LENGTH>()
            && crc32c(covered) != from_wire(*digest)
        {
            return Err(StreamError::HeaderDigest);
        }
        let length = Bhs::new(bhs).data_segment_length() as u32;
        if length > self.max_data {
            return Err(StreamError::DataTooLong);
        }
        self.crc = Crc32c::new();
        self.state = if length == 0 {
            ConnectionState::End
        } else {
            ConnectionState::Data { length, done: 0 }
        };
        Ok(Piece::Header(*bhs))
    }

    fn data<'a>(&mut self, input: &mut &'a [u8], length: u32, done: u32) -> Option<Piece<'a>> {
        if input.is_empty() {
            return None;
        }
        let (bytes, rest) = input.split_at(((length - done) as usize).min(input.len()));
        *input = rest;
        if self.data_digest {
            self.crc = self.crc.update(bytes);
        }
        let now = done + bytes.len() as u32;
        self.state = if now < length {
            ConnectionState::Data { length, done: now }
        } else {
            let padding = (padded(length as usize) - length as usize) as u8;
            let trailer = padding
                + if self.data_digest {
                    DIGEST_LENGTH as u8
                } else {
                    0
                };
            if trailer == 0 {
                ConnectionState::End
            } else {
                ConnectionState::Trailer {
                    length: trailer,
                    padding,
                }
            }
        };
        Some(Piece::Data { at: done, bytes })
    }

    fn trailer<'a>(
        &mut self,
        input: &mut &'a [u8],
        length: u8,
        padding: u8,
    ) -> Result<Option<Piece<'a>>, StreamError> {
        let taken = (usize::from(length) - self.held.len()).min(input.len());
        let (bytes, rest) = input.split_at(taken);
        self.held.extend_from_slice(bytes);
        *input = rest;
        if self.held.len() < usize::from(length) {
            return Ok(None);
        }
        let (filler, digest) = self.held.split_at(usize::from(padding));
        // The digest covers the padding as it was sent.
        let crc = self.crc.update(filler).finish();
        let wrong = digest
            .first_chunk()
            .is_some_and(|digest| from_wire(*digest) != crc);
        self.held.clear();
        self.state = ConnectionState::Header;
        if wrong {
            Err(StreamError::DataDigest)
        } else {
            Ok(Some(Piece::End))
        }
    }
}

/// Appends PDUs to a send buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PduWriter {
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
}

impl PduWriter {
    /// Appends a header and a data segment of exactly `length` bytes, which `fill` appends. A
    /// `fill` that appends fewer or more is cut to fit, because the stream must stay readable.
    #[inline]
    pub(super) fn push(
        self,
        bhs: &RawBhs,
        length: usize,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        out.extend_from_slice(bhs);
        if self.header_digest {
            out.extend_from_slice(&to_wire(crc32c(bhs)));
        }
        if length == 0 {
            return;
        }
        let start = out.len();
        fill(out);
        out.resize(start + length, 0);
        let digest = self.data_digest.then(|| padded_crc32c(&out[start..]));
        out.resize(start + padded(length), 0);
        if let Some(crc) = digest {
            out.extend_from_slice(&to_wire(crc));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Collects PDUs as (header, data).
    fn collect(
        framer: &mut Framer,
        mut input: &[u8],
        pdus: &mut Vec<(RawBhs, Vec<u8>, bool)>,
    ) -> Result<(), StreamError> {
        while let Some(piece) = framer.next(&mut input)? {
            match piece {
                Piece::Header(bhs) => pdus.push((bhs, Vec::new(), false)),
                Piece::Data { at, bytes } => {
                    let last = pdus.last_mut().unwrap();
                    assert_eq!(last.1.len(), at as usize);
                    last.1.extend_from_slice(bytes);
                }
                Piece::End => pdus.last_mut().unwrap().2 = true,
            }
        }
        assert!(input.is_empty());
        Ok(())
    }

    fn bhs(seed: u8, length: usize) -> RawBhs {
        let mut bhs = [seed; BHS_LENGTH];
        bhs[4] = 0;
        bhs[5..8].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        bhs
    }

    proptest! {
        #[test]
        fn pdus_survive_any_cut(
            datas in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..6),
            header_digest: bool, data_digest: bool,
            cuts in proptest::collection::vec(1usize..70, 1..20),
        ) {
            let writer = PduWriter { header_digest, data_digest };
            let mut stream = Vec::new();
            for (i, data) in datas.iter().enumerate() {
                writer.push(&bhs(i as u8, data.len()), data.len(), &mut stream, |out| out.extend_from_slice(data));
            }
            let mut framer = Framer::new(header_digest, data_digest, 64);
            let mut pdus = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (head, tail) = rest.split_at((*cut).min(rest.len()));
                collect(&mut framer, head, &mut pdus).unwrap();
                rest = tail;
            }
            collect(&mut framer, &[], &mut pdus).unwrap();
            prop_assert_eq!(pdus.len(), datas.len());
            for (i, (pdu, data)) in pdus.iter().zip(&datas).enumerate() {
                prop_assert_eq!(pdu, &(bhs(i as u8, data.len()), data.clone(), true));
            }
        }

        #[test]
        fn a_flipped_bit_is_noticed(data in proptest::collection::vec(any::<u8>(), 1..40), bit in any::<prop::sample::Index>()) {
            let writer = PduWriter { header_digest: true, data_digest: true };
            let mut stream = Vec::new();
            writer.push(&bhs(1, data.len()), data.len(), &mut stream, |out| out.extend_from_slice(&data));
            // The bit is not in a length field. A wrong length makes another PDU, whose header
            // digest is then wrong too or not there.
            let at = bit.index((stream.len() - 8) * 8) + 64;
            stream[at / 8] ^= 1 << (at % 8);
            let mut pdus = Vec::new();
            let error = collect(&mut Framer::new(true, true, 64), &stream, &mut pdus).unwrap_err();
            prop_assert_eq!(error, if at / 8 < 52 { StreamError::HeaderDigest } else { StreamError::DataDigest });
        }

        #[test]
        fn arbitrary_streams_never_panic(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..10), header_digest: bool, data_digest: bool) {
            let mut framer = Framer::new(header_digest, data_digest, 1 << 20);
            for chunk in chunks {
                let mut input = &chunk[..];
                loop {
                    match framer.next(&mut input) {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_data_segment_is_refused_before_it_arrives() {
        let mut framer = Framer::new(false, false, 63);
        assert_eq!(
            framer.next(&mut &bhs(0, 64)[..]),
            Err(StreamError::DataTooLong)
        );
    }
}

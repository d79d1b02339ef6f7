//! The writer of a stream.

use pages::Pages;

use super::begin::{Begin, MAX_BEGIN};
use super::record::{Header, MAX_REASON, RecordKind, checksum, preamble, seed};
use crate::format::Compression;

/// Writer of a stream into memory. [`Encoder::take`] fetches the bytes.
#[derive(Debug)]
pub struct Encoder {
    /// Checksum of the last record.
    chain: u128,
    /// Hash of all bytes of the stream so far.
    strong: blake3::Hasher,
    out: Vec<u8>,
    /// Bytes of `out` that are hashed. Hashing many at once is far cheaper.
    hashed: usize,
    /// Blocks of this part that had bytes, followed by the blocks of the volume.
    blocks: u64,
    end: u64,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// Makes a stream that begins with its preamble.
    pub fn new() -> Self {
        Self {
            chain: seed(),
            strong: blake3::Hasher::new(),
            out: preamble().to_vec(),
            hashed: 0,
            blocks: 0,
            end: 0,
        }
    }

    /// Returns the number of bytes that wait to be taken.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Reports whether no bytes wait to be taken.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes the bytes that were written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        self.hash();
        self.hashed = 0;
        std::mem::take(&mut self.out)
    }

    /// Begins a part. Returns false if `begin` is too long (long properties); then nothing is
    /// written.
    #[must_use]
    pub fn begin(&mut self, begin: &Begin) -> bool {
        let body = serde_json::to_vec(begin).unwrap_or_default();
        if body.is_empty() || body.len() > MAX_BEGIN {
            return false;
        }
        self.blocks = 0;
        self.end = begin.blocks();
        self.record(RecordKind::Begin, Compression::Off, (0, 0), &[&body]);
        true
    }

    /// Writes a block, packed as it lies on a disk. The filling of its last sector is left out.
    pub fn data(&mut self, block: u64, compression: Compression, payload: &Pages) {
        let mut rest = match compression {
            Compression::Off => payload.len(),
            _ => packed_len(payload),
        };
        let chunks: Vec<&[u8]> = payload
            .chunks()
            .map_while(|chunk| {
                let part = &chunk[..chunk.len().min(rest)];
                rest -= part.len();
                (!part.is_empty()).then_some(part)
            })
            .collect();
        self.blocks += 1;
        self.record(RecordKind::Data, compression, (block, 1), &chunks);
    }

    /// Writes that blocks are holes.
    pub fn free(&mut self, first: u64, count: u64) {
        self.record(RecordKind::Free, Compression::Off, (first, count), &[]);
    }

    /// Completes the part.
    pub fn end(&mut self) {
        self.hash();
        let strong = self.strong.finalize();
        let counts = (self.end, self.blocks);
        self.record(
            RecordKind::End,
            Compression::Off,
            counts,
            &[strong.as_bytes()],
        );
    }

    /// Completes the stream.
    pub fn close(&mut self) {
        self.record(RecordKind::Close, Compression::Off, (0, 0), &[]);
    }

    /// Ends the stream here, incomplete, with the reason for its reader.
    pub fn fail(&mut self, reason: &str) {
        let mut most = reason.len().min(MAX_REASON);
        while !reason.is_char_boundary(most) {
            most -= 1;
        }
        let reason = &reason.as_bytes()[..most];
        self.record(RecordKind::Failed, Compression::Off, (0, 0), &[reason]);
    }

    fn record(
        &mut self,
        kind: RecordKind,
        compression: Compression,
        (block, count): (u64, u64),
        body: &[&[u8]],
    ) {
        let len: usize = body.iter().map(|chunk| chunk.len()).sum();
        let header = Header {
            kind,
            compression,
            len: u32::try_from(len).unwrap_or(u32::MAX),
            block,
            count,
        }
        .to_bytes();
        self.chain = checksum(self.chain, &header, body.iter().copied());
        self.out.extend_from_slice(&header);
        self.out.extend_from_slice(&self.chain.to_le_bytes());
        body.iter()
            .for_each(|chunk| self.out.extend_from_slice(chunk));
    }

    fn hash(&mut self) {
        self.strong.update(&self.out[self.hashed..]);
        self.hashed = self.out.len();
    }
}

/// Returns the bytes of a packed block that have a meaning: its length field and the payload.
fn packed_len(payload: &Pages) -> usize {
    let mut prefix = [0; 4];
    if payload.len() < prefix.len() {
        return payload.len();
    }
    payload.slice(0..prefix.len()).copy_to(&mut prefix);
    let packed = prefix.len() + u32::from_le_bytes(prefix) as usize;
    packed.min(payload.len())
}

//! Sending half of a connection: PDUs wait here, as headers and references to their data, until the
//! socket takes them.
//!
//! The runtime gathers the pieces into one vectored write, and reports the number of bytes that
//! left.

use std::collections::VecDeque;
use std::ops::Range;

use crate::digest::{Crc32c, to_wire};
use crate::payload::Payload;
use crate::pdu::{BHS_LENGTH, RawBhs};

/// Data segment of an outgoing PDU.
#[derive(Debug)]
pub(super) enum DataSegment<P> {
    /// No data segment.
    Empty,
    /// Bytes made for this PDU: sense data, text, a ping.
    Bytes(Vec<u8>),
    /// Part of a command's data-in.
    Payload(P, Range<usize>),
}

#[derive(Debug)]
struct Outgoing<P> {
    /// BHS and header digest.
    head: [u8; BHS_LENGTH + 4],
    head_len: u8,
    tail_len: u8,
    /// Padding and data digest.
    tail: [u8; 7],
    data: DataSegment<P>,
}

impl<P: Payload> Outgoing<P> {
    fn data_len(&self) -> usize {
        match &self.data {
            DataSegment::Empty => 0,
            DataSegment::Bytes(bytes) => bytes.len(),
            DataSegment::Payload(_, range) => range.len(),
        }
    }

    /// Returns the bytes that the segment holds itself, not by reference to a command's data.
    fn own_len(&self) -> usize {
        let bytes = match &self.data {
            DataSegment::Bytes(bytes) => bytes.len(),
            DataSegment::Empty | DataSegment::Payload(..) => 0,
        };
        size_of::<Self>() + bytes
    }

    fn len(&self) -> usize {
        usize::from(self.head_len) + self.data_len() + usize::from(self.tail_len)
    }
}

/// PDUs in the order in which they leave.
#[derive(Debug)]
pub(super) struct TransmitQueue<P: Payload> {
    header_digest: bool,
    data_digest: bool,
    queue: VecDeque<Outgoing<P>>,
    /// Number of bytes of the first PDU that have left already.
    sent_of_first: usize,
    queued_bytes: usize,
    /// Number of waiting bytes that were made for the queue alone.
    own_bytes: usize,
    /// Number of bytes that have left since the connection began.
    left: u64,
    /// Receipts of answers in the queue, each with the value of `left` from which it is due.
    receipts: VecDeque<(u64, P::Receipt)>,
    /// Receipts that are due.
    due: Vec<P::Receipt>,
}

impl<P: Payload> TransmitQueue<P> {
    pub(super) fn new(header_digest: bool, data_digest: bool) -> Self {
        Self {
            header_digest,
            data_digest,
            queue: VecDeque::new(),
            sent_of_first: 0,
            queued_bytes: 0,
            own_bytes: 0,
            left: 0,
            receipts: VecDeque::new(),
            due: Vec::new(),
        }
    }

    /// Returns the number of bytes that have not left yet.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Returns the number of bytes that the queue itself keeps: headers, sense data, text, answers
    /// to pings.
    pub(super) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Appends a PDU whose header already states `data`'s length.
    #[inline]
    pub(super) fn push(&mut self, bhs: &RawBhs, data: DataSegment<P>) {
        let mut pdu = Outgoing {
            head: [0; BHS_LENGTH + 4],
            head_len: BHS_LENGTH as u8,
            tail_len: 0,
            tail: [0; 7],
            data,
        };
        pdu.head[..BHS_LENGTH].copy_from_slice(bhs);
        if self.header_digest {
            let crc = Crc32c::new().update(bhs).finish();
            pdu.head[BHS_LENGTH..].copy_from_slice(&to_wire(crc));
            pdu.head_len += 4;
        }
        let length = pdu.data_len();
        let padding = length.wrapping_neg() & 3;
        pdu.tail_len = padding as u8;
        if self.data_digest && length > 0 {
            let crc = data_digest(&pdu.data, padding);
            pdu.tail[padding..padding + 4].copy_from_slice(&to_wire(crc));
            pdu.tail_len += 4;
        }
        self.queued_bytes += pdu.len();
        self.own_bytes += pdu.own_len();
        self.queue.push_back(pdu);
    }

    /// Adds the receipt of the answer that was pushed last.
    #[inline]
    pub(super) fn push_receipt(&mut self, receipt: P::Receipt) {
        let end = self.left + self.queued_bytes as u64;
        self.receipts.push_back((end, receipt));
    }

    /// Returns the receipts of answers that have left since the last call, in order.
    pub(super) fn take_receipts(&mut self) -> std::vec::Drain<'_, P::Receipt> {
        self.due.drain(..)
    }

    /// Hands the waiting bytes to `take`, piece by piece in order, until it returns `false`.
    pub(super) fn gather<'a>(&'a self, mut take: impl FnMut(&'a [u8]) -> bool) {
        let mut skip = self.sent_of_first;
        let mut give = |piece: &'a [u8]| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            skipped == piece.len() || take(&piece[skipped..])
        };
        for pdu in &self.queue {
            if !give(&pdu.head[..usize::from(pdu.head_len)]) {
                return;
            }
            let more = match &pdu.data {
                DataSegment::Empty => true,
                DataSegment::Bytes(bytes) => give(bytes),
                DataSegment::Payload(payload, range) => {
                    payload.chunks(range.clone()).all(&mut give)
                }
            };
            if !more || !give(&pdu.tail[..usize::from(pdu.tail_len)]) {
                return;
            }
        }
    }

    /// Forgets `count` bytes that the socket took.
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.queued_bytes);
        self.queued_bytes -= count;
        self.left += count as u64;
        while let Some((_, receipt)) = self.receipts.pop_front_if(|(end, _)| *end <= self.left) {
            self.due.push(receipt);
        }
        self.sent_of_first += count;
        while let Some(first) = self.queue.front()
            && self.sent_of_first >= first.len()
        {
            self.sent_of_first -= first.len();
            self.own_bytes -= first.own_len();
            self.queue.pop_front();
        }
    }
}

fn data_digest<P: Payload>(data: &DataSegment<P>, padding: usize) -> u32 {
    let crc = match data {
        DataSegment::Empty => Crc32c::new(),
        DataSegment::Bytes(bytes) => Crc32c::new().update(bytes),
        DataSegment::Payload(payload, range) => payload
            .chunks(range.clone())
            .fold(Crc32c::new(), Crc32c::update),
    };
    crc.update(&[0; 3][..padding]).finish()
}

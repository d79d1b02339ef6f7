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

    /// Adds the receipt of the answer that was pushed last, if it has one.
    #[inline]
    pub(super) fn push_receipt(&mut self, receipt: Option<P::Receipt>) {
        let end = self.left + self.queued_bytes as u64;
        self.receipts.extend(receipt.map(|receipt| (end, receipt)));
    }

    /// Returns the next receipt of an answer that has left.
    #[inline]
    pub(super) fn take_receipt(&mut self) -> Option<P::Receipt> {
        let due = self.receipts.pop_front_if(|(end, _)| *end <= self.left);
        due.map(|(_, receipt)| receipt)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Payload whose receipts are numbers.
    #[derive(Debug)]
    struct Numbered(Vec<u8>);

    impl Payload for Numbered {
        type Receipt = u32;

        fn len(&self) -> usize {
            self.0.len()
        }

        fn chunks(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
            std::iter::once(&self.0[range])
        }

        fn shared(&self) -> Self {
            Self(self.0.clone())
        }
    }

    /// Checks that a receipt is due with the last byte of its answer, however the socket cuts it.
    #[test]
    fn receipts_are_due_once_the_whole_answer_has_left() {
        for step in [1, 47, 48, 100, 1000] {
            let mut queue = TransmitQueue::new(true, true);
            let mut ends = Vec::new();
            for number in 0..5 {
                let data = vec![7; number as usize * 30];
                let range = 0..data.len();
                queue.push(
                    &[0; BHS_LENGTH],
                    DataSegment::Payload(Numbered(data), range),
                );
                // A PDU without a receipt lies between.
                queue.push_receipt((number != 2).then_some(number));
                ends.push(queue.queued_bytes());
            }
            let (all, mut left, mut told) = (queue.queued_bytes(), 0, Vec::new());
            while left < all {
                let count = step.min(all - left);
                queue.consume(count);
                left += count;
                told.extend(std::iter::from_fn(|| queue.take_receipt()));
                let due = (0..5).filter(|number| *number != 2 && ends[*number as usize] <= left);
                assert_eq!(told, due.collect::<Vec<u32>>(), "{left} of {all} by {step}");
            }
        }
    }
}

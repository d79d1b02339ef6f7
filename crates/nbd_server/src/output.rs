//! Output that waits on a connection: headers, and data by reference to its pages.

use std::collections::VecDeque;
use std::io::IoSlice;

use smallvec::SmallVec;

use block::Pages;
use block::budget::Reservation;
use unit::timing::Receipt;

/// Most pieces of one vectored write: half of the kernel's limit (IOV_MAX).
const MAX_PIECES: usize = 512;

/// Pieces of one vectored write.
pub(super) type Pieces<'a> = SmallVec<[IoSlice<'a>; 64]>;

#[derive(Debug)]
enum Piece {
    /// Number of bytes in `Output::bytes`.
    Bytes(usize),
    /// Bytes of a read from `sent` on. Their memory is free once they have left.
    Data {
        pages: Pages,
        sent: usize,
        _reservation: Option<Reservation>,
    },
}

/// Output of one connection.
#[derive(Debug, Default)]
pub(super) struct Output {
    pieces: VecDeque<Piece>,
    bytes: Vec<u8>,
    /// Number of `bytes` that have left.
    sent: usize,
    /// Number of all bytes that were ever appended.
    appended: u64,
    /// Number of all bytes that have left.
    gone: u64,
    /// Receipts of answers, each with the value of `gone` from which it is due.
    receipts: VecDeque<(u64, Receipt)>,
}

impl Output {
    /// Reports whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the number of waiting bytes other than data.
    pub(super) fn own_len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Lets `write` append headers, errors, descriptors.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        let more = self.bytes.len() - before;
        self.appended += more as u64;
        match self.pieces.back_mut() {
            _ if more == 0 => {}
            Some(Piece::Bytes(len)) => *len += more,
            _ => self.pieces.push_back(Piece::Bytes(more)),
        }
    }

    /// Appends data, which holds its memory until it has left.
    pub(super) fn put_data(&mut self, pages: Pages, reservation: Option<Reservation>) {
        self.appended += pages.len() as u64;
        self.pieces.push_back(Piece::Data {
            pages,
            sent: 0,
            _reservation: reservation,
        });
    }

    /// Adds the receipt of the answer that was appended last.
    pub(super) fn put_receipt(&mut self, receipt: Receipt) {
        self.receipts.push_back((self.appended, receipt));
    }

    /// Returns a receipt whose answer has left.
    pub(super) fn take_receipt(&mut self) -> Option<Receipt> {
        let due = self.receipts.pop_front_if(|(end, _)| *end <= self.gone);
        due.map(|(_, receipt)| receipt)
    }

    /// Returns the first pieces, for one write.
    pub(super) fn gather(&self) -> Pieces<'_> {
        let mut slices = Pieces::new();
        let mut at = self.sent;
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(len) => {
                    slices.push(IoSlice::new(&self.bytes[at..at + len]));
                    at += len;
                }
                Piece::Data { pages, sent, .. } => {
                    let room = MAX_PIECES - slices.len();
                    let rest = pages.chunks_in(*sent..pages.len());
                    slices.extend(rest.take(room).map(IoSlice::new));
                }
            }
            if slices.len() >= MAX_PIECES {
                break;
            }
        }
        slices
    }

    /// Notes that the first `count` bytes have left.
    pub(super) fn left(&mut self, count: usize) {
        let mut count = count;
        self.gone += count as u64;
        while count > 0 {
            let gone = match self.pieces.front_mut() {
                None => return,
                Some(Piece::Bytes(len)) => {
                    let gone = count.min(*len);
                    *len -= gone;
                    self.sent += gone;
                    count -= gone;
                    *len == 0
                }
                Some(Piece::Data { pages, sent, .. }) => {
                    let gone = count.min(pages.len() - *sent);
                    *sent += gone;
                    count -= gone;
                    *sent == pages.len()
                }
            };
            if gone {
                self.pieces.pop_front();
            }
        }
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > 64 << 10 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Removes all headers and errors from an output without data (a handshake's).
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        self.pieces.clear();
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.drain(..std::mem::take(&mut self.sent));
        self.gone = self.appended;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that output leaves in order, however the socket cuts it.
    #[test]
    fn leaves_in_order_whatever_the_socket_takes() {
        for step in [1, 7, 4096, 5000, 1 << 20] {
            let mut output = Output::default();
            let mut wanted = Vec::new();
            for round in 0..40u8 {
                let head = vec![round; usize::from(round) * 200];
                output.put(|out| out.extend(&head));
                wanted.extend(head);
                let data = vec![!round; 4096 + usize::from(round) * 100];
                output.put_data(Pages::from_bytes(&data), None);
                wanted.extend(data);
            }
            let mut got: Vec<u8> = Vec::new();
            while !output.is_empty() {
                let mut taken = 0;
                for slice in output.gather() {
                    let count = slice.len().min(step - taken);
                    got.extend(&slice[..count]);
                    taken += count;
                }
                assert!(taken > 0, "progress");
                output.left(taken);
            }
            assert!(got == wanted, "{step}");
            assert_eq!(output.own_len(), 0);
        }
    }
}

//! One command's data-out: immediate, unsolicited and solicited data on its way into a buffer (RFC
//! 7143 §4.2.5.1, §11.7, §11.8).
//!
//! `DataPDUInOrder=Yes` and `DataSequenceInOrder=Yes` are the only results that this target
//! negotiates. So within a sequence every PDU must continue where the last one ended. Anything else
//! is a protocol error, and ends the connection before a byte lands in a wrong place.
//!
//! A DataSN out of order and a wrong data digest both mean that data was lost on its way. Nothing
//! of the command is written then. Data still due is received and dropped, and the command ends
//! with a CRC error once it is in (RFC 7143 §7.8, §7.9).

use std::time::Duration;

use crate::payload::DataOutBuffer;
use crate::pdu::{DataOut, RESERVED_TAG};

/// Negotiated limits that govern data-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstLimits {
    pub(super) first_burst: u32,
    pub(super) max_burst: u32,
    pub(super) max_outstanding_r2t: u16,
    pub(super) initial_r2t: bool,
    pub(super) immediate_data: bool,
}

/// Run of data that the initiator is allowed to send now.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    ttt: u32,
    next_offset: u32,
    end: u32,
    next_data_sn: u32,
}

/// Content of an R2T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Solicit {
    pub(super) ttt: u32,
    pub(super) r2t_sn: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// Data-out of one command.
#[derive(Debug)]
pub(super) struct DataOutTransfer<B> {
    buffer: B,
    /// Bytes that the command takes. No more are asked for, and more are dropped.
    wanted: u32,
    /// End of the data that was announced as unsolicited or asked for.
    asked: u32,
    sequences: Vec<Sequence>,
    r2t_sn: u32,
    /// Whether data was lost, so that the rest is dropped.
    spoiled: bool,
    /// Whether bytes came since the last check.
    moved: bool,
    /// Time of the last check that found new bytes.
    seen_moving: Duration,
}

impl<B: DataOutBuffer> DataOutTransfer<B> {
    /// Begins a transfer of `wanted` bytes, at most `edtl`, with `immediate` bytes of immediate
    /// data. Unless `is_final`, unsolicited Data-Out follows up to FirstBurstLength.
    ///
    /// # Errors
    /// The initiator sends data that was not negotiated.
    pub(super) fn begin(
        buffer: B,
        wanted: u32,
        edtl: u32,
        immediate: u32,
        is_final: bool,
        limits: &BurstLimits,
    ) -> Result<Self, &'static str> {
        check_unsolicited(edtl, immediate, is_final, limits)?;
        let mut transfer = Self {
            buffer,
            wanted: wanted.min(edtl),
            asked: immediate,
            sequences: Vec::new(),
            r2t_sn: 0,
            spoiled: false,
            moved: true,
            seen_moving: Duration::ZERO,
        };
        if !is_final {
            let end = limits.first_burst.min(edtl);
            transfer.asked = end;
            transfer.sequences.push(Sequence {
                ttt: RESERVED_TAG,
                next_offset: immediate,
                end,
                next_data_sn: 0,
            });
        }
        Ok(transfer)
    }

    /// Continues a transfer that is known only now, after `pdus` of its unsolicited Data-Outs came.
    /// Their data was given to [`DataOutTransfer::begin`], except for `left` bytes that the last of
    /// them still owes.
    pub(super) fn resume(&mut self, pdus: u32, left: u32) {
        if let Some(sequence) = self.sequences.first_mut() {
            sequence.next_data_sn = pdus;
            sequence.next_offset = sequence.next_offset.saturating_add(left).min(sequence.end);
        }
    }

    /// Checks the header of a Data-Out, and returns the offset of its data. A DataSN out of order
    /// spoils the transfer.
    ///
    /// # Errors
    /// A tag that is not outstanding, a gap, an overlap, or too many bytes.
    pub(super) fn header(&mut self, pdu: &DataOut) -> Result<u32, &'static str> {
        let Some(sequence) = self
            .sequences
            .iter_mut()
            .find(|sequence| sequence.ttt == pdu.ttt)
        else {
            return Err(if pdu.ttt == RESERVED_TAG {
                "unexpected unsolicited data"
            } else {
                "unknown target transfer tag"
            });
        };
        if pdu.data_sn != sequence.next_data_sn {
            self.spoiled = true;
        }
        if self.spoiled {
            return Ok(0);
        }
        if pdu.buffer_offset != sequence.next_offset {
            return Err("buffer offset out of order");
        }
        if pdu.data_segment_length > sequence.end - sequence.next_offset {
            return Err("more data than the burst allows");
        }
        let offset = sequence.next_offset;
        sequence.next_offset += pdu.data_segment_length;
        sequence.next_data_sn += 1;
        Ok(offset)
    }

    /// Stores bytes. Bytes that the command does not want are dropped.
    #[inline]
    pub(super) fn put(&mut self, offset: u32, bytes: &[u8]) {
        self.moved = true;
        let room = self.room_from(offset);
        let take = bytes.len().min(room);
        if take > 0 {
            self.buffer.put(offset as usize, &bytes[..take]);
        }
    }

    /// Returns the space for up to `len` bytes at `offset`.
    pub(super) fn room(&mut self, offset: u32, len: usize) -> impl Iterator<Item = &mut [u8]> {
        let len = len.min(self.room_from(offset));
        self.buffer.room(offset as usize, len)
    }

    /// Notes that bytes were read into the space at `offset`.
    pub(super) fn mark_filled(&mut self, offset: u32, len: usize) {
        self.moved = true;
        self.buffer.mark_filled(offset as usize, len);
    }

    /// Reports whether the command takes all of `len` bytes at `offset`.
    pub(super) fn wants_all(&self, offset: u32, len: usize) -> bool {
        len <= self.room_from(offset)
    }

    /// Returns the number of bytes that the command takes from `offset` on.
    #[inline]
    fn room_from(&self, offset: u32) -> usize {
        if self.spoiled {
            return 0;
        }
        self.wanted.saturating_sub(offset) as usize
    }

    /// Returns the time for which no bytes have come, as far as calls of this method show.
    pub(super) fn still_for(&mut self, now: Duration) -> Duration {
        if std::mem::take(&mut self.moved) {
            self.seen_moving = now;
        }
        now.saturating_sub(self.seen_moving)
    }

    /// Notes that data of this command was lost.
    pub(super) fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Reports whether data of this command was lost.
    #[inline]
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Handles a Data-Out PDU that arrived completely. `is_final` ends its sequence.
    ///
    /// # Errors
    /// A solicited sequence that ends short.
    pub(super) fn end(&mut self, ttt: u32, is_final: bool) -> Result<(), &'static str> {
        let Some(at) = self
            .sequences
            .iter()
            .position(|sequence| sequence.ttt == ttt)
        else {
            return Ok(());
        };
        let sequence = self.sequences[at];
        if self.spoiled {
            if is_final {
                self.sequences.remove(at);
            }
            return Ok(());
        }
        if !is_final {
            return if sequence.next_offset == sequence.end {
                Err("F missing at the end of a burst")
            } else {
                Ok(())
            };
        }
        if ttt == RESERVED_TAG {
            self.asked = sequence.next_offset;
        } else if sequence.next_offset != sequence.end {
            return Err("a solicited burst ended short");
        }
        self.sequences.remove(at);
        Ok(())
    }

    /// Reports whether all due data arrived. After a loss no more is asked for.
    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        (self.asked >= self.wanted || self.spoiled) && self.sequences.is_empty()
    }

    /// Returns the next R2T to send, if one is allowed and needed. It then uses up `ttt`.
    pub(super) fn solicit(&mut self, ttt: u32, limits: &BurstLimits) -> Option<Solicit> {
        let unsolicited_open = self
            .sequences
            .first()
            .is_some_and(|sequence| sequence.ttt == RESERVED_TAG);
        let full = self.sequences.len() >= usize::from(limits.max_outstanding_r2t);
        if unsolicited_open || full || self.spoiled || self.asked >= self.wanted {
            return None;
        }
        let offset = self.asked;
        let length = (self.wanted - offset).min(limits.max_burst);
        self.asked = offset + length;
        self.sequences.push(Sequence {
            ttt,
            next_offset: offset,
            end: offset + length,
            next_data_sn: 0,
        });
        let r2t_sn = self.r2t_sn;
        self.r2t_sn += 1;
        Some(Solicit {
            ttt,
            r2t_sn,
            offset,
            length,
        })
    }

    /// Returns the buffer, once complete.
    pub(super) fn into_buffer(self) -> B {
        self.buffer
    }
}

/// Checks that the unsolicited data that a command announces was negotiated (RFC 7143 §13.10,
/// §13.11, §13.14).
///
/// # Errors
/// The rule that was violated.
pub(super) fn check_unsolicited(
    edtl: u32,
    immediate: u32,
    is_final: bool,
    limits: &BurstLimits,
) -> Result<(), &'static str> {
    if immediate > 0 && !limits.immediate_data {
        return Err("immediate data although ImmediateData=No");
    }
    if immediate > limits.first_burst.min(edtl) {
        return Err("immediate data beyond FirstBurstLength or the expected data transfer length");
    }
    if !is_final && limits.initial_r2t {
        return Err("unsolicited data announced although InitialR2T=Yes");
    }
    Ok(())
}

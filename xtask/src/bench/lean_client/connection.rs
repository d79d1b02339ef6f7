//! One session's connection under load: batches of commands out, headers in.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use super::Options;
use super::login::{Login, Parameters, Progress};
use super::wire::{FINAL, HEADER_LEN, Header, RESERVED_TAG, crc32c, opcode, transfer_cdb};

/// Number of slices in one `writev`.
const SLICES: usize = 256;

/// Bytes of every write, shared by all commands of all sessions.
pub(super) struct Payload {
    bytes: Vec<u8>,
    /// Digests by length, since every data segment starts at the front of the payload.
    digests: Vec<(u32, [u8; 4])>,
}

impl Payload {
    pub(super) fn new(len: u32) -> Self {
        let bytes = (0..len)
            .map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8)
            .collect();
        Self {
            bytes,
            digests: Vec::new(),
        }
    }

    fn digest(&mut self, len: u32) -> [u8; 4] {
        if let Some((_, digest)) = self.digests.iter().find(|(known, _)| *known == len) {
            return *digest;
        }
        let digest = crc32c(&self.bytes[..len as usize]);
        self.digests.push((len, digest));
        digest
    }
}

/// State of one outstanding command.
struct Slot {
    template: Header,
    sent_ns: u64,
}

/// One PDU on its way out: front (header and its digest), payload, back (data digest).
struct Outgoing {
    front: [u8; HEADER_LEN + 4],
    front_len: u8,
    payload_len: u32,
    back: [u8; 4],
    back_len: u8,
}

impl Outgoing {
    fn len(&self) -> usize {
        usize::from(self.front_len) + self.payload_len as usize + usize::from(self.back_len)
    }
}

/// Finished transfer, or another event for the caller.
pub(super) enum Event {
    /// The transfer of the slot ended with GOOD.
    Finished { slot: u32, sent_ns: u64 },
    /// The transfer of the slot is to be sent again (unit attention, busy).
    Retry { slot: u32 },
}

/// One session after login.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    parameters: Parameters,
    slots: Vec<Slot>,
    /// Slots that wait for the command window.
    waiting: VecDeque<(u32, u32)>,
    outgoing: VecDeque<Outgoing>,
    /// Number of bytes of the first outgoing PDU that the socket took.
    taken: usize,
    incoming: Vec<u8>,
    /// Number of bytes at the front of `incoming` that an earlier read left, as part of a header.
    kept: usize,
    /// Number of bytes of a data segment still to come.
    skip: usize,
    block: u32,
    is_write: bool,
}

impl Connection {
    /// Logs in and asks the capacity, blocking. Also returns the unit's length in bytes and its
    /// block length.
    pub(super) fn open(options: &Options, number: u32) -> Result<(Self, u64, u32), String> {
        let lost = |e: std::io::Error| format!("session {number}: {e}");
        let mut stream = TcpStream::connect(options.portal).map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        let (mut login, mut request) = Login::start(number, &options.target, options.digests);
        let parameters = loop {
            stream.write_all(&request).map_err(lost)?;
            let (header, text) = receive(&mut stream, false).map_err(lost)?;
            match login.answer(&header, &text)? {
                Progress::Send(next) => request = next,
                Progress::Done(parameters) => break parameters,
            }
        };
        if options.digests && !parameters.digests {
            return Err("the target refuses digests".into());
        }
        let mut connection = Self {
            stream,
            parameters,
            slots: Vec::new(),
            waiting: VecDeque::new(),
            outgoing: VecDeque::new(),
            taken: 0,
            incoming: vec![0; 256 << 10],
            kept: 0,
            skip: 0,
            block: options.block,
            is_write: options.is_write,
        };
        let (bytes, block_len) = connection.capacity(options.lun)?;
        connection.prepare(options, block_len);
        connection.stream.set_nonblocking(true).map_err(lost)?;
        Ok((connection, bytes, block_len))
    }

    /// Sends READ CAPACITY(16), again while the unit announces conditions.
    fn capacity(&mut self, lun: u8) -> Result<(u64, u32), String> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
        for _ in 0..8 {
            let mut header = Header::scsi_command(lun, 0, FINAL | 0x41, 32, &cdb);
            self.number(&mut header);
            let mut bytes = header.0.to_vec();
            if self.parameters.digests {
                bytes.extend_from_slice(&header.digest());
            }
            let lost = |e: std::io::Error| format!("READ CAPACITY(16): {e}");
            self.stream.write_all(&bytes).map_err(lost)?;
            let mut data = Vec::new();
            let is_good = loop {
                let (header, bytes) =
                    receive(&mut self.stream, self.parameters.digests).map_err(lost)?;
                match header.opcode() {
                    opcode::DATA_IN => data = bytes,
                    opcode::SCSI_RESPONSE => {}
                    other => {
                        return Err(format!("READ CAPACITY(16): unexpected opcode {other:#04x}"));
                    }
                }
                if self.take_numbers(&header) {
                    break header.0[3] == 0;
                }
            };
            if is_good && let (Some(last), Some(len)) = (data.first_chunk::<8>(), data.get(8..12)) {
                let block_len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]);
                if !block_len.is_power_of_two() || !self.block.is_multiple_of(block_len) {
                    return Err(format!(
                        "a block length of {block_len} does not divide {}",
                        self.block
                    ));
                }
                return Ok((
                    (u64::from_be_bytes(*last) + 1) * u64::from(block_len),
                    block_len,
                ));
            }
        }
        Err("READ CAPACITY(16) gave no capacity in 8 tries".into())
    }

    fn prepare(&mut self, options: &Options, block_len: u32) {
        let blocks = (self.block / block_len) as u16;
        let unsolicited_len = if self.parameters.initial_r2t {
            0
        } else {
            self.block.min(self.parameters.first_burst)
        };
        let direction = if self.is_write { 0x20 } else { 0x40 };
        let last = if self.is_write && self.immediate_len() < unsolicited_len {
            0
        } else {
            FINAL
        };
        for slot in 0..options.depth as u32 {
            let cdb = transfer_cdb(self.is_write, blocks);
            let mut template =
                Header::scsi_command(options.lun, slot, last | direction | 1, self.block, &cdb);
            template.set_data_len(self.immediate_len());
            self.slots.push(Slot {
                template,
                sent_ns: 0,
            });
        }
    }

    fn immediate_len(&self) -> u32 {
        if !self.is_write || !self.parameters.immediate_data {
            return 0;
        }
        self.block
            .min(self.parameters.first_burst)
            .min(self.parameters.target_segment)
    }

    /// Sends the slot's command for the blocks at `lba`, now or when the window opens.
    pub(super) fn submit(&mut self, slot: u32, lba: u32, now_ns: u64, payload: &mut Payload) {
        let window = self
            .parameters
            .max_cmd_sn
            .wrapping_sub(self.parameters.cmd_sn) as i32;
        if window < 0 {
            self.waiting.push_back((slot, lba));
            return;
        }
        let state = &mut self.slots[slot as usize];
        state.sent_ns = now_ns;
        let mut header = state.template;
        header.set_u32(34, lba);
        self.number(&mut header);
        let mut sent = self.immediate_len();
        self.push(&header, sent, payload);
        if header.flags() & FINAL == 0 {
            let end = self.block.min(self.parameters.first_burst);
            let mut data_sn = 0;
            while sent < end {
                let len = (end - sent).min(self.parameters.target_segment);
                self.push_data(
                    &header,
                    RESERVED_TAG,
                    data_sn,
                    sent,
                    len,
                    sent + len == end,
                    payload,
                );
                sent += len;
                data_sn += 1;
            }
        }
    }

    fn number(&mut self, header: &mut Header) {
        header.set_u32(24, self.parameters.cmd_sn);
        header.set_u32(28, self.parameters.exp_stat_sn);
        self.parameters.cmd_sn = self.parameters.cmd_sn.wrapping_add(1);
    }

    /// Appends a Data-Out PDU of the command in `like`.
    #[allow(clippy::too_many_arguments)] // the fields of the PDU
    fn push_data(
        &mut self,
        like: &Header,
        transfer_tag: u32,
        data_sn: u32,
        offset: u32,
        len: u32,
        is_last: bool,
        payload: &mut Payload,
    ) {
        let mut header = Header::new(opcode::DATA_OUT, if is_last { FINAL } else { 0 });
        header.set_data_len(len);
        header.0[8..16].copy_from_slice(&like.0[8..16]);
        header.set_u32(16, like.tag());
        header.set_u32(20, transfer_tag);
        header.set_u32(28, self.parameters.exp_stat_sn);
        header.set_u32(36, data_sn);
        header.set_u32(40, offset);
        self.push(&header, len, payload);
    }

    fn push(&mut self, header: &Header, payload_len: u32, payload: &mut Payload) {
        let mut pdu = Outgoing {
            front: [0; HEADER_LEN + 4],
            front_len: HEADER_LEN as u8,
            payload_len,
            back: [0; 4],
            back_len: 0,
        };
        pdu.front[..HEADER_LEN].copy_from_slice(&header.0);
        if self.parameters.digests {
            pdu.front[HEADER_LEN..].copy_from_slice(&header.digest());
            pdu.front_len += 4;
            if payload_len > 0 {
                pdu.back = payload.digest(payload_len);
                pdu.back_len = 4;
            }
        }
        self.outgoing.push_back(pdu);
    }

    /// Writes the queued bytes. Returns `true` if the socket takes no more for now.
    pub(super) fn flush(&mut self, payload: &Payload) -> Result<bool, String> {
        while !self.outgoing.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = gather(&self.outgoing, self.taken, &payload.bytes, &mut slices);
            match self.stream.write_vectored(&slices[..count]) {
                Ok(written) => self.advance(written),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("session lost while sending: {e}")),
            }
        }
        Ok(false)
    }

    fn advance(&mut self, written: usize) {
        self.taken += written;
        while let Some(first) = self.outgoing.front()
            && self.taken >= first.len()
        {
            self.taken -= first.len();
            self.outgoing.pop_front();
        }
    }

    /// Reads once, and reports the transfers that ended. Returns `false` if nothing was waiting.
    pub(super) fn receive(
        &mut self,
        payload: &mut Payload,
        events: &mut Vec<Event>,
    ) -> Result<bool, String> {
        let read = match self.stream.read(&mut self.incoming[self.kept..]) {
            Ok(0) => return Err("the target closed the session".into()),
            Ok(read) => read,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(e) => return Err(format!("session lost while receiving: {e}")),
        };
        let end = self.kept + read;
        let mut at = self.skip.min(end);
        self.skip -= at;
        let digest_len = if self.parameters.digests { 4 } else { 0 };
        while self.skip == 0 && end - at >= HEADER_LEN + digest_len {
            let header = Header::at(&self.incoming[at..]);
            if digest_len > 0
                && header.digest() != self.incoming[at + HEADER_LEN..at + HEADER_LEN + 4]
            {
                return Err("header digest error in what the target sent".into());
            }
            // Sense data is read only if its segment came along in this read.
            let segment = at + HEADER_LEN + digest_len;
            let sense = self
                .incoming
                .get(segment + 2..(segment + 20).min(end))
                .unwrap_or_default();
            let sense = sense.first_chunk::<18>().copied();
            self.take(&header, sense, payload, events)?;
            let mut body =
                header.additional_len() + (header.data_len() as usize).next_multiple_of(4);
            if header.data_len() > 0 {
                body += digest_len;
            }
            let here = body.min(end - segment);
            at = segment + here;
            self.skip = body - here;
        }
        self.incoming.copy_within(at..end, 0);
        self.kept = end - at;
        Ok(true)
    }

    fn take(
        &mut self,
        header: &Header,
        sense: Option<[u8; 18]>,
        payload: &mut Payload,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        match header.opcode() {
            opcode::DATA_IN | opcode::SCSI_RESPONSE => {
                if self.take_numbers(header) {
                    events.push(self.ended(header, sense)?);
                    while (self
                        .parameters
                        .max_cmd_sn
                        .wrapping_sub(self.parameters.cmd_sn) as i32)
                        >= 0
                        && let Some((slot, lba)) = self.waiting.pop_front()
                    {
                        self.submit(slot, lba, super::load::now_ns(), payload);
                    }
                }
                Ok(())
            }
            opcode::R2T => {
                self.take_numbers(header);
                self.answer_r2t(header, payload)
            }
            opcode::NOP_IN => {
                self.take_numbers(header);
                if header.u32(20) != RESERVED_TAG {
                    let pong = pong(header, self.parameters.cmd_sn, self.parameters.exp_stat_sn);
                    self.push(&pong, 0, payload);
                }
                Ok(())
            }
            other => Err(format!(
                "the target sent opcode {other:#04x}, which ends the benchmark"
            )),
        }
    }

    /// Takes over StatSN and MaxCmdSN. Returns `true` if the PDU ends a command.
    fn take_numbers(&mut self, header: &Header) -> bool {
        let max = header.u32(32);
        if (max.wrapping_sub(self.parameters.max_cmd_sn) as i32) > 0 {
            self.parameters.max_cmd_sn = max;
        }
        let ends = match header.opcode() {
            opcode::SCSI_RESPONSE => true,
            opcode::DATA_IN => header.flags() & 1 != 0,
            _ => false,
        };
        if ends {
            self.parameters.exp_stat_sn = header.u32(24).wrapping_add(1);
        }
        ends
    }

    fn ended(&self, header: &Header, sense: Option<[u8; 18]>) -> Result<Event, String> {
        let slot = header.tag();
        let Some(state) = self.slots.get(slot as usize) else {
            return Err(format!(
                "the target answered a command that was never sent: tag {slot:#x}"
            ));
        };
        let key = sense.map(|s| {
            if s[0] & 0x7f >= 0x72 {
                s[1] & 0xf
            } else {
                s[2] & 0xf
            }
        });
        match (header.0[3], header.0[2]) {
            (0, _) if header.opcode() == opcode::DATA_IN => Ok(Event::Finished {
                slot,
                sent_ns: state.sent_ns,
            }),
            (0, 0) => Ok(Event::Finished {
                slot,
                sent_ns: state.sent_ns,
            }),
            (0x08 | 0x28, _) => Ok(Event::Retry { slot }),
            (0x02, _) if key == Some(6) => Ok(Event::Retry { slot }),
            (status, _) => Err(format!(
                "a transfer failed with status {status:#04x}, sense {sense:02x?}"
            )),
        }
    }

    fn answer_r2t(&mut self, header: &Header, payload: &mut Payload) -> Result<(), String> {
        let (transfer_tag, mut offset, wanted) = (header.u32(20), header.u32(40), header.u32(44));
        let Some(state) = self.slots.get(header.tag() as usize) else {
            return Err(format!(
                "R2T for a command that was never sent: tag {:#x}",
                header.tag()
            ));
        };
        let like = state.template;
        let end = offset.saturating_add(wanted);
        if end > self.block {
            return Err(format!(
                "R2T for bytes {offset} to {end} of a transfer of {}",
                self.block
            ));
        }
        let mut data_sn = 0;
        while offset < end {
            let len = (end - offset).min(self.parameters.target_segment);
            self.push_data(
                &like,
                transfer_tag,
                data_sn,
                offset,
                len,
                offset + len == end,
                payload,
            );
            offset += len;
            data_sn += 1;
        }
        Ok(())
    }
}

/// Builds the answer to a ping (RFC 7143 11.18).
pub(super) fn pong(ping: &Header, cmd_sn: u32, exp_stat_sn: u32) -> Header {
    let mut header = Header::new(opcode::NOP_OUT | super::wire::IMMEDIATE, FINAL);
    header.0[8..16].copy_from_slice(&ping.0[8..16]);
    header.set_u32(16, RESERVED_TAG);
    header.set_u32(20, ping.u32(20));
    header.set_u32(24, cmd_sn);
    header.set_u32(28, exp_stat_sn);
    header
}

/// Fills `slices` with the bytes to write, after the `skip` bytes already taken.
fn gather<'a>(
    queue: &'a VecDeque<Outgoing>,
    mut skip: usize,
    payload: &'a [u8],
    slices: &mut [IoSlice<'a>],
) -> usize {
    let mut count = 0;
    for pdu in queue {
        let parts = [
            &pdu.front[..usize::from(pdu.front_len)],
            &payload[..pdu.payload_len as usize],
            &pdu.back[..usize::from(pdu.back_len)],
        ];
        for part in parts {
            let jump = skip.min(part.len());
            skip -= jump;
            if jump < part.len() {
                slices[count] = IoSlice::new(&part[jump..]);
                count += 1;
                if count == slices.len() {
                    return count;
                }
            }
        }
    }
    count
}

/// Reads one whole PDU, blocking.
fn receive(stream: &mut TcpStream, digests: bool) -> std::io::Result<(Header, Vec<u8>)> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header)?;
    let header = Header(header);
    let mut digest = [0; 4];
    if digests {
        stream.read_exact(&mut digest)?;
    }
    let len = header.data_len() as usize;
    let mut data = vec![0; len.next_multiple_of(4)];
    stream.read_exact(&mut data)?;
    data.truncate(len);
    if digests && len > 0 {
        stream.read_exact(&mut digest)?;
    }
    Ok((header, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(front_len: u8, payload_len: u32, back_len: u8) -> Outgoing {
        Outgoing {
            front: [1; HEADER_LEN + 4],
            front_len,
            payload_len,
            back: [3; 4],
            back_len,
        }
    }

    #[test]
    fn what_is_gathered_continues_where_the_socket_stopped() {
        let queue = VecDeque::from([outgoing(52, 100, 4), outgoing(48, 0, 0)]);
        let payload = [2; 100];
        let whole = [vec![1; 52], vec![2; 100], vec![3; 4], vec![1; 48]].concat();
        for skip in 0..156 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = gather(&queue, skip, &payload, &mut slices);
            let bytes: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|s| s.iter().copied())
                .collect();
            assert_eq!(bytes, whole[skip..], "{skip}");
        }
    }

    #[test]
    fn no_more_slices_are_filled_than_there_are() {
        let queue: VecDeque<Outgoing> = (0..300).map(|_| outgoing(48, 10, 0)).collect();
        let mut slices = [IoSlice::new(&[]); SLICES];
        assert_eq!(gather(&queue, 0, &[0; 10], &mut slices), SLICES);
    }
}

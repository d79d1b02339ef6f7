//! Attack 5: write data that does not fit what was announced: immediate data beyond FirstBurstLength
//! or the CDB's length, Data-Out beyond its burst, an EDTL that lies in either direction. Nothing
//! lands outside the command's buffer, and every difference is told as a residual.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use iscsi::payload::{DataOutBuffer, Payload};
use iscsi::pdu::{
    BHS_LENGTH, Bhs, DataIn, DataOut, Opcode, RESERVED_TAG, RawBhs, ReadyToTransfer, ScsiCommand,
    ScsiResponse, TaskAttribute, padded,
};
use iscsi::target::{
    Admission, Completion, ConnectionError, ConnectionSettings, IncomingCommand, Session,
    SessionSettings, TaskId, TaskRouter,
};

const FIRST_BURST: u32 = 4096;
const ITT: u32 = 77;

#[derive(Clone)]
struct Bytes(Arc<[u8]>);

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl Payload for Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn chunks(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.0[range])
    }
}

/// A buffer that notices any byte outside what its command wants.
struct Room {
    wanted: usize,
    bytes: Vec<u8>,
}

impl DataOutBuffer for Room {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.wanted, "a byte outside");
        self.bytes.put(offset, bytes);
    }

    fn room(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]> {
        assert!(offset + len <= self.wanted, "room outside");
        self.bytes.room(offset, len)
    }

    fn mark_filled(&mut self, offset: usize, len: usize) {
        assert!(offset + len <= self.wanted, "filled outside");
    }
}

/// A device server whose every command moves as many bytes as it was made for.
struct Router {
    wanted: u32,
    written: Vec<Vec<u8>>,
}

impl TaskRouter for Router {
    type Payload = Bytes;
    type Buffer = Room;

    fn command(&mut self, _: TaskId, command: &IncomingCommand<'_>) -> Admission<Bytes, Room> {
        let wanted = self.wanted;
        if command.cdb[0] == 0x28 {
            return Admission::Done(good(Some(vec![7; wanted as usize])));
        }
        let buffer = Room {
            wanted: wanted as usize,
            bytes: Vec::new(),
        };
        Admission::Collect { buffer, wanted }
    }

    fn data_out(&mut self, _: TaskId, buffer: Room, length: u32) -> Admission<Bytes, Room> {
        assert_eq!(buffer.bytes.len(), length as usize);
        self.written.push(buffer.bytes);
        Admission::Done(good(None))
    }
}

fn good(data_in: Option<Vec<u8>>) -> Completion<Bytes> {
    let data_in = data_in.map(Bytes::from);
    Completion {
        status: 0,
        sense: Vec::new(),
        data_in,
        data_out_wanted: None,
    }
}

struct Target {
    session: Session<Bytes, Room>,
    router: Router,
    connection: usize,
    sent: Vec<(RawBhs, Vec<u8>)>,
}

impl Target {
    /// Commands of this target move `wanted` bytes by their CDB.
    fn new(wanted: u32, initial_r2t: bool, immediate_data: bool) -> Self {
        let mut session = Session::new(SessionSettings {
            discovery: false,
            max_burst_length: 8192,
            first_burst_length: FIRST_BURST,
            max_outstanding_r2t: 1,
            initial_r2t,
            immediate_data,
            exp_cmd_sn: 1,
            queue_depth: 8,
            ping_after: None,
            ping_timeout: Duration::from_secs(10),
        });
        let settings = ConnectionSettings {
            cid: 0,
            header_digest: false,
            data_digest: false,
            max_recv_data_segment_length: 16 << 10,
            initiator_max_recv_data_segment_length: 8192,
            stat_sn: 1,
        };
        let connection = session.add_connection(&settings, Duration::ZERO);
        let router = Router {
            wanted,
            written: Vec::new(),
        };
        Self {
            session,
            router,
            connection,
            sent: Vec::new(),
        }
    }

    fn send(&mut self, bhs: &RawBhs, data: &[u8]) -> Result<(), ConnectionError> {
        let mut stream = bhs.to_vec();
        stream.extend_from_slice(data);
        stream.resize(BHS_LENGTH + padded(data.len()), 0);
        let mut input = &stream[..];
        let outcome = self.session.receive(
            self.connection,
            &mut input,
            Duration::ZERO,
            &mut self.router,
        );
        let mut output = Vec::new();
        self.session.gather(self.connection, |piece| {
            output.extend_from_slice(piece);
            true
        });
        self.session.sent(self.connection, output.len());
        while let Some((bhs, rest)) = output.split_first_chunk::<BHS_LENGTH>() {
            let len = Bhs::new(bhs).data_segment_length();
            self.sent.push((*bhs, rest[..len].to_vec()));
            output = rest[padded(len)..].to_vec();
        }
        assert!(outcome.as_ref().is_ok_and(Option::is_none) || outcome.is_err());
        outcome.map(|_| ())
    }

    fn write(
        &mut self,
        edtl: u32,
        immediate: usize,
        is_final: bool,
    ) -> Result<(), ConnectionError> {
        self.send(
            &command(0x2a, edtl, immediate, is_final),
            &vec![1; immediate],
        )
    }

    fn data_out(
        &mut self,
        ttt: u32,
        sn: u32,
        offset: u32,
        len: usize,
        is_final: bool,
    ) -> Result<(), ConnectionError> {
        let pdu = DataOut {
            is_final,
            data_segment_length: len as u32,
            lun: 0,
            itt: ITT,
            ttt,
            exp_stat_sn: 1,
            data_sn: sn,
            buffer_offset: offset,
        };
        let mut bhs = [0; BHS_LENGTH];
        pdu.encode(&mut bhs);
        self.send(&bhs, &vec![2; len])
    }

    /// The last PDU sent.
    fn last(&self) -> &RawBhs {
        &self.sent.last().unwrap().0
    }

    fn r2t(&self) -> ReadyToTransfer {
        ReadyToTransfer::parse(self.last()).unwrap()
    }

    /// The answer: (overflow, underflow, residual count).
    fn residual(&self) -> (bool, bool, u32) {
        let response = ScsiResponse::parse(self.last()).unwrap();
        assert_eq!(response.status, 0);
        (
            response.overflow,
            response.underflow,
            response.residual_count,
        )
    }

    /// A protocol error was told with a Reject and nothing was written.
    #[track_caller]
    fn refused(&self, outcome: Result<(), ConnectionError>) {
        assert!(
            matches!(outcome, Err(ConnectionError::Protocol(_))),
            "{outcome:?}"
        );
        assert_eq!(Bhs::new(self.last()).opcode(), Ok(Opcode::Reject));
        assert_eq!(self.router.written, Vec::<Vec<u8>>::new());
    }
}

fn command(opcode: u8, edtl: u32, immediate: usize, is_final: bool) -> RawBhs {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    let pdu = ScsiCommand {
        immediate: false,
        is_final,
        read: opcode == 0x28,
        write: opcode == 0x2a,
        attribute: TaskAttribute::Simple,
        total_ahs_length: 0,
        data_segment_length: immediate as u32,
        lun: 0,
        itt: ITT,
        expected_data_transfer_length: edtl,
        cmd_sn: 1,
        exp_stat_sn: 1,
        cdb,
    };
    let mut bhs = [0; BHS_LENGTH];
    pdu.encode(&mut bhs);
    bhs
}

#[test]
fn immediate_data_beyond_first_burst_length_is_refused() {
    let mut target = Target::new(8192, false, true);
    let outcome = target.write(8192, FIRST_BURST as usize + 4, true);
    target.refused(outcome);
}

#[test]
fn immediate_data_beyond_the_expected_length_is_refused() {
    let mut target = Target::new(512, false, true);
    let outcome = target.write(512, 1024, true);
    target.refused(outcome);
}

#[test]
fn immediate_data_that_was_not_negotiated_is_refused() {
    let mut target = Target::new(512, true, false);
    let outcome = target.write(512, 512, true);
    target.refused(outcome);
}

#[test]
fn unsolicited_data_that_was_not_negotiated_is_refused() {
    let mut target = Target::new(1024, true, true);
    let outcome = target.write(1024, 512, false);
    target.refused(outcome);
}

#[test]
fn unsolicited_data_beyond_first_burst_length_is_refused() {
    let mut target = Target::new(8192, false, true);
    target.write(8192, 1024, false).unwrap();
    let outcome = target.data_out(RESERVED_TAG, 0, 1024, FIRST_BURST as usize, true);
    target.refused(outcome);
}

#[test]
fn solicited_data_stays_in_its_burst_and_its_order() {
    type Attempt = fn(&ReadyToTransfer) -> (u32, u32, u32, usize, bool);
    let attempts: [Attempt; 6] = [
        |r2t| {
            (
                r2t.ttt,
                0,
                r2t.buffer_offset,
                r2t.desired_data_transfer_length as usize + 4,
                true,
            )
        },
        |r2t| (r2t.ttt, 0, r2t.buffer_offset + 512, 512, true),
        |r2t| (r2t.ttt, 1, r2t.buffer_offset, 512, false),
        |r2t| (r2t.ttt ^ 1, 0, r2t.buffer_offset, 512, false),
        |r2t| (RESERVED_TAG, 0, r2t.buffer_offset, 512, false),
        |r2t| (r2t.ttt, 0, u32::MAX - 3, 512, true),
    ];
    for (number, attempt) in attempts.iter().enumerate() {
        let mut target = Target::new(8192, true, true);
        target.write(8192, 1024, true).unwrap();
        let (ttt, sn, offset, len, is_final) = attempt(&target.r2t());
        let outcome = target.data_out(ttt, sn, offset, len, is_final);
        assert!(outcome.is_err(), "attempt {number}");
        target.refused(outcome);
    }
}

#[test]
fn a_burst_that_ends_short_is_no_write() {
    let mut target = Target::new(4096, true, true);
    target.write(4096, 0, true).unwrap();
    let r2t = target.r2t();
    let outcome = target.data_out(r2t.ttt, 0, 0, 512, true);
    assert!(outcome.is_err());
    assert_eq!(target.router.written, Vec::<Vec<u8>>::new());
}

#[test]
fn more_data_than_the_cdb_takes_is_dropped_and_told_as_underflow() {
    let mut target = Target::new(512, false, true);
    target.write(1024, 1024, true).unwrap();
    assert_eq!(target.router.written, [vec![1; 512]]);
    assert_eq!(target.residual(), (false, true, 512));
}

#[test]
fn less_data_than_the_cdb_takes_is_told_as_overflow() {
    let mut target = Target::new(1024, false, true);
    target.write(512, 512, true).unwrap();
    assert_eq!(target.router.written, [vec![1; 512]]);
    assert_eq!(target.residual(), (true, false, 512));
}

#[test]
fn a_read_sends_what_was_expected_and_tells_the_rest() {
    for (edtl, wanted) in [(512, 1024), (1024, 512), (0, 512), (u32::MAX, 512)] {
        let mut target = Target::new(wanted, true, true);
        target.send(&command(0x28, edtl, 0, true), &[]).unwrap();
        let sent: usize = target.sent.iter().map(|(_, data)| data.len()).sum();
        assert_eq!(sent, edtl.min(wanted) as usize);
        let (overflow, underflow, count) = match DataIn::parse(target.last()) {
            Ok(last) => (last.overflow, last.underflow, last.residual_count),
            Err(_) => target.residual(),
        };
        assert_eq!(
            (overflow, underflow),
            (edtl < wanted, edtl > wanted),
            "EDTL {edtl}"
        );
        assert_eq!(count, edtl.abs_diff(wanted));
    }
}

#[test]
fn data_for_a_command_that_has_all_its_data_is_not_written() {
    let mut target = Target::new(512, false, true);
    target.write(512, 512, true).unwrap();
    // The command has ended: its tag means nothing now, and the late data is dropped.
    target.data_out(RESERVED_TAG, 0, 0, 512, true).unwrap();
    assert_eq!(target.router.written, [vec![1; 512]]);
}

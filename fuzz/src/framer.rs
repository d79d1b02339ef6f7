//! Session in the full-feature phase, fed with any bytes in any pieces. It never panics, and never
//! collects more than a command wants. All that it sends is whole, well-formed PDUs, whose MaxCmdSN
//! never goes back.
//!
//! Input: one byte of settings, then pieces: two bytes of length and that many bytes off the wire.

use std::sync::Arc;
use std::time::Duration;

use iscsi::payload::DataOutBuffer;
use iscsi::pdu::{BHS_LENGTH, Bhs, RESERVED_TAG, RawBhs, TaskManagementResult, TextResponse};
use iscsi::target::{
    Admission, Completion, ConnectionSettings, Event, IncomingCommand, Session, SessionSettings,
    TaskId, TaskRouter,
};

use crate::input::Bytes;

/// Most data-out that a command may want.
const MAX_WANTED: u32 = 64 << 10;

type Shared = Arc<[u8]>;

/// Buffer that refuses to grow beyond the length that its command wants.
struct Room {
    wanted: usize,
    bytes: Vec<u8>,
}

impl DataOutBuffer for Room {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        assert!(
            offset + bytes.len() <= self.wanted,
            "data beyond what the command wants"
        );
        self.bytes.put(offset, bytes);
    }

    fn room(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]> {
        assert!(
            offset + len <= self.wanted,
            "room beyond what the command wants"
        );
        self.bytes.room(offset, len)
    }

    fn mark_filled(&mut self, offset: usize, len: usize) {
        assert!(
            offset + len <= self.wanted,
            "filled beyond what the command wants"
        );
    }
}

/// Router that answers by the first byte of the CDB, so that the fuzzer reaches every admission.
#[derive(Default)]
struct Router {
    running: Vec<TaskId>,
}

impl TaskRouter for Router {
    type Payload = Shared;
    type Buffer = Room;

    fn command(&mut self, task: TaskId, command: &IncomingCommand<'_>) -> Admission<Shared, Room> {
        let size =
            u32::from_be_bytes([0, command.cdb[1], command.cdb[2], command.cdb[3]]).min(MAX_WANTED);
        match command.cdb[0] & 7 {
            0 | 1 => Admission::Done(end(0, Some(size))),
            2 => Admission::Done(end(2, None)),
            3 => {
                self.running.push(task);
                Admission::Running
            }
            _ => Admission::Collect {
                buffer: Room {
                    wanted: size as usize,
                    bytes: Vec::new(),
                },
                wanted: size,
            },
        }
    }

    fn data_out(&mut self, task: TaskId, buffer: Room, length: u32) -> Admission<Shared, Room> {
        assert!(buffer.bytes.len() <= buffer.wanted && length as usize <= buffer.wanted);
        if buffer.bytes.first() == Some(&1) {
            self.running.push(task);
            return Admission::Running;
        }
        Admission::Done(end(0, None))
    }
}

fn end(status: u8, data_in: Option<u32>) -> Completion<Shared> {
    let sense = if status == 2 {
        vec![0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0, 0, 0]
    } else {
        Vec::new()
    };
    Completion {
        status,
        sense,
        data_in: data_in.map(|len| vec![7; len as usize].into()),
        data_out_wanted: None,
        receipt: None,
    }
}

/// Sent bytes, checked PDU by PDU.
struct Output {
    pending: Vec<u8>,
    header_digest: bool,
    data_digest: bool,
    max_cmd_sn: u32,
}

impl Output {
    fn take(&mut self, session: &mut Session<Shared, Room>, index: usize) {
        loop {
            let before = self.pending.len();
            session.gather(index, |piece| {
                self.pending.extend_from_slice(piece);
                self.pending.len() < 1 << 20
            });
            let count = self.pending.len() - before;
            if count == 0 {
                break;
            }
            session.sent(index, count);
        }
        assert_eq!(
            session.queued_bytes(index),
            0,
            "bytes that are never offered"
        );
        self.check();
    }

    fn check(&mut self) {
        let mut at = 0;
        while let Some(raw) = self.pending[at..].first_chunk::<BHS_LENGTH>().copied() {
            self.check_header(&raw);
            let len = Bhs::new(&raw).pdu_length(self.header_digest, self.data_digest);
            assert!(self.pending.len() - at >= len, "a PDU cut short");
            at += len;
        }
        assert_eq!(at, self.pending.len(), "bytes after the last PDU");
        self.pending.clear();
    }

    fn check_header(&mut self, raw: &RawBhs) {
        let Ok(opcode) = Bhs::new(raw).opcode() else {
            panic!("an unknown opcode was sent: {raw:02x?}")
        };
        assert!(!opcode.from_initiator(), "a target sent {opcode:?}");
        let max_cmd_sn = u32::from_be_bytes([raw[32], raw[33], raw[34], raw[35]]);
        assert!(
            max_cmd_sn.wrapping_sub(self.max_cmd_sn) as i32 >= 0,
            "MaxCmdSN went back"
        );
        self.max_cmd_sn = max_cmd_sn;
    }
}

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let choice = bytes.u8();
    let bit = |n: u8| choice >> n & 1 != 0;
    let settings = SessionSettings {
        discovery: bit(6),
        max_burst_length: 16 << 10,
        first_burst_length: 4096,
        max_outstanding_r2t: if bit(0) { 1 } else { 4 },
        initial_r2t: bit(1),
        immediate_data: !bit(2),
        exp_cmd_sn: 1,
        queue_depth: if bit(3) { 1 } else { 32 },
        ping_after: Some(Duration::from_secs(15)),
        ping_timeout: Duration::from_secs(10),
        data_out_timeout: Duration::from_secs(60),
    };
    let connection = ConnectionSettings {
        cid: 0,
        header_digest: bit(4),
        data_digest: bit(5),
        max_recv_data_segment_length: 8192,
        initiator_max_recv_data_segment_length: 4096,
        stat_sn: 1,
    };
    let mut session = Session::new(settings);
    let index = session.add_connection(&connection, Duration::ZERO);
    let mut router = Router::default();
    let mut output = Output {
        pending: Vec::new(),
        header_digest: bit(4),
        data_digest: bit(5),
        max_cmd_sn: 0,
    };
    let mut now = Duration::ZERO;
    while !bytes.is_empty() {
        let len = usize::from(bytes.u16());
        let mut piece = bytes.take(len);
        now += Duration::from_millis(u64::from(len as u16));
        if !receive(&mut session, index, &mut piece, now, &mut router) {
            output.take(&mut session, index);
            session.remove_connection(index);
            break;
        }
        output.take(&mut session, index);
        if session.is_logged_out(index) {
            break;
        }
        if len & 0x100 != 0 {
            finish_one(&mut session, &mut router);
        }
        if !session.tick(now).is_empty() {
            break;
        }
        output.take(&mut session, index);
    }
    while finish_one(&mut session, &mut router) {}
    if !session.is_empty() {
        output.take(&mut session, index);
    }
}

/// Feeds one piece. Returns `false` if the connection is to be closed.
fn receive(
    session: &mut Session<Shared, Room>,
    index: usize,
    piece: &mut &[u8],
    now: Duration,
    router: &mut Router,
) -> bool {
    loop {
        match session.receive(index, piece, now, router) {
            Err(_) => return false,
            Ok(None) => {
                assert!(piece.is_empty(), "input left without an event");
                return true;
            }
            Ok(Some(Event::TaskManagement {
                request,
                referenced,
                connection,
            })) => {
                if let Some(task) = referenced {
                    session.abort(task, request.itt & 1 != 0);
                }
                session.task_management_response(
                    connection,
                    request.itt,
                    TaskManagementResult::Complete,
                );
            }
            Ok(Some(Event::Text {
                request,
                connection,
                ..
            })) => {
                let response = TextResponse {
                    is_final: true,
                    continues: false,
                    data_segment_length: 0,
                    lun: 0,
                    itt: request.itt,
                    ttt: RESERVED_TAG,
                    stat_sn: 0,
                    exp_cmd_sn: 0,
                    max_cmd_sn: 0,
                };
                session.text_response(connection, response, b"A=b\0".to_vec());
            }
            Ok(Some(Event::Logout(_))) => {}
        }
    }
}

fn finish_one(session: &mut Session<Shared, Room>, router: &mut Router) -> bool {
    let Some(task) = router.running.pop() else {
        return false;
    };
    session.complete(task, end(0, None));
    true
}

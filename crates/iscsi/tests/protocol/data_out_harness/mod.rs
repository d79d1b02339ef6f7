//! Session in which every command moves as many bytes as it was made for, driven PDU by PDU.

#![allow(clippy::unwrap_used, dead_code)] // Each test file uses a part of it.

use std::sync::Arc;
use std::time::Duration;

use iscsi::digest::{Crc32c, to_wire};
use iscsi::payload::DataOutBuffer;
use iscsi::pdu::{
    BHS_LENGTH, Bhs, DataOut, Opcode, RawBhs, ReadyToTransfer, ScsiCommand, ScsiResponse,
    TaskAttribute, TaskManagementFunction, padded,
};
use iscsi::target::{
    Admission, Completion, ConnectionError, ConnectionSettings, Event, IncomingCommand, Session,
    SessionSettings, TaskId, TaskRouter,
};

pub(crate) const FIRST_BURST: u32 = 4096;
pub(crate) const ITT: u32 = 77;
/// Opcode of a command that moves nothing, whatever its initiator offers, and runs until
/// [`Target::finish`].
pub(crate) const TAKES_NO_DATA: u8 = 0x35;
/// Opcode of a command that is refused at once.
pub(crate) const REFUSED: u8 = 0x89;
pub(crate) const DATA_OUT_TIMEOUT: Duration = Duration::from_secs(60);

type Bytes = Arc<[u8]>;

/// Buffer that notices any byte outside the range that its command wants.
pub(crate) struct Room {
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

/// Device server in which every command moves as many bytes as it was made for.
pub(crate) struct Router {
    wanted: u32,
    /// Byte 1 of the CDBs of all commands, in the order in which they began.
    pub(crate) begun: Vec<u8>,
    /// Data that commands wrote.
    pub(crate) written: Vec<Vec<u8>>,
    /// Number of commands that lost data.
    pub(crate) lost: usize,
    /// Whether [`Target::finish`] performs writes later.
    pub(crate) slow: bool,
    /// Writes that are not performed yet.
    running: Vec<(TaskId, Vec<u8>)>,
}

impl TaskRouter for Router {
    type Payload = Bytes;
    type Buffer = Room;

    fn command(&mut self, task: TaskId, command: &IncomingCommand<'_>) -> Admission<Bytes, Room> {
        let wanted = self.wanted;
        self.begun.push(command.cdb[1]);
        if command.cdb[0] == 0x28 {
            return Admission::Done(good(Some(vec![7; wanted as usize])));
        }
        if command.cdb[0] == REFUSED {
            return Admission::Done(Completion {
                status: 2,
                ..good(None)
            });
        }
        if command.cdb[0] == TAKES_NO_DATA {
            self.running.push((task, Vec::new()));
            return Admission::Running;
        }
        let buffer = Room {
            wanted: wanted as usize,
            bytes: Vec::new(),
        };
        Admission::Collect { buffer, wanted }
    }

    fn data_out(&mut self, task: TaskId, buffer: Room, length: u32) -> Admission<Bytes, Room> {
        assert_eq!(buffer.bytes.len(), length as usize);
        if self.slow {
            self.running.push((task, buffer.bytes));
            return Admission::Running;
        }
        self.written.push(buffer.bytes);
        Admission::Done(good(None))
    }

    fn data_out_lost(&mut self, _: TaskId, _: Room) {
        self.lost += 1;
    }
}

fn good(data_in: Option<Vec<u8>>) -> Completion<Bytes> {
    let data_in = data_in.map(Bytes::from);
    Completion {
        status: 0,
        sense: Vec::new(),
        data_in,
        data_out_wanted: None,
        receipt: None,
    }
}

/// Session under test, and all that it sent.
pub(crate) struct Target {
    pub(crate) session: Session<Bytes, Room>,
    pub(crate) router: Router,
    /// Connection that is used, and the other one.
    connection: usize,
    second: usize,
    data_digest: bool,
    header_digest: bool,
    pub(crate) sent: Vec<(RawBhs, Vec<u8>)>,
}

impl Target {
    /// Makes a target whose commands move `wanted` bytes by their CDB.
    pub(crate) fn new(wanted: u32, initial_r2t: bool, immediate_data: bool) -> Self {
        Self::build(wanted, initial_r2t, immediate_data, (false, false))
    }

    /// Makes a target as [`Target::new`] does, with CRC32C over data.
    pub(crate) fn with_digest(wanted: u32, initial_r2t: bool, immediate_data: bool) -> Self {
        Self::build(wanted, initial_r2t, immediate_data, (false, true))
    }

    /// Makes a target with CRC32C over headers, and no data.
    pub(crate) fn with_header_digest() -> Self {
        Self::build(512, true, false, (true, false))
    }

    fn build(
        wanted: u32,
        initial_r2t: bool,
        immediate_data: bool,
        (header_digest, data_digest): (bool, bool),
    ) -> Self {
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
            data_out_timeout: DATA_OUT_TIMEOUT,
        });
        let settings = ConnectionSettings {
            cid: 0,
            header_digest,
            data_digest,
            max_recv_data_segment_length: 16 << 10,
            initiator_max_recv_data_segment_length: 8192,
            stat_sn: 1,
        };
        let connection = session.add_connection(&settings, Duration::ZERO);
        let second = ConnectionSettings { cid: 1, ..settings };
        let second = session.add_connection(&second, Duration::ZERO);
        let router = Router {
            wanted,
            begun: Vec::new(),
            written: Vec::new(),
            lost: 0,
            slow: false,
            running: Vec::new(),
        };
        Self {
            session,
            router,
            connection,
            second,
            data_digest,
            header_digest,
            sent: Vec::new(),
        }
    }

    /// Continues with the other of the two connections.
    pub(crate) fn change_connection(&mut self) {
        std::mem::swap(&mut self.connection, &mut self.second);
    }

    pub(crate) fn send(&mut self, bhs: &RawBhs, data: &[u8]) -> Result<(), ConnectionError> {
        self.send_broken(bhs, data, 0)
    }

    /// Sends a PDU, with bits of its data digest flipped.
    pub(crate) fn send_broken(
        &mut self,
        bhs: &RawBhs,
        data: &[u8],
        flip: u32,
    ) -> Result<(), ConnectionError> {
        let mut stream = bhs.to_vec();
        stream.extend_from_slice(data);
        stream.resize(BHS_LENGTH + padded(data.len()), 0);
        if self.data_digest && !data.is_empty() {
            let crc = Crc32c::new().update(&stream[BHS_LENGTH..]).finish() ^ flip;
            stream.extend_from_slice(&to_wire(crc));
        }
        self.receive(&stream)
    }

    /// Takes bytes of the stream, wherever they end, and collects all answers.
    pub(crate) fn receive(&mut self, mut input: &[u8]) -> Result<(), ConnectionError> {
        let outcome = self.session.receive(
            self.connection,
            &mut input,
            Duration::ZERO,
            &mut self.router,
        );
        self.fetch();
        self.change_connection();
        self.fetch();
        self.change_connection();
        assert!(outcome.as_ref().is_ok_and(Option::is_none) || outcome.is_err());
        outcome.map(|_| ())
    }

    /// Takes bytes of the stream, and collects all answers. Returns the functions for which the
    /// runtime is asked, with the number of commands that had begun by then. The task that ABORT
    /// TASK names is aborted.
    pub(crate) fn functions(&mut self, mut input: &[u8]) -> Vec<(TaskManagementFunction, usize)> {
        let mut asked = Vec::new();
        loop {
            let event = self.session.receive(
                self.connection,
                &mut input,
                Duration::ZERO,
                &mut self.router,
            );
            match event.unwrap() {
                Some(Event::TaskManagement {
                    request,
                    referenced,
                    ..
                }) => {
                    asked.push((request.function, self.router.begun.len()));
                    if let Some(task) = referenced {
                        assert!(!self.session.abort(task, false), "its data is not in");
                    }
                }
                Some(other) => panic!("{other:?}"),
                None => break,
            }
        }
        self.fetch();
        self.change_connection();
        self.fetch();
        self.change_connection();
        asked
    }

    /// Removes the connection that is not in use.
    pub(crate) fn lose_the_other(&mut self) {
        assert_eq!(self.session.remove_connection(self.second), []);
    }

    /// Removes the connection that is not in use, with tasks that the device server runs.
    pub(crate) fn lose_the_other_running(&mut self, running: usize) {
        let left = self.session.remove_connection(self.second);
        assert_eq!(left.len(), running);
    }

    /// Returns the index of the connection that is in use, and that of the other one.
    pub(crate) fn indices(&self) -> (usize, usize) {
        (self.connection, self.second)
    }

    /// Finishes all commands that the device server runs.
    pub(crate) fn finish(&mut self) {
        for (task, bytes) in std::mem::take(&mut self.router.running) {
            self.router.written.push(bytes);
            self.session.complete(task, good(None));
        }
        self.fetch_both();
    }

    fn fetch_both(&mut self) {
        self.fetch();
        self.change_connection();
        self.fetch();
        self.change_connection();
    }

    /// Takes the bytes that wait to be sent on both connections.
    pub(crate) fn take_output(&mut self) {
        self.fetch_both();
    }

    /// Returns the functions that wait for nothing any more.
    pub(crate) fn due_functions(&mut self) -> Vec<TaskManagementFunction> {
        let due = std::iter::from_fn(|| self.session.due_function());
        let functions = due.map(|event| match event {
            Event::TaskManagement { request, .. } => request.function,
            other => panic!("{other:?}"),
        });
        functions.collect()
    }

    /// Returns the number of commands that have not ended.
    pub(crate) fn in_flight(&self) -> usize {
        self.session.in_flight()
    }

    /// Lets the time be `seconds` after the beginning. Returns the reason why the connection must
    /// be closed, if it must.
    pub(crate) fn tick(&mut self, seconds: u64) -> Option<ConnectionError> {
        let dead = self.session.tick(Duration::from_secs(seconds));
        let mut dead = dead.into_iter();
        let first = dead.next().map(|(index, why)| {
            assert_eq!(index, self.connection);
            why
        });
        assert_eq!(dead.next(), None);
        first
    }

    /// Takes the bytes that wait to be sent on the connection.
    fn fetch(&mut self) {
        if self
            .session
            .connections()
            .all(|(index, _)| index != self.connection)
        {
            return;
        }
        let mut output = Vec::new();
        self.session.gather(self.connection, |piece| {
            output.extend_from_slice(piece);
            true
        });
        self.session.sent(self.connection, output.len());
        while let Some((bhs, rest)) = output.split_first_chunk::<BHS_LENGTH>() {
            let len = Bhs::new(bhs).data_segment_length();
            let rest = &rest[if self.header_digest { 4 } else { 0 }..];
            let digest = if self.data_digest && len > 0 { 4 } else { 0 };
            self.sent.push((*bhs, rest[..len].to_vec()));
            output = rest[padded(len) + digest..].to_vec();
        }
    }

    /// Sends a request without data. Returns whether the runtime is asked to manage tasks.
    pub(crate) fn asks_for_task_management(&mut self, bhs: &RawBhs) -> bool {
        let event = self.session.receive(
            self.connection,
            &mut &bhs[..],
            Duration::ZERO,
            &mut self.router,
        );
        matches!(event, Ok(Some(Event::TaskManagement { .. })))
    }

    pub(crate) fn write(
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

    pub(crate) fn data_out(
        &mut self,
        ttt: u32,
        sn: u32,
        offset: u32,
        len: usize,
        is_final: bool,
    ) -> Result<(), ConnectionError> {
        self.send(&data_out(ttt, sn, offset, len, is_final), &vec![2; len])
    }

    /// Returns the last PDU sent.
    pub(crate) fn last(&self) -> &RawBhs {
        &self.sent.last().unwrap().0
    }

    pub(crate) fn r2t(&self) -> ReadyToTransfer {
        ReadyToTransfer::parse(self.last()).unwrap()
    }

    /// Returns the answer: (overflow, underflow, residual count).
    pub(crate) fn residual(&self) -> (bool, bool, u32) {
        let response = ScsiResponse::parse(self.last()).unwrap();
        assert_eq!(response.status, 0);
        (
            response.overflow,
            response.underflow,
            response.residual_count,
        )
    }

    /// Asserts that a protocol error was reported with a Reject, and that nothing was written.
    #[track_caller]
    pub(crate) fn refused(&self, outcome: Result<(), ConnectionError>) {
        assert!(
            matches!(outcome, Err(ConnectionError::Protocol(_))),
            "{outcome:?}"
        );
        assert_eq!(Bhs::new(self.last()).opcode(), Ok(Opcode::Reject));
        assert_eq!(self.router.written, Vec::<Vec<u8>>::new());
    }
}

/// Builds the header of a command.
pub(crate) fn command(opcode: u8, edtl: u32, immediate: usize, is_final: bool) -> RawBhs {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    let pdu = ScsiCommand {
        immediate: false,
        is_final,
        read: opcode == 0x28,
        write: opcode != 0x28,
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

/// Returns the header with this CmdSN, and a tag of its own.
pub(crate) fn numbered(mut bhs: RawBhs, cmd_sn: u32) -> RawBhs {
    bhs[16..20].copy_from_slice(&(100 + cmd_sn).to_be_bytes());
    bhs[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    bhs
}

/// Builds the header of a Data-Out.
pub(crate) fn data_out(ttt: u32, sn: u32, offset: u32, len: usize, is_final: bool) -> RawBhs {
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
    bhs
}

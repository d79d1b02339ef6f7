//! Initiator's session, fed with any bytes that a target may send, in any pieces.
//!
//! It never panics, and moves nothing outside a command's data. It ends each command at most once.
//! It sends whole well-formed PDUs, and never more than it was told to. Its behaviour does not
//! depend on the places at which the bytes were cut.
//!
//! Input: one byte of settings, one that chooses how the stream is cut, then the stream.

use std::collections::BTreeMap;

use iscsi::initiator::{
    Command, CommandEnd, Direction, LoggedIn, Session, SessionError, SessionEvent, SessionUser,
};
use iscsi::negotiation::{ConnectionParameters, SessionParameters};
use iscsi::pdu::{BHS_LENGTH, Bhs, Isid, TaskAttribute, TaskManagementFunction, padded};

use crate::input::Bytes;

const LENGTH: u32 = 8192;
/// Cookies and directions of the commands that are outstanding when the stream begins.
const COMMANDS: [(u64, Direction); 4] = [
    (10, Direction::Read),
    (11, Direction::Write),
    (12, Direction::None),
    (13, Direction::Read),
];

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let [settings, cut] = bytes.array();
    let stream = bytes.take(data.len());
    let whole = receive(settings, stream, stream.len().max(1));
    // Commands that wait for the window leave between two pieces, so there the cuts matter.
    if settings & 8 == 0 {
        let pieces = receive(settings, stream, usize::from(cut).max(1));
        assert_eq!(whole, pieces, "another meaning in pieces");
    }
}

/// Effects of the stream on the session.
#[derive(Debug, Default, PartialEq)]
struct User {
    data_in: BTreeMap<u64, Vec<u8>>,
    ends: BTreeMap<u64, String>,
    events: Vec<SessionEvent>,
    asked: u64,
    error: Option<SessionError>,
}

impl SessionUser for User {
    fn data_out(&mut self, cookie: u64, offset: u32, length: u32, out: &mut Vec<u8>) {
        assert_eq!(
            direction(cookie),
            Some(Direction::Write),
            "data of no write"
        );
        assert!(
            !self.ends.contains_key(&cookie),
            "data of a command that has ended"
        );
        assert!(offset + length <= LENGTH, "data beyond the command's");
        self.asked += u64::from(length);
        out.resize(out.len() + length as usize, 7);
    }

    fn data_in(&mut self, cookie: u64, offset: u32, bytes: &[u8]) {
        assert_eq!(direction(cookie), Some(Direction::Read), "data for no read");
        assert!(
            !self.ends.contains_key(&cookie),
            "data for a command that has ended"
        );
        let data = self.data_in.entry(cookie).or_default();
        assert_eq!(data.len(), offset as usize, "gaps or bytes that come twice");
        data.extend_from_slice(bytes);
        assert!(data.len() <= LENGTH as usize, "data beyond the command's");
    }

    fn ended(&mut self, cookie: u64, end: CommandEnd<'_>) {
        assert!(direction(cookie).is_some(), "the end of no command");
        let before = self.ends.insert(cookie, format!("{end:?}"));
        assert_eq!(before, None, "a command ended twice");
    }

    fn event(&mut self, event: SessionEvent) {
        self.events.push(event);
    }
}

fn direction(cookie: u64) -> Option<Direction> {
    let mut commands = COMMANDS.iter();
    Some(commands.find(|(known, _)| *known == cookie)?.1)
}

/// Runs a session on the stream. Bits 0 and 1 of `settings`: digests. Bit 2: neither immediate nor
/// unsolicited data. Bit 3: the window takes two commands. Bit 4: beside commands a ping, a text
/// request, a function and a logout wait.
fn receive(settings: u8, stream: &[u8], piece: usize) -> User {
    let solicited = settings & 4 != 0;
    let digests = (settings & 1 != 0, settings & 2 != 0);
    let login = LoggedIn {
        tsih: 1,
        isid: Isid([0x80, 0, 0, 0, 0, 1]),
        cid: 0,
        portal_group_tag: Some(1),
        target_alias: None,
        session: SessionParameters {
            initial_r2t: solicited,
            immediate_data: !solicited,
            first_burst_length: 4096,
            max_burst_length: LENGTH,
            ..SessionParameters::default()
        },
        connection: ConnectionParameters {
            header_digest: digests.0,
            data_digest: digests.1,
            ..ConnectionParameters::default()
        },
        cmd_sn: 1,
        max_cmd_sn: if settings & 8 == 0 { 64 } else { 2 },
        exp_stat_sn: 1,
    };
    let (mut session, mut user, mut out) = (Session::new(&login), User::default(), Vec::new());
    for (cookie, direction) in COMMANDS {
        let command = Command {
            lun: 0,
            cdb: [0; 16],
            attribute: TaskAttribute::Simple,
            direction,
            length: LENGTH,
        };
        session.command(cookie, &command, &mut user, &mut out);
    }
    if settings & 16 != 0 {
        session.ping(&mut out);
        session.send_targets("All", &mut out);
        let function = TaskManagementFunction::AbortTask;
        session.task_management(20, function, 0, Some(10), &mut out);
        session.logout(&mut out);
    }
    for bytes in stream.chunks(piece) {
        if let Err(error) = session.receive(bytes, &mut user, &mut out) {
            user.error = Some(error);
            break;
        }
    }
    // The session sends unsolicited data once, and data that R2Ts may ask for once.
    assert!(
        user.asked <= 2 * u64::from(LENGTH),
        "more than the write's data"
    );
    // Each PDU of the target makes us send at most one PDU, beside data.
    let most = 4 * u64::from(LENGTH) + 4096 + 2 * stream.len() as u64;
    assert!(out.len() as u64 <= most, "{} bytes to be sent", out.len());
    well_formed(&out, digests);
    let left = session.abandon();
    for cookie in &left {
        assert!(
            !user.ends.contains_key(cookie),
            "ended and outstanding at once"
        );
    }
    assert_eq!(left.len() + user.ends.len(), COMMANDS.len());
    user
}

/// Checks that all sent bytes are whole PDUs of an initiator.
fn well_formed(mut out: &[u8], digests: (bool, bool)) {
    let digest = |on: bool| if on { 4 } else { 0 };
    while let Some(bhs) = out.first_chunk::<BHS_LENGTH>() {
        let header = Bhs::new(bhs);
        let opcode = header.opcode();
        assert!(opcode.is_ok(), "{opcode:?}");
        let data = header.data_segment_length();
        let trailer = if data > 0 { digest(digests.1) } else { 0 };
        let length = BHS_LENGTH + digest(digests.0) + padded(data) + trailer;
        assert!(length <= out.len(), "half a PDU");
        out = &out[length..];
    }
    assert!(out.is_empty(), "half a header");
}

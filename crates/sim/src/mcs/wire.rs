//! One connection of the simulated initiator: its login, PDUs in and out with their digests, and
//! the sequence numbers that every PDU is checked against.

use std::time::Duration;

use iscsi::digest::{DIGEST_LENGTH, crc32c, padded_crc32c, to_wire};
use iscsi::initiator::{LoggedIn, Login};
use iscsi::pdu::{BHS_LENGTH, Bhs, Opcode, RESERVED_TAG, RawBhs, padded};
use iscsi::serial_number::at_or_before;

use crate::network::ConnectionId;

/// Phase of a connection.
#[derive(Debug)]
pub enum Phase {
    /// The connection logs in.
    LoggingIn(Box<Login>),
    /// The connection replaced one with its CID. A ping tells which requests of that one the target
    /// has.
    Confirming,
    /// Commands may be sent.
    Active,
    /// The connection was logged out, or is about to be. Nothing more is sent on it.
    LoggingOut,
}

/// A connection.
#[derive(Debug)]
pub struct Wire {
    /// Number of the connection, to which its bytes go.
    pub id: ConnectionId,
    /// CID of the connection.
    pub cid: u16,
    /// Phase of the connection.
    pub phase: Phase,
    /// Time at which bytes came last.
    pub heard: Duration,
    /// Whether a ping was sent that has not been answered.
    pub pinged: bool,
    input: Vec<u8>,
    header_digest: bool,
    data_digest: bool,
    /// Length of the longest data segment that the target takes.
    pub max_data_segment: usize,
    exp_stat_sn: u32,
    window: Option<(u32, u32)>,
}

/// A PDU that came.
pub type Pdu = (RawBhs, Vec<u8>);

impl Wire {
    /// Makes a connection that logs in.
    pub fn new(id: ConnectionId, cid: u16, login: Login, now: Duration) -> Self {
        Self {
            id,
            cid,
            phase: Phase::LoggingIn(Box::new(login)),
            heard: now,
            pinged: false,
            input: Vec::new(),
            header_digest: false,
            data_digest: false,
            max_data_segment: 0,
            exp_stat_sn: 0,
            window: None,
        }
    }

    /// Notes that the login succeeded.
    pub fn connected(&mut self, login: &LoggedIn) {
        let agreed = &login.connection;
        self.header_digest = agreed.header_digest;
        self.data_digest = agreed.data_digest;
        self.max_data_segment = agreed.peer_max_recv_data_segment_length as usize;
        self.exp_stat_sn = login.exp_stat_sn;
    }

    /// Reports whether commands may be sent on the connection.
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active)
    }

    /// Takes bytes that arrived.
    pub fn push(&mut self, bytes: &[u8], now: Duration) {
        self.input.extend_from_slice(bytes);
        self.heard = now;
    }

    /// Returns the next PDU, if it is whole.
    pub fn next_pdu(&mut self) -> Option<Pdu> {
        let bhs = *self.input.first_chunk::<BHS_LENGTH>()?;
        let header = Bhs::new(&bhs);
        let length = header.pdu_length(self.header_digest, self.data_digest);
        if self.input.len() < length {
            return None;
        }
        let mut at = BHS_LENGTH;
        if self.header_digest {
            let digest = &self.input[at..at + DIGEST_LENGTH];
            assert_eq!(digest, to_wire(crc32c(&bhs)), "header digest");
            at += DIGEST_LENGTH;
        }
        let data = self.input[at..][..header.data_segment_length()].to_vec();
        if self.data_digest && !data.is_empty() {
            let end = at + padded(data.len());
            let digest = &self.input[end..end + DIGEST_LENGTH];
            assert_eq!(digest, to_wire(padded_crc32c(&data)), "data digest");
        }
        self.input.drain(..length);
        Some((bhs, data))
    }

    /// Adds a PDU to `out`, and fills in its ExpStatSN.
    pub fn encode(&self, mut bhs: RawBhs, data: &[u8], out: &mut Vec<u8>) {
        bhs[28..32].copy_from_slice(&self.exp_stat_sn.to_be_bytes());
        out.extend_from_slice(&bhs);
        if self.header_digest {
            out.extend_from_slice(&to_wire(crc32c(&bhs)));
        }
        if data.is_empty() {
            return;
        }
        out.extend_from_slice(data);
        out.resize(out.len() + padded(data.len()) - data.len(), 0);
        if self.data_digest {
            out.extend_from_slice(&to_wire(padded_crc32c(data)));
        }
    }

    /// Checks StatSN, ExpCmdSN and MaxCmdSN of a PDU of the full-feature phase, and returns the
    /// window.
    pub fn check_numbers(&mut self, bhs: &RawBhs) -> (u32, u32) {
        let number = |at: usize| u32::from_be_bytes(bhs[at..at + 4].try_into().expect("four"));
        let (stat_sn, window) = (number(24), (number(28), number(32)));
        let header = Bhs::new(bhs);
        let opcode = header.opcode().expect("a known opcode");
        let (carries, advances) = match opcode {
            Opcode::DataIn => (bhs[1] & 1 != 0, true),
            Opcode::ReadyToTransfer => (true, false),
            Opcode::NopIn => (true, header.itt() != RESERVED_TAG),
            _ => (true, true),
        };
        if carries {
            assert_eq!(stat_sn, self.exp_stat_sn, "StatSN of {opcode:?}");
            self.exp_stat_sn = stat_sn.wrapping_add(u32::from(advances));
        }
        let before = self.window.unwrap_or(window);
        assert!(
            at_or_before(before.0, window.0) && at_or_before(before.1, window.1),
            "{opcode:?}: the window went back from {before:?} to {window:?}"
        );
        self.window = Some(window);
        window
    }
}

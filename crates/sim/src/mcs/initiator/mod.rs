//! An initiator whose session has several connections, simulated PDU by PDU. It spreads its
//! commands over the connections, manages tasks, and logs connections out and in again. It recovers
//! from lost connections as error recovery level 0 has it (RFC 7143 §7.2.1, §11.14): it logs the
//! lost connection out, or replaces it. It sends requests that the target never had again with
//! their CmdSN, and begins anew the commands that died with the connection.

mod answers;
mod habits;
mod recovery;
mod sending;
mod session;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use iscsi::initiator::{LoggedIn, Login, LoginError, LoginProgress, LoginSettings};
use iscsi::negotiation::{Limits, SessionParameters};
use iscsi::pdu::{Isid, LogoutReason, TaskManagementFunction as Function};

use super::cells::{CELLS, LUNS};
use super::ledger::{AttemptId, JobId, Ledger, Place};
use super::wire::{Phase, Wire};
use crate::network::ConnectionId;
use crate::random::Random;
use crate::served::TARGET;

/// Silence after which the target is pinged.
const PING_AFTER: Duration = Duration::from_secs(8);
/// Silence after which a connection is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest time that a target may leave requests waiting for a CmdSN that nobody sends.
const GAP_PATIENCE: Duration = Duration::from_secs(150);
/// Time after which nothing but the jobs is done, so that they come to an end.
pub const STORMS_END: Duration = Duration::from_secs(300);
/// Most functions that are under way at a time.
const FUNCTIONS: usize = 4;

/// Kind of a request.
#[derive(Debug)]
enum What {
    Command {
        attempt: AttemptId,
        data_in: Vec<u8>,
    },
    Ping,
    /// Ping that confirms a connection which replaced another.
    Confirmation,
    Function {
        function: Function,
        lun: u64,
        /// Task that ABORT TASK means.
        referenced: Option<(u32, Place)>,
        /// Commands that are over when the function is answered.
        covers: Vec<(u32, AttemptId)>,
    },
    Logout {
        reason: LogoutReason,
        cid: u16,
    },
}

#[derive(Debug)]
struct Request {
    what: What,
    place: Place,
    immediate: bool,
    /// Connection that the request was sent on, while the connection exists.
    wire: Option<ConnectionId>,
    cid: u16,
    /// Number that counts the sent requests.
    sent: u64,
    since: Duration,
}

#[derive(Debug)]
struct Session {
    /// Number of the session in the ledger, known once the session is established.
    number: Option<u64>,
    tsih: u16,
    parameters: SessionParameters,
    start: u32,
    next: Place,
    max: Place,
    wanted: usize,
    wires: Vec<Wire>,
    requests: BTreeMap<u32, Request>,
    /// CIDs of connections that were lost, each with whether its recovery is under way.
    lost: BTreeMap<u16, bool>,
    /// Time since which the initiator ignores a lost connection.
    careless: Option<Duration>,
    /// Whether the session is being logged out.
    ending: bool,
}

/// A connection that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    cid: u16,
    joins: bool,
}

/// Habits of the initiator: shares of a thousand bursts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// Bursts with task management functions.
    pub functions: u64,
    /// Bursts with a logout of one connection.
    pub logouts: u64,
    /// Bursts with a logout of the session.
    pub session_logouts: u64,
    /// Bursts with a loss of a connection that the initiator ignores.
    pub careless: u64,
}

/// The initiator.
#[derive(Debug)]
pub struct Initiator {
    settings: LoginSettings,
    habits: Habits,
    session: Option<Session>,
    sends: u64,
    left: u64,
    ready: VecDeque<JobId>,
    /// Commands of sessions that are gone. They are over when the next session begins.
    limbo: Vec<AttemptId>,
    /// Attempt that wrote every cell last, and its length.
    model: Vec<Vec<(AttemptId, usize)>>,
    busy: Vec<Vec<bool>>,
    over: bool,
    /// Bytes to send. The world takes them.
    pub out: Vec<(ConnectionId, Vec<u8>)>,
    /// Connections to make. The world takes them.
    pub wants: Vec<Want>,
    /// Connections to close. The world takes them.
    pub closing: Vec<ConnectionId>,
    /// Cells that an aborted job may have written. The world checks them.
    pub unsure: Vec<(u64, usize, JobId)>,
    /// Jobs that ended.
    pub ended: u64,
    /// Jobs that were aborted, among those that ended.
    pub aborted: u64,
    /// Commands that were sent again.
    pub sent_again: u64,
    /// Commands that were told of a unit attention.
    pub refusals: u64,
    random: Random,
}

impl Initiator {
    /// Makes an initiator that has `jobs` jobs to do.
    pub fn new(jobs: u64, limits: Limits, habits: Habits, random: Random) -> Self {
        let isid = Isid([0x80, 0, 0, 0, 0, 9]);
        let name = "iqn.2026-01.org.example:host-of-many".to_owned();
        let mut settings = LoginSettings::new(name, Some(TARGET.into()), isid);
        settings.limits = limits;
        // Serial numbers wrap during many a run.
        settings.cmd_sn = u32::MAX - 20;
        Self {
            settings,
            habits,
            session: None,
            sends: 0,
            left: jobs,
            ready: VecDeque::new(),
            limbo: Vec::new(),
            model: vec![vec![(0, 0); CELLS]; LUNS as usize],
            busy: vec![vec![false; CELLS]; LUNS as usize],
            over: false,
            out: Vec::new(),
            wants: Vec::new(),
            closing: Vec::new(),
            unsure: Vec::new(),
            ended: 0,
            aborted: 0,
            sent_again: 0,
            refusals: 0,
            random,
        }
    }

    /// Reports whether all jobs are done and the initiator has logged out.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the attempt whose bytes a cell must hold, and their number. After an aborted
    /// command, the world sets it to the cell's real content.
    pub fn cell(&mut self, lun: u64, cell: usize) -> &mut (AttemptId, usize) {
        &mut self.model[lun as usize][cell]
    }

    /// Returns the initiator's connections.
    pub fn connections(&self) -> Vec<ConnectionId> {
        let wires = self.session.iter().flat_map(|session| &session.wires);
        wires.map(|wire| wire.id).collect()
    }

    /// Logs in on a connection that was made.
    pub fn connect(&mut self, want: Want, id: ConnectionId, now: Duration) {
        let mut settings = self.settings.clone();
        settings.cid = want.cid;
        if want.joins {
            let Some(session) = &self.session else {
                return self.closing.push(id);
            };
            settings.tsih = session.tsih;
            settings.cmd_sn = session.cmd_sn(session.next);
        } else if self.session.is_some() {
            return self.closing.push(id);
        }
        let (login, request) = Login::start(settings);
        let wire = Wire::new(id, want.cid, login, now);
        match &mut self.session {
            Some(session) => session.wires.push(wire),
            None => {
                let wanted = self.random.within(1..5) as usize;
                self.session = Some(Session::new(self.settings.cmd_sn, wanted, wire));
            }
        }
        self.out.push((id, request));
    }

    /// Takes bytes that arrived.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Duration, ledger: &mut Ledger) {
        if let Some(wire) = self.wire(id) {
            wire.push(bytes, now);
        }
        while let Some(wire) = self.wire(id)
            && let Some((bhs, data)) = wire.next_pdu()
        {
            if let Phase::LoggingIn(login) = &mut wire.phase {
                let mut random = Random::new(7);
                let progress = login.receive(&bhs, &data, &mut random);
                match progress {
                    Ok(LoginProgress::Send(bytes)) => self.out.push((id, bytes)),
                    Ok(LoginProgress::Connected(login)) => self.connected(id, &login, now, ledger),
                    // The session ended, or a connection was not given up at the target yet.
                    Err(LoginError::Refused(_)) => self.lost_wire(id, now),
                    Err(error) => panic!("the login fails: {error}"),
                }
                continue;
            }

            let window = wire.check_numbers(&bhs);
            if let Some(session) = &mut self.session {
                session.take_window(window);
            }
            self.handle(id, &bhs, &data, now, ledger);
        }
    }

    fn wire(&mut self, id: ConnectionId) -> Option<&mut Wire> {
        let mut wires = self.session.as_mut()?.wires.iter_mut();
        wires.find(|wire| wire.id == id)
    }

    fn connected(
        &mut self,
        id: ConnectionId,
        login: &LoggedIn,
        now: Duration,
        ledger: &mut Ledger,
    ) {
        let Some(session) = &mut self.session else {
            return;
        };
        let Some(wire) = session.wires.iter_mut().find(|wire| wire.id == id) else {
            return;
        };
        wire.connected(login);
        wire.phase = Phase::Active;
        if session.number.is_none() {
            session.number = Some(ledger.begin_session());
            session.tsih = login.tsih;
            session.parameters = login.session.clone();
            session.max = session.place(login.max_cmd_sn);
            // The target has ended the session before.
            for attempt in std::mem::take(&mut self.limbo) {
                ledger.conclude(attempt);
                self.ready.push_back(ledger.job_of(attempt));
            }
        } else if session.lost.contains_key(&wire.cid) {
            wire.phase = Phase::Confirming;
            self.request(id, What::Confirmation, true, now, ledger);
        }
    }

    /// Notes that a second has passed: pings, silent connections, and sessions that hang.
    pub fn tick(&mut self, now: Duration, ledger: &mut Ledger) {
        let Some(session) = &self.session else { return };
        let silent = session.wires.iter();
        let silent = silent.filter(|wire| now.saturating_sub(wire.heard) > PATIENCE);
        for id in silent.map(|wire| wire.id).collect::<Vec<_>>() {
            self.lost_wire(id, now);
        }
        let Some(session) = &mut self.session else {
            return;
        };
        let mut pings = Vec::new();
        for wire in &mut session.wires {
            let quiet = now.saturating_sub(wire.heard) > PING_AFTER;
            if wire.is_active() && quiet && !wire.pinged {
                wire.pinged = true;
                pings.push(wire.id);
            }
        }
        for id in pings {
            self.request(id, What::Ping, true, now, ledger);
        }
        self.check_patience(now);
    }

    fn check_patience(&mut self, now: Duration) {
        let Some(session) = &self.session else { return };
        let Some(since) = session.careless else {
            return;
        };
        let waiting = session.requests.values();
        let mut waiting = waiting.filter(|it| it.wire.is_some());
        let hangs = waiting.find(|it| now.saturating_sub(it.since.max(since)) > GAP_PATIENCE);
        assert!(hangs.is_none(), "the target lets {hangs:?} hang");
        if now.saturating_sub(since) > 2 * GAP_PATIENCE {
            // No request waited, so nobody had reason to end the session.
            self.abandon();
        }
    }
}

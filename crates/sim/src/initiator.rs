//! The runtime of an initiator port, simulated. It logs in as often as it must, repeats the
//! commands that a lost session gave back, and pings a silent target. The protocol itself is
//! `iscsi::initiator`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use iscsi::initiator::{
    Command, CommandEnd, Direction, Login, LoginProgress, LoginSettings, Session, SessionEvent,
    SessionUser,
};
use iscsi::negotiation::Limits;
use iscsi::pdu::{
    AsyncEvent, BHS_LENGTH, Bhs, Isid, TaskAttribute, TaskManagementFunction, TaskManagementResult,
};

use crate::network::ConnectionId;
use crate::random::Random;
use crate::served::TARGET;

/// Silence after which the target is pinged.
const PING_AFTER: Duration = Duration::from_secs(10);
/// Longest time that a ping may stay unanswered, and that a login may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A command, until it has ended well.
#[derive(Clone, Debug)]
pub struct Job {
    /// LUN of the command.
    pub lun: u16,
    /// Command to send.
    pub cdb: [u8; 16],
    /// Data to write.
    pub data_out: Vec<u8>,
    /// Bytes to read.
    pub length_in: usize,
    /// Data that was read.
    pub data_in: Vec<u8>,
}

/// A command that ended in its session.
#[derive(Debug)]
pub struct Ended {
    /// Number of the command.
    pub cookie: u64,
    /// SCSI status.
    pub status: u8,
    /// Sense data.
    pub sense: Vec<u8>,
}

#[derive(Debug)]
enum InitiatorState {
    Idle,
    LoggingIn {
        connection: ConnectionId,
        login: Box<Login>,
        input: Vec<u8>,
        since: Duration,
    },
    Running(Box<Running>),
    /// The initiator has logged out.
    Over,
}

#[derive(Debug)]
struct Running {
    connection: ConnectionId,
    session: Session,
    heard: Duration,
    pinged: Option<Duration>,
    /// Commands given to the session that have not ended.
    outstanding: BTreeSet<u64>,
    /// Number of the last sending of each command.
    sendings: BTreeMap<u64, u64>,
    sent: u64,
    /// Commands of which the abort was asked for, by the number of the sending that is meant.
    aborting: BTreeMap<u64, u64>,
}

/// An initiator.
#[derive(Debug)]
pub struct Initiator {
    settings: LoginSettings,
    state: InitiatorState,
    /// Every command that has not ended well, by number.
    pub jobs: HashMap<u64, Job>,
    ready: VecDeque<u64>,
    /// Commands that ended. The world takes them.
    pub ended: Vec<Ended>,
    /// Commands whose abort was confirmed before they ended. The world takes them.
    pub aborted: Vec<u64>,
    /// Commands given to each connection's session, in order.
    pub issued: BTreeMap<ConnectionId, Vec<u64>>,
    random: Random,
}

struct User<'a> {
    jobs: &'a mut HashMap<u64, Job>,
    ended: Vec<Ended>,
    confirmed: Vec<u64>,
    logged_out: bool,
}

impl SessionUser for User<'_> {
    fn data_out(&mut self, cookie: u64, offset: u32, length: u32, out: &mut Vec<u8>) {
        let data = &self.jobs[&cookie].data_out;
        out.extend_from_slice(&data[offset as usize..(offset + length) as usize]);
    }

    fn data_in(&mut self, cookie: u64, offset: u32, bytes: &[u8]) {
        let job = self.jobs.get_mut(&cookie).expect("data for a command");
        assert_eq!(job.data_in.len(), offset as usize, "data comes in order");
        job.data_in.extend_from_slice(bytes);
    }

    fn ended(&mut self, cookie: u64, end: CommandEnd<'_>) {
        let CommandEnd::Status { status, sense, .. } = end else {
            panic!("command {cookie} did not reach the device server: {end:?}");
        };
        self.ended.push(Ended {
            cookie,
            status,
            sense: sense.to_vec(),
        });
    }

    fn event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Pong => {}
            SessionEvent::LoggedOut(_) => self.logged_out = true,
            SessionEvent::TaskManagement { cookie, result } => {
                // A task that does not exist has been answered, and the answer came first.
                let none = result == TaskManagementResult::TaskDoesNotExist;
                assert!(
                    none || result == TaskManagementResult::Complete,
                    "{result:?}"
                );
                self.confirmed.push(cookie);
            }
            SessionEvent::Async { message, .. } => {
                // The connection is closed behind it.
                assert_eq!(message.async_event, AsyncEvent::DropAllConnections);
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
}

impl Initiator {
    /// Makes the initiator port of a host for one of its paths.
    pub fn new(host: usize, path: usize, limits: Limits, random: Random) -> Self {
        let isid = Isid([0x80, 0, 0, 0, 0, path as u8]);
        let name = format!("iqn.2026-01.org.example:host-{host}");
        let mut settings = LoginSettings::new(name, Some(TARGET.into()), isid);
        // Serial numbers wrap during many a run.
        settings.cmd_sn = u32::MAX - 20;
        settings.limits = limits;
        Self {
            settings,
            state: InitiatorState::Idle,
            jobs: HashMap::new(),
            ready: VecDeque::new(),
            ended: Vec::new(),
            aborted: Vec::new(),
            issued: BTreeMap::new(),
            random,
        }
    }

    /// Reports whether the initiator waits to be connected.
    pub fn wants_connection(&self) -> bool {
        matches!(self.state, InitiatorState::Idle)
    }

    /// Reports whether the initiator has logged out.
    pub fn is_over(&self) -> bool {
        matches!(self.state, InitiatorState::Over)
    }

    /// Returns the connection in use.
    pub fn connection(&self) -> Option<ConnectionId> {
        match &self.state {
            InitiatorState::LoggingIn { connection, .. } => Some(*connection),
            InitiatorState::Running(running) => Some(running.connection),
            InitiatorState::Idle | InitiatorState::Over => None,
        }
    }

    /// Begins to log in on a new connection. Returns the bytes to send.
    pub fn connect(&mut self, connection: ConnectionId, now: Duration) -> Vec<u8> {
        let (login, request) = Login::start(self.settings.clone());
        self.state = InitiatorState::LoggingIn {
            connection,
            login: Box::new(login),
            input: Vec::new(),
            since: now,
        };
        request
    }

    /// Adds a command.
    pub fn submit(&mut self, cookie: u64, job: Job) {
        self.jobs.insert(cookie, job);
        self.ready.push_back(cookie);
    }

    /// Takes the commands that no session has, for another port to send.
    pub fn take_ready(&mut self) -> Vec<(u64, Job)> {
        let cookies = std::mem::take(&mut self.ready).into_iter();
        let jobs = cookies.filter_map(|cookie| Some((cookie, self.jobs.remove(&cookie)?)));
        jobs.collect()
    }

    /// Reports whether commands may be sent.
    pub fn is_logged_in(&self) -> bool {
        matches!(self.state, InitiatorState::Running(_))
    }

    /// Asks for the abort of a command. Returns the bytes to send.
    pub fn abort(&mut self, cookie: u64) -> Vec<u8> {
        let Some(job) = self.jobs.get(&cookie) else {
            return Vec::new();
        };
        let lun = u64::from(job.lun) << 48;
        let InitiatorState::Running(running) = &mut self.state else {
            return Vec::new();
        };
        let Some(sending) = running.sendings.get(&cookie).copied() else {
            return Vec::new();
        };
        running.aborting.insert(sending, cookie);
        let function = TaskManagementFunction::AbortTask;
        self.act(|session, _, out| {
            session.task_management(sending, function, lun, Some(cookie), out);
        })
    }

    /// Repeats a command.
    pub fn repeat(&mut self, cookie: u64) {
        let job = self.jobs.get_mut(&cookie).expect("it has not ended well");
        job.data_in.clear();
        self.ready.push_back(cookie);
    }

    /// Takes bytes that arrived. Returns the bytes to send.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) -> Vec<u8> {
        match &mut self.state {
            InitiatorState::LoggingIn { input, .. } => {
                input.extend_from_slice(bytes);
                self.receive_login(now)
            }
            InitiatorState::Running(_) => self.exchange(bytes, now),
            InitiatorState::Idle | InitiatorState::Over => Vec::new(),
        }
    }

    fn receive_login(&mut self, now: Duration) -> Vec<u8> {
        let InitiatorState::LoggingIn {
            connection,
            login,
            input,
            ..
        } = &mut self.state
        else {
            return Vec::new();
        };
        let Some(bhs) = input.first_chunk::<BHS_LENGTH>().copied() else {
            return Vec::new();
        };
        let header = Bhs::new(&bhs);
        let length = BHS_LENGTH + header.padded_data_segment_length();
        if input.len() < length {
            return Vec::new();
        }
        let data = input[BHS_LENGTH..][..header.data_segment_length()].to_vec();
        input.drain(..length);
        let progress = login.receive(&bhs, &data, &mut self.random);
        match progress.expect("the target lets it in") {
            LoginProgress::Send(bytes) => bytes,
            LoginProgress::Connected(logged_in) => {
                let (connection, rest) = (*connection, std::mem::take(input));
                self.state = InitiatorState::Running(Box::new(Running {
                    connection,
                    session: Session::new(&logged_in),
                    heard: now,
                    pinged: None,
                    outstanding: BTreeSet::new(),
                    sendings: BTreeMap::new(),
                    sent: 0,
                    aborting: BTreeMap::new(),
                }));
                self.exchange(&rest, now)
            }
        }
    }

    /// Gives all commands that wait to the session, each made ready by `prepare`. Returns the bytes
    /// to send.
    pub fn start_commands(&mut self, mut prepare: impl FnMut(u64, &mut Job)) -> Vec<u8> {
        let InitiatorState::Running(running) = &mut self.state else {
            return Vec::new();
        };
        let cookies: Vec<u64> = self.ready.drain(..).collect();
        running.outstanding.extend(&cookies);
        let issued = self.issued.entry(running.connection).or_default();
        let mut commands = Vec::new();
        for cookie in cookies {
            let job = self.jobs.get_mut(&cookie).expect("it has not ended");
            prepare(cookie, job);
            running.sent += 1;
            running.sendings.insert(cookie, running.sent);
            let (direction, length) = match (job.data_out.len(), job.length_in) {
                (0, 0) => (Direction::None, 0),
                (0, length) => (Direction::Read, length),
                (length, _) => (Direction::Write, length),
            };
            issued.push(cookie);
            let command = Command {
                lun: u64::from(job.lun) << 48,
                cdb: job.cdb,
                attribute: TaskAttribute::Simple,
                direction,
                length: length as u32,
            };
            commands.push((cookie, command));
        }
        self.act(|session, user, out| {
            for (cookie, command) in &commands {
                session.command(*cookie, command, user, out);
            }
        })
    }

    fn exchange(&mut self, bytes: &[u8], now: Duration) -> Vec<u8> {
        if let InitiatorState::Running(running) = &mut self.state
            && !bytes.is_empty()
        {
            (running.heard, running.pinged) = (now, None);
        }
        self.act(|session, user, out| {
            session
                .receive(bytes, user, out)
                .expect("the target keeps to the protocol");
        })
    }

    fn act(&mut self, act: impl FnOnce(&mut Session, &mut User<'_>, &mut Vec<u8>)) -> Vec<u8> {
        let InitiatorState::Running(running) = &mut self.state else {
            return Vec::new();
        };
        let mut user = User {
            jobs: &mut self.jobs,
            ended: Vec::new(),
            confirmed: Vec::new(),
            logged_out: false,
        };
        let mut out = Vec::new();
        act(&mut running.session, &mut user, &mut out);
        let (ended, confirmed, logged_out) = (user.ended, user.confirmed, user.logged_out);
        for ended in &ended {
            assert!(
                running.outstanding.remove(&ended.cookie),
                "command {} ended twice",
                ended.cookie
            );
        }
        for sending in confirmed {
            let cookie = running.aborting.remove(&sending);
            let cookie = cookie.expect("a function is answered once");
            // Otherwise it has ended, and may have been sent again.
            let is_meant = running.sendings.get(&cookie) == Some(&sending);
            if is_meant && running.outstanding.remove(&cookie) {
                assert!(
                    running.session.forget(cookie),
                    "command {cookie} is unknown"
                );
                self.aborted.push(cookie);
            }
        }
        assert_eq!(
            running.session.outstanding() + running.session.waiting(),
            running.outstanding.len(),
            "a command was forgotten"
        );
        self.ended.extend(ended);
        if logged_out {
            self.state = InitiatorState::Over;
        }
        out
    }

    /// Logs out. Returns the bytes to send.
    pub fn log_out(&mut self) -> Vec<u8> {
        self.act(|session, _, out| session.logout(out))
    }

    /// Notes that a second has passed. Returns the bytes to send, or `None` to give the connection
    /// up.
    pub fn tick(&mut self, now: Duration) -> Option<Vec<u8>> {
        match &mut self.state {
            InitiatorState::LoggingIn { since, .. } if now.saturating_sub(*since) > PATIENCE => {
                None
            }
            InitiatorState::Running(running) => {
                let silence = now.saturating_sub(running.heard);
                match running.pinged {
                    Some(pinged) if now.saturating_sub(pinged) > PATIENCE => None,
                    None if silence >= PING_AFTER => {
                        running.pinged = Some(now);
                        Some(self.act(|session, _, out| session.ping(out)))
                    }
                    _ => Some(Vec::new()),
                }
            }
            _ => Some(Vec::new()),
        }
    }

    /// Notes that the connection is gone. Commands that were under way are to be repeated.
    pub fn closed(&mut self) {
        if let InitiatorState::Running(running) = &mut self.state {
            let mut given_back = running.session.abandon();
            assert_eq!(
                given_back.iter().copied().collect::<BTreeSet<_>>(),
                running.outstanding,
                "what did not end is given back, and nothing else"
            );
            given_back.sort_unstable();
            given_back.iter().for_each(|cookie| self.repeat(*cookie));
        }
        if !self.is_over() {
            self.state = InitiatorState::Idle;
        }
    }
}

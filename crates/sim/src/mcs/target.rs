//! The target's runtime for sessions of several connections, simulated: logins that begin or join a
//! session, reinstatement of sessions and connections, task management, logouts, and sockets that
//! take as many bytes as they like. The protocol itself is `iscsi::target`.

use std::collections::BTreeMap;
use std::time::Duration;

use iscsi::negotiation::{Limits, SessionParameters};
use iscsi::pdu::{BHS_LENGTH, Bhs, LoginStatus, TaskManagementFunction, TaskManagementResult};
use iscsi::serial_number::at_or_before;
use iscsi::target::login::{
    Authentication, Authorization, ExistingSession, Login, LoginIdentity, LoginOutcome,
    LoginPolicy, LoginResult, LoginTerms,
};
use iscsi::target::{ConnectionSettings, Event, Session, SessionSettings, TaskId};

use super::ledger::Ledger;
use super::unit::{Room, Router, Units, good};
use crate::network::ConnectionId;
use crate::random::Random;

/// Silence after which an initiator is pinged.
const PING_AFTER: Duration = Duration::from_secs(15);
/// Longest time that a ping may stay unanswered.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time without progress of data that is owed, and of commands that others wait for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time that a login may take.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Number of immediate commands that find room beside a full window.
const BESIDE_WINDOW: usize = 8;

/// Action of the target on the network.
#[derive(Debug)]
pub enum Action {
    /// The target sends these bytes.
    Send(ConnectionId, Vec<u8>),
    /// The socket takes no more bytes for a while. The caller flushes it again later.
    FlushLater(ConnectionId),
    /// The target closes the connection, after the bytes that were sent before.
    Close(ConnectionId),
}

#[derive(Debug)]
struct LoggingIn {
    login: Login,
    input: Vec<u8>,
    since: Duration,
}

/// A login that succeeded and waits until the sessions and connections that it replaces are quiet.
#[derive(Debug)]
struct Delayed {
    id: ConnectionId,
    result: Box<LoginResult>,
    response: Vec<u8>,
    input: Vec<u8>,
}

/// A task management function that waits for the tasks that it aborted.
#[derive(Debug)]
struct Function {
    connection: usize,
    itt: u32,
    victims: Vec<TaskId>,
}

#[derive(Debug)]
struct Served {
    number: u64,
    tsih: u16,
    parameters: SessionParameters,
    protocol: Session<std::sync::Arc<[u8]>, Room>,
    connections: BTreeMap<usize, ConnectionId>,
    functions: Vec<Function>,
    window: (u32, u32),
}

/// The target, with one initiator's sessions.
#[derive(Debug)]
pub struct Target {
    /// Logical units of the target.
    pub units: Units,
    limits: Limits,
    depth: u32,
    /// Writes of a thousand to a socket that are cut short.
    congestion_per_mille: u64,
    logins: BTreeMap<ConnectionId, LoggingIn>,
    delayed: Vec<Delayed>,
    session: Option<Served>,
    sessions: u64,
    random: Random,
}

struct Policy<'a> {
    limits: &'a Limits,
    depth: u32,
    new_tsih: u16,
    existing: Option<(u16, ExistingSession)>,
}

impl LoginPolicy for Policy<'_> {
    fn authorize(&mut self, _: &LoginIdentity) -> Authorization {
        Authorization::Allowed(LoginTerms {
            authentication: Authentication::None,
            limits: self.limits.clone(),
            portal_group_tag: 1,
            target_alias: String::new(),
            command_window: self.depth,
        })
    }

    fn existing_session(&mut self, identity: &LoginIdentity) -> Option<ExistingSession> {
        let (tsih, existing) = self.existing.clone()?;
        (tsih == identity.tsih).then_some(existing)
    }

    fn admit(&mut self, login: &LoginResult) -> Result<u16, LoginStatus> {
        match login.identity.tsih {
            0 => Ok(self.new_tsih),
            tsih => Ok(tsih),
        }
    }
}

impl Target {
    /// Makes a target that negotiates within `limits` and takes `depth` commands of a session.
    pub fn new(
        units: Units,
        limits: Limits,
        depth: u32,
        congestion_per_mille: u64,
        random: Random,
    ) -> Self {
        Self {
            units,
            limits,
            depth,
            congestion_per_mille,
            logins: BTreeMap::new(),
            delayed: Vec::new(),
            session: None,
            sessions: 0,
            random,
        }
    }

    /// Reports whether nobody is connected.
    pub fn is_idle(&self) -> bool {
        self.logins.is_empty() && self.session.is_none() && self.delayed.is_empty()
    }

    /// Accepts a new connection.
    pub fn accept(&mut self, id: ConnectionId, now: Duration) {
        let login = LoggingIn {
            login: Login::new(),
            input: Vec::new(),
            since: now,
        };
        self.logins.insert(id, login);
    }

    fn index_of(&self, id: ConnectionId) -> Option<usize> {
        let served = self.session.as_ref()?;
        let mut connections = served.connections.iter();
        connections.find(|(_, it)| **it == id).map(|(at, _)| *at)
    }

    /// Takes bytes that arrived.
    pub fn receive(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        now: Duration,
        ledger: &mut Ledger,
    ) -> Vec<Action> {
        if let Some(delayed) = self.delayed.iter_mut().find(|delayed| delayed.id == id) {
            delayed.input.extend_from_slice(bytes);
            return Vec::new();
        }
        match self.index_of(id) {
            Some(index) => self.receive_in_session(index, bytes, now, ledger),
            None => self.receive_login(id, bytes, now, ledger),
        }
    }

    fn receive_login(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        now: Duration,
        ledger: &mut Ledger,
    ) -> Vec<Action> {
        let existing = self.session.as_ref().map(|served| (served.tsih, served));
        let mut actions = Vec::new();
        let Some(connection) = self.logins.get_mut(&id) else {
            return actions;
        };
        connection.input.extend_from_slice(bytes);
        while let Some(bhs) = connection.input.first_chunk::<BHS_LENGTH>().copied() {
            let header = Bhs::new(&bhs);
            let length = BHS_LENGTH + header.padded_data_segment_length();
            if connection.input.len() < length {
                break;
            }
            let cid = u16::from_be_bytes([bhs[20], bhs[21]]);
            let mut policy = Policy {
                limits: &self.limits,
                depth: self.depth,
                new_tsih: (self.sessions + 1) as u16,
                existing: existing.map(|(tsih, served)| (tsih, served.as_existing(cid))),
            };
            let data = &connection.input[BHS_LENGTH..][..header.data_segment_length()];
            let login = &mut connection.login;
            let reply = login.receive(&bhs, data, &mut policy, &mut self.random);
            connection.input.drain(..length);
            match reply.outcome {
                LoginOutcome::Pending => actions.push(Action::Send(id, reply.pdu)),
                LoginOutcome::Refused(_) => {
                    self.logins.remove(&id);
                    actions.extend([Action::Send(id, reply.pdu), Action::Close(id)]);
                    break;
                }
                LoginOutcome::Connected(result) => {
                    let rest = self.logins.remove(&id).expect("it was there").input;
                    actions.extend(self.logged_in(id, result, reply.pdu, rest, now, ledger));
                    break;
                }
            }
        }
        actions
    }

    fn logged_in(
        &mut self,
        id: ConnectionId,
        result: Box<LoginResult>,
        response: Vec<u8>,
        input: Vec<u8>,
        now: Duration,
        ledger: &mut Ledger,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if result.identity.tsih == 0 {
            actions.extend(self.end_session());
            let older = std::mem::take(&mut self.delayed);
            actions.extend(older.into_iter().map(|older| Action::Close(older.id)));
        } else if let Some(served) = &self.session
            && let Some(index) = served.protocol.find_connection(result.identity.cid)
        {
            let old = served.connections[&index];
            actions.push(Action::Close(old));
            actions.extend(self.lose(index));
        }
        self.delayed.push(Delayed {
            id,
            result,
            response,
            input,
        });
        actions.extend(self.attach_delayed(now, ledger));
        actions
    }

    /// Attaches logins that waited for tasks that are quiet now.
    fn attach_delayed(&mut self, now: Duration, ledger: &mut Ledger) -> Vec<Action> {
        let mut actions = Vec::new();
        for delayed in std::mem::take(&mut self.delayed) {
            let joins = delayed.result.identity.tsih != 0;
            let number = self.sessions.wrapping_sub(1);
            let session = self.session.as_ref();
            let quiet = self
                .units
                .of_session(number)
                .all(|task| joins && session.is_some_and(|served| served.protocol.is_alive(task)));
            let fits = session.is_some_and(|it| it.tsih == delayed.result.tsih);
            if joins && !fits {
                actions.push(Action::Close(delayed.id));
            } else if quiet {
                actions.push(Action::Send(delayed.id, delayed.response));
                let index = self.attach(delayed.id, &delayed.result, now, ledger);
                actions.extend(self.receive_in_session(index, &delayed.input, now, ledger));
            } else {
                self.delayed.push(delayed);
            }
        }
        actions
    }

    fn attach(
        &mut self,
        id: ConnectionId,
        result: &LoginResult,
        now: Duration,
        ledger: &mut Ledger,
    ) -> usize {
        if result.identity.tsih == 0 {
            ledger.begin_session(self.sessions);
            self.session = Some(Served::new(self.sessions, result, self.depth));
            self.sessions += 1;
        }
        let connection = &result.connection;
        let settings = ConnectionSettings {
            cid: result.identity.cid,
            header_digest: connection.header_digest,
            data_digest: connection.data_digest,
            max_recv_data_segment_length: connection.our_max_recv_data_segment_length,
            initiator_max_recv_data_segment_length: connection.peer_max_recv_data_segment_length,
            stat_sn: result.stat_sn,
        };
        let served = self.session.as_mut().expect("it was made or joined");
        let index = served.protocol.add_connection(&settings, now);
        served.connections.insert(index, id);
        index
    }

    fn receive_in_session(
        &mut self,
        index: usize,
        bytes: &[u8],
        now: Duration,
        ledger: &mut Ledger,
    ) -> Vec<Action> {
        let mut input = bytes;
        let mut actions = Vec::new();
        while let Some(served) = &mut self.session {
            let mut router = Router {
                units: &mut self.units,
                ledger,
                session: served.number,
                now,
            };
            let event = served
                .protocol
                .receive(index, &mut input, now, &mut router)
                .expect("the initiator keeps to the protocol");
            assert!(
                served.protocol.in_flight() <= self.depth as usize + BESIDE_WINDOW,
                "more commands than the window allows"
            );
            match event {
                None => break,
                Some(event) => self.handle(event),
            }
        }
        actions.extend(self.flush_all(now, ledger));
        actions
    }

    fn handle(&mut self, event: Event) {
        let Some(served) = &mut self.session else {
            return;
        };
        match event {
            Event::TaskManagement {
                request,
                referenced,
                connection,
            } => {
                let (function, lun) = (request.function, request.lun);
                let victims = match function {
                    TaskManagementFunction::AbortTask => match referenced {
                        Some(task) => vec![task],
                        None => {
                            let none = TaskManagementResult::TaskDoesNotExist;
                            let protocol = &mut served.protocol;
                            return protocol.task_management_response(
                                connection,
                                request.itt,
                                none,
                            );
                        }
                    },
                    _ => served.protocol.tasks_before(&request, connection, |it| {
                        function == TaskManagementFunction::TargetWarmReset || it == lun
                    }),
                };
                self.abort(&victims);
                self.wait_for(connection, request.itt, victims);
            }
            Event::Logout(_) => {}
            Event::Text { .. } => panic!("nobody asked by text"),
        }
    }

    /// Makes a function wait for its victims, and for tasks that were aborted before.
    fn wait_for(&mut self, connection: usize, itt: u32, mut victims: Vec<TaskId>) {
        let Some(served) = &mut self.session else {
            return;
        };
        let running = self.units.of_session(served.number);
        victims.extend(running.filter(|task| !served.protocol.is_alive(*task)));
        served.functions.push(Function {
            connection,
            itt,
            victims,
        });
        self.answer_functions();
    }

    fn abort(&mut self, tasks: &[TaskId]) {
        let Some(served) = &mut self.session else {
            return;
        };
        for task in tasks {
            let running = served.protocol.abort(*task, false);
            let number = served.number;
            if running && self.units.take_back(number, *task) {
                served.protocol.complete(*task, good(None));
            }
        }
    }

    fn answer_functions(&mut self) {
        let Some(served) = &mut self.session else {
            return;
        };
        for function in std::mem::take(&mut served.functions) {
            let number = served.number;
            let units = &self.units;
            if function
                .victims
                .iter()
                .any(|task| units.runs(number, *task))
            {
                served.functions.push(function);
                continue;
            }
            served.protocol.task_management_response(
                function.connection,
                function.itt,
                TaskManagementResult::Complete,
            );
        }
    }

    /// Notes that a connection of the session is gone.
    fn lose(&mut self, index: usize) -> Vec<Action> {
        let Some(served) = &mut self.session else {
            return Vec::new();
        };
        served.connections.remove(&index);
        served.functions.retain(|it| it.connection != index);
        for task in served.protocol.remove_connection(index) {
            if self.units.take_back(served.number, task) {
                served.protocol.complete(task, good(None));
            }
        }
        while let Some(served) = &mut self.session {
            if served.protocol.is_empty() {
                return self.end_session();
            }
            let Some(event) = served.protocol.due_function() else {
                break;
            };
            self.handle(event);
        }
        Vec::new()
    }

    fn end_session(&mut self) -> Vec<Action> {
        let Some(mut served) = self.session.take() else {
            return Vec::new();
        };
        let mut actions = Vec::new();
        for (index, id) in std::mem::take(&mut served.connections) {
            for task in served.protocol.remove_connection(index) {
                self.units.take_back(served.number, task);
            }
            actions.push(Action::Close(id));
        }
        actions
    }

    fn flush_all(&mut self, now: Duration, ledger: &mut Ledger) -> Vec<Action> {
        let connections = self.session.as_ref().map(|it| it.connections.clone());
        let ids = connections.unwrap_or_default().into_values();
        let flushed: Vec<Vec<Action>> = ids.map(|id| self.flush(id, now, ledger)).collect();
        flushed.into_iter().flatten().collect()
    }

    /// Sends as many bytes as the socket takes, and closes a connection that was logged out.
    pub fn flush(&mut self, id: ConnectionId, now: Duration, ledger: &mut Ledger) -> Vec<Action> {
        let Some(index) = self.index_of(id) else {
            return Vec::new();
        };
        let Some(served) = &mut self.session else {
            return Vec::new();
        };
        served.check_window();
        let mut bytes = Vec::new();
        served.protocol.gather(index, |piece| {
            bytes.extend_from_slice(piece);
            true
        });
        let mut actions = Vec::new();
        if !bytes.is_empty() && self.random.per_mille(self.congestion_per_mille) {
            bytes.truncate(self.random.within(0..bytes.len() as u64) as usize);
            actions.push(Action::FlushLater(id));
        }
        served.protocol.sent(index, bytes.len());
        if !bytes.is_empty() {
            actions.push(Action::Send(id, bytes));
        }
        if served.protocol.is_logged_out(index) && served.protocol.queued_bytes(index) == 0 {
            actions.push(Action::Close(id));
            actions.extend(self.lose(index));
            actions.extend(self.attach_delayed(now, ledger));
        }
        actions
    }

    /// Goes on with a command for which the disk is ready.
    pub fn disk(&mut self, number: u64, now: Duration, ledger: &mut Ledger) -> Vec<Action> {
        let Some((session, task, completion)) = self.units.finish(number, ledger) else {
            return Vec::new();
        };
        if let Some(served) = &mut self.session
            && served.number == session
        {
            served.protocol.complete(task, completion);
        }
        self.answer_functions();
        let mut actions = self.flush_all(now, ledger);
        actions.extend(self.attach_delayed(now, ledger));
        actions
    }

    /// Notes that a second has passed: pings, dead connections, windows that narrow and widen.
    pub fn tick(&mut self, now: Duration, ledger: &mut Ledger) -> Vec<Action> {
        let mut actions = Vec::new();
        let late = self.logins.iter();
        let late = late.filter(|(_, login)| now.saturating_sub(login.since) > LOGIN_TIMEOUT);
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.logins.remove(&id);
            actions.push(Action::Close(id));
        }
        if let Some(served) = &mut self.session {
            if self.random.per_mille(300) {
                let depth = self.random.within(1..u64::from(self.depth) + 1);
                served.protocol.set_depth(depth as u32);
            }
            for (index, _) in served.protocol.tick(now) {
                let id = self.session.as_ref().map(|it| it.connections[&index]);
                actions.extend(id.map(Action::Close));
                actions.extend(self.lose(index));
            }
        }
        actions.extend(self.flush_all(now, ledger));
        actions.extend(self.attach_delayed(now, ledger));
        actions
    }

    /// Notes that the other end closed the connection, or that it was cut.
    pub fn closed(&mut self, id: ConnectionId, now: Duration, ledger: &mut Ledger) -> Vec<Action> {
        self.logins.remove(&id);
        self.delayed.retain(|delayed| delayed.id != id);
        let mut actions = Vec::new();
        if let Some(index) = self.index_of(id) {
            actions.extend(self.lose(index));
        }
        actions.extend(self.flush_all(now, ledger));
        actions.extend(self.attach_delayed(now, ledger));
        actions
    }
}

impl Served {
    fn new(number: u64, result: &LoginResult, depth: u32) -> Self {
        let agreed = &result.session;
        let protocol = Session::new(SessionSettings {
            discovery: false,
            max_burst_length: agreed.max_burst_length,
            first_burst_length: agreed.first_burst_length,
            max_outstanding_r2t: agreed.max_outstanding_r2t,
            initial_r2t: agreed.initial_r2t,
            immediate_data: agreed.immediate_data,
            exp_cmd_sn: result.exp_cmd_sn,
            queue_depth: depth,
            ping_after: Some(PING_AFTER),
            ping_timeout: PING_TIMEOUT,
            data_out_timeout: PATIENCE,
        });
        Self {
            number,
            tsih: result.tsih,
            parameters: agreed.clone(),
            window: protocol.command_window(),
            protocol,
            connections: BTreeMap::new(),
            functions: Vec::new(),
        }
    }

    fn as_existing(&self, cid: u16) -> ExistingSession {
        let (exp_cmd_sn, max_cmd_sn) = self.protocol.command_window();
        ExistingSession {
            parameters: self.parameters.clone(),
            connections: self.connections.len() as u16,
            has_cid: self.protocol.find_connection(cid).is_some(),
            exp_cmd_sn,
            max_cmd_sn,
        }
    }

    fn check_window(&mut self) {
        let window = self.protocol.command_window();
        assert!(
            at_or_before(self.window.0, window.0) && at_or_before(self.window.1, window.1),
            "the window went back: {:?}, then {window:?}",
            self.window
        );
        self.window = window;
    }
}

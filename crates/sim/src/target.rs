//! The target's runtime, simulated: connections that log in, sessions, reinstatement, pings, and
//! the bytes to send. The protocol itself is `iscsi::target`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use iscsi::negotiation::Limits;
use iscsi::pdu::{BHS_LENGTH, Bhs, Isid, LoginStatus};
use iscsi::target::login::{
    Authentication, Authorization, ExistingSession, Login, LoginIdentity, LoginOutcome,
    LoginPolicy, LoginResult, LoginTerms,
};
use iscsi::target::{Completion, ConnectionSettings, Session, SessionSettings, TaskId};
use scsi::nexus::{InitiatorPort, Nexus, NexusId, TargetPort};

use crate::device::{Collected, Device, Router, View};
use crate::network::ConnectionId;
use crate::random::Random;

/// The only target.
pub const TARGET: &str = "iqn.2026-01.org.example:simulated";
/// Silence after which an initiator is pinged.
pub const PING_AFTER: Duration = Duration::from_secs(15);
/// Longest time that a ping may stay unanswered.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time without progress of data that is owed.
const DATA_OUT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time that a login may take.
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Action of the target on the network.
#[derive(Debug)]
pub enum Action {
    /// The target sends these bytes.
    Send(ConnectionId, Vec<u8>),
    /// The target closes the connection.
    Close(ConnectionId, Reason),
}

/// Reason why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The other end closed the connection, or it was cut.
    Gone,
    /// A ping was not answered, or a login did not end.
    Silent,
    /// The session began anew on another connection.
    Reinstated,
    /// The initiator logged out.
    LoggedOut,
}

#[derive(Debug)]
struct LoggingIn {
    login: Login,
    input: Vec<u8>,
    since: Duration,
}

#[derive(Debug)]
struct Served {
    number: u64,
    initiator: (String, Isid),
    protocol: Session<Arc<[u8]>, Collected>,
    index: usize,
    view: View,
    nexus: NexusId,
    seen: Vec<[u8; 16]>,
}

/// The target.
#[derive(Debug)]
pub struct Target {
    /// Logical unit of the target.
    pub device: Device,
    limits: Limits,
    depth: u32,
    logins: BTreeMap<ConnectionId, LoggingIn>,
    sessions: BTreeMap<ConnectionId, Served>,
    last_session: u64,
    random: Random,
    /// CDBs that each connection brought, in order.
    pub seen: BTreeMap<ConnectionId, Vec<[u8; 16]>>,
}

struct Policy<'a> {
    limits: &'a Limits,
    depth: u32,
    tsih: u16,
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

    fn existing_session(&mut self, _: &LoginIdentity) -> Option<ExistingSession> {
        None
    }

    fn admit(&mut self, _: &LoginResult) -> Result<u16, LoginStatus> {
        Ok(self.tsih)
    }
}

impl Target {
    /// Makes a target that negotiates within `limits` and takes `depth` commands of each session.
    pub fn new(device: Device, limits: Limits, depth: u32, random: Random) -> Self {
        Self {
            device,
            limits,
            depth,
            logins: BTreeMap::new(),
            sessions: BTreeMap::new(),
            last_session: 0,
            random,
            seen: BTreeMap::new(),
        }
    }

    /// Reports whether nobody is connected.
    pub fn is_idle(&self) -> bool {
        self.logins.is_empty() && self.sessions.is_empty()
    }

    /// Reports whether this connection is served.
    pub fn serves(&self, id: ConnectionId) -> bool {
        self.logins.contains_key(&id) || self.sessions.contains_key(&id)
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

    /// Takes bytes that arrived.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Duration) -> Vec<Action> {
        if self.sessions.contains_key(&id) {
            return self.receive_in_session(id, bytes, now);
        }
        self.receive_login(id, bytes, now)
    }

    fn receive_login(&mut self, id: ConnectionId, bytes: &[u8], now: Duration) -> Vec<Action> {
        let Some(connection) = self.logins.get_mut(&id) else {
            return Vec::new();
        };
        connection.input.extend_from_slice(bytes);
        let mut actions = Vec::new();
        while let Some(bhs) = connection.input.first_chunk::<BHS_LENGTH>().copied() {
            let header = Bhs::new(&bhs);
            let length = BHS_LENGTH + header.padded_data_segment_length();
            if connection.input.len() < length {
                break;
            }
            let mut policy = Policy {
                limits: &self.limits,
                depth: self.depth,
                tsih: (self.last_session + 1) as u16,
            };
            let data = &connection.input[BHS_LENGTH..][..header.data_segment_length()];
            let reply = connection
                .login
                .receive(&bhs, data, &mut policy, &mut self.random);
            connection.input.drain(..length);
            actions.push(Action::Send(id, reply.pdu));
            match reply.outcome {
                LoginOutcome::Pending => {}
                LoginOutcome::Refused(refusal) => panic!("a good login is refused: {refusal}"),
                LoginOutcome::Connected(result) => {
                    let rest = self.logins.remove(&id).expect("it was there").input;
                    actions.extend(self.begin_session(id, &result, now));
                    actions.extend(self.receive_in_session(id, &rest, now));
                    break;
                }
            }
        }
        actions
    }

    fn begin_session(
        &mut self,
        id: ConnectionId,
        result: &LoginResult,
        now: Duration,
    ) -> Option<Action> {
        let identity = &result.identity;
        let initiator = (identity.initiator_name.clone(), identity.isid);
        let old = self
            .sessions
            .iter()
            .find(|(_, old)| old.initiator == initiator);
        let old = old.map(|(id, _)| *id);
        let reinstated = old.map(|old| self.close(old, Reason::Reinstated));
        self.last_session += 1;
        let agreed = &result.session;
        let mut protocol = Session::new(SessionSettings {
            discovery: false,
            max_burst_length: agreed.max_burst_length,
            first_burst_length: agreed.first_burst_length,
            max_outstanding_r2t: agreed.max_outstanding_r2t,
            initial_r2t: agreed.initial_r2t,
            immediate_data: agreed.immediate_data,
            exp_cmd_sn: result.exp_cmd_sn,
            queue_depth: self.depth,
            ping_after: Some(PING_AFTER),
            ping_timeout: PING_TIMEOUT,
            data_out_timeout: DATA_OUT_TIMEOUT,
        });
        let connection = &result.connection;
        let settings = ConnectionSettings {
            cid: identity.cid,
            header_digest: connection.header_digest,
            data_digest: connection.data_digest,
            max_recv_data_segment_length: connection.our_max_recv_data_segment_length,
            initiator_max_recv_data_segment_length: connection.peer_max_recv_data_segment_length,
            stat_sn: result.stat_sn,
        };
        let index = protocol.add_connection(&settings, now);
        let nexus = NexusId(self.last_session);
        let itl = self.device.unit.attach(Nexus {
            id: nexus,
            initiator: Arc::new(InitiatorPort {
                name: identity.initiator_name.clone(),
                isid: identity.isid.0,
            }),
            target_port: Arc::new(TargetPort {
                name: TARGET.into(),
                portal_group_tag: 1,
                relative_port_id: 1,
                target_port_group: 1,
            }),
        });
        let served = Served {
            number: self.last_session,
            initiator,
            protocol,
            index,
            view: View(itl),
            nexus,
            seen: Vec::new(),
        };
        self.sessions.insert(id, served);
        reinstated
    }

    fn receive_in_session(&mut self, id: ConnectionId, bytes: &[u8], now: Duration) -> Vec<Action> {
        let Some(served) = self.sessions.get_mut(&id) else {
            return Vec::new();
        };
        let mut input = bytes;
        loop {
            let mut router = Router {
                device: &mut self.device,
                view: &served.view,
                session: served.number,
                now,
                seen: &mut served.seen,
            };
            let event = served
                .protocol
                .receive(served.index, &mut input, now, &mut router)
                .expect("the initiator keeps to the protocol");
            assert!(
                served.protocol.in_flight() <= self.depth as usize,
                "more commands than the window allows"
            );
            // The session itself answers a logout. No other function is asked for.
            if event.is_none() {
                break;
            }
        }
        self.flush(id)
    }

    /// Returns the bytes that a session has to send, and its end after a logout.
    fn flush(&mut self, id: ConnectionId) -> Vec<Action> {
        let Some(served) = self.sessions.get_mut(&id) else {
            return Vec::new();
        };
        let mut bytes = Vec::new();
        served.protocol.gather(served.index, |piece| {
            bytes.extend_from_slice(piece);
            true
        });
        served.protocol.sent(served.index, bytes.len());
        let logged_out = served.protocol.is_logged_out(served.index);
        let mut actions = Vec::new();
        if !bytes.is_empty() {
            actions.push(Action::Send(id, bytes));
        }
        if logged_out {
            actions.push(self.close(id, Reason::LoggedOut));
        }
        actions
    }

    /// Goes on with a command for which the disk is ready.
    pub fn disk(&mut self, number: u64) -> Vec<Action> {
        let Some((session, task, completion)) = self.device.finish(number) else {
            return Vec::new();
        };
        self.complete(session, task, completion)
    }

    fn complete(
        &mut self,
        session: u64,
        task: TaskId,
        completion: Completion<Arc<[u8]>>,
    ) -> Vec<Action> {
        let mut sessions = self.sessions.iter_mut();
        let Some((id, served)) = sessions.find(|(_, served)| served.number == session) else {
            return Vec::new();
        };
        let id = *id;
        served.protocol.complete(task, completion);
        self.flush(id)
    }

    /// Notes that a second has passed: pings, dead connections, windows that narrow and widen.
    pub fn tick(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        let late = self.logins.iter();
        let late = late.filter(|(_, login)| now.saturating_sub(login.since) > LOGIN_TIMEOUT);
        let mut dead: Vec<ConnectionId> = late.map(|(id, _)| *id).collect();
        for (id, served) in &mut self.sessions {
            if !served.protocol.tick(now).is_empty() {
                dead.push(*id);
            }
            if self.random.per_mille(300) {
                let depth = self.random.within(1..u64::from(self.depth) + 1);
                served.protocol.set_depth(depth as u32);
            }
        }
        let ids: Vec<ConnectionId> = self.sessions.keys().copied().collect();
        for id in ids {
            actions.extend(self.flush(id));
        }
        actions.extend(dead.into_iter().map(|id| self.close(id, Reason::Silent)));
        actions
    }

    /// Notes that the other end closed the connection, or that it was cut.
    pub fn closed(&mut self, id: ConnectionId) {
        if self.serves(id) {
            self.close(id, Reason::Gone);
        }
    }

    fn close(&mut self, id: ConnectionId, reason: Reason) -> Action {
        self.logins.remove(&id);
        if let Some(mut served) = self.sessions.remove(&id) {
            served.protocol.remove_connection(served.index);
            self.device.unit.detach(served.nexus);
            self.device.lose(served.number);
            self.seen.insert(id, served.seen);
        }
        Action::Close(id, reason)
    }
}

//! A connection before its session: it turns bytes into login requests, and gives the answers that
//! a login asks for.
//!
//! The state machine of LOGIN itself is `iscsi::target::login`. Here it meets the configuration,
//! the registry of sessions and the random numbers of the kernel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use iscsi::chap::ChapCredential;
use iscsi::negotiation::{DigestPolicy, TargetLimits};
use iscsi::pdu::{BHS_LENGTH, Bhs, LoginStatus};
use iscsi::target::login::{
    Authentication, Authorization, ExistingSession, Login, LoginIdentity, LoginOutcome,
    LoginPolicy, LoginResult, LoginTerms, MAX_DATA_SEGMENT, SessionKind,
};

use super::registry::{RegisteredSession, Registry, Seat, SessionName};
use super::told;
use crate::connection::dealer::Dealt;
use crate::directory::Directory;
use crate::message::Message;
use crate::shared::Shared;
use config::access::{self, Access};
use model::config::{ChapSecret, TargetParameters, TargetSpec};
use net::entropy::KernelEntropy;

/// Default number of commands in flight per session.
pub(crate) const DEFAULT_QUEUE_DEPTH: u16 = 128;

/// Divisor that gives the last part of all sessions. When no more than this part is left, an
/// initiator that has many gets no more.
const LAST_PART: usize = 4;
/// Number of sessions of an initiator that counts as many, unless half of all sessions is fewer.
/// Nobody needs as many paths.
const MANY_SESSIONS: usize = 64;

/// Login that succeeded, on its way to the loop that owns the session.
#[derive(Debug)]
pub(crate) struct LoggedIn {
    /// Count of the connection at that loop.
    pub dealt: Dealt,
    /// The socket.
    pub stream: mio::net::TcpStream,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// The portal it came to.
    pub local: SocketAddr,
    /// Result of the login.
    pub result: LoginResult,
    /// Place in the session that it starts or joins.
    pub seat: Seat,
    /// Session that this login reinstates.
    pub replaces: Option<Arc<RegisteredSession>>,
    /// Bytes received after the login.
    pub input: Vec<u8>,
    /// Login responses that have not left yet.
    pub output: Vec<u8>,
}

impl LoggedIn {
    /// Returns the name of the session that it starts or joins.
    pub(crate) fn name(&self) -> SessionName {
        SessionName::of(&self.result.identity, self.result.portal_group_tag)
    }
}

/// Progress of a login after some bytes.
#[derive(Debug)]
pub(crate) enum LoginProgress {
    /// Login that needs further bytes.
    Pending,
    /// The login succeeded; [`LoginConnection::take_rest`] returns the bytes behind it.
    Done(Box<LoginResult>, Seat, Option<Arc<RegisteredSession>>),
    /// The login was refused: the connection is closed once the output has left.
    Refused,
}

/// Connection that logs in.
#[derive(Debug)]
pub(crate) struct LoginConnection {
    login: Login,
    input: Vec<u8>,
    /// Responses to send.
    pub output: Vec<u8>,
}

impl LoginConnection {
    /// Returns the state of a fresh connection.
    pub(crate) fn new() -> Self {
        Self {
            login: Login::new(),
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Takes bytes that arrived between the addresses of this side and of the peer.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        loop_index: usize,
        (local, peer): (SocketAddr, SocketAddr),
        shared: &Arc<Shared>,
    ) -> LoginProgress {
        self.input.extend_from_slice(bytes);
        while let Some(bhs) = self.input.first_chunk::<BHS_LENGTH>().copied() {
            let header = Bhs::new(&bhs);
            let (data, padded) = (
                header.data_segment_length(),
                header.padded_data_segment_length(),
            );
            if data > MAX_DATA_SEGMENT {
                tracing::warn!(%local, length = data, "login refused: the data segment is too long");
                told::malformed(&shared.events, peer, "the data segment is too long");
                return LoginProgress::Refused;
            }
            // A format error ends the connection (RFC 7143 §7.7, §11.2.1.5).
            if header.total_ahs_length() > 0 {
                tracing::warn!(%local, "login refused: a login request must not have additional header \
                                        segments");
                told::malformed(&shared.events, peer, "it has additional header segments");
                return LoginProgress::Refused;
            }
            let start = BHS_LENGTH;
            if self.input.len() < start + padded {
                break;
            }
            let mut policy = Policy::new(shared, loop_index, local);
            let reply = self.login.receive(
                &bhs,
                &self.input[start..start + data],
                &mut policy,
                &mut KernelEntropy,
            );
            self.input.drain(..start + padded);
            self.output.extend_from_slice(&reply.pdu);
            match reply.outcome {
                LoginOutcome::Pending => {}
                LoginOutcome::Refused(refusal) => {
                    tracing::warn!(%local, "{refusal}");
                    told::refused(&shared.events, peer, &refusal);
                    return LoginProgress::Refused;
                }
                LoginOutcome::Connected(result) => {
                    let Some((seat, replaced)) = policy.admitted else {
                        return LoginProgress::Refused;
                    };
                    return LoginProgress::Done(result, seat, replaced);
                }
            }
        }
        LoginProgress::Pending
    }

    /// Returns the bytes after the login, and the responses that have not left.
    pub(crate) fn take_rest(self) -> (Vec<u8>, Vec<u8>) {
        (self.input, self.output)
    }
}

/// Policy for one login, from the configuration and the existing sessions.
struct Policy<'a> {
    shared: &'a Arc<Shared>,
    directory: Arc<Directory>,
    loop_index: usize,
    local: SocketAddr,
    admitted: Option<(Seat, Option<Arc<RegisteredSession>>)>,
}

impl<'a> Policy<'a> {
    fn new(shared: &'a Arc<Shared>, loop_index: usize, local: SocketAddr) -> Self {
        Self {
            shared,
            directory: shared.directory(),
            loop_index,
            local,
            admitted: None,
        }
    }

    fn discovery(&self, identity: &LoginIdentity) -> Authorization {
        match access::discovery(&self.directory.config, &identity.initiator_name) {
            Err(refusal) => refused(&refusal),
            Ok(authentication) => Authorization::Allowed(LoginTerms {
                authentication: authentication_terms(&authentication),
                limits: limits(&TargetParameters::default()),
                portal_group_tag: 0,
                target_alias: String::new(),
                command_window: 4,
            }),
        }
    }

    fn access(&self, identity: &LoginIdentity) -> Option<(Access, &TargetSpec)> {
        let name = identity.target_name.as_deref()?;
        let access = access::access(
            &self.directory.config,
            &identity.initiator_name,
            name,
            Some(self.local),
        )
        .ok()?;
        Some((access, self.directory.config.target(name)?))
    }

    fn find(&self, identity: &LoginIdentity) -> Option<Arc<RegisteredSession>> {
        let (access, _) = self.access(identity)?;
        self.shared
            .registry()
            .find(&SessionName::of(identity, access.portal_group.tag))
    }
}

impl Policy<'_> {
    /// Makes sure of room for one more session of this name, with `at_most` sessions at its target.
    /// A discovery session gets its room from the oldest one.
    fn make_room(
        &self,
        registry: &mut Registry,
        name: &SessionName,
        at_most: Option<u32>,
    ) -> Result<(), LoginStatus> {
        if name.is_discovery() {
            if let Some(oldest) = registry.make_room_for_discovery() {
                tracing::warn!("too many discovery sessions: the oldest is ended");
                let message = Message::Dismiss(oldest.key, "too many discovery sessions");
                self.shared.send(oldest.loop_index, message);
            }
            return Ok(());
        }
        let counts = registry.count(name);
        let most = self.shared.limits.max_sessions;
        let refuse = |why| {
            let (initiator, sessions) = (&name.initiator, counts.all);
            tracing::warn!(%initiator, sessions, of_initiator = counts.of_initiator, "login refused: {why}");
            Err(LoginStatus::OUT_OF_RESOURCES)
        };
        if counts.all >= most {
            return refuse("too many sessions");
        }
        if at_most.is_some_and(|at_most| counts.at_target >= at_most as usize) {
            return refuse("too many sessions at its target");
        }
        // Others find room, whatever one initiator does.
        let is_last_part = counts.all >= most - most / LAST_PART;
        if is_last_part && counts.of_initiator >= MANY_SESSIONS.min(most / 2).max(1) {
            return refuse(
                "its initiator has many sessions, and little room is left for other initiators",
            );
        }
        Ok(())
    }
}

impl LoginPolicy for Policy<'_> {
    fn authorize(&mut self, identity: &LoginIdentity) -> Authorization {
        if identity.session_kind == SessionKind::Discovery {
            return self.discovery(identity);
        }
        let name = identity.target_name.as_deref().unwrap_or_default();
        match access::access(
            &self.directory.config,
            &identity.initiator_name,
            name,
            Some(self.local),
        ) {
            Err(access::Refusal::Redirect { address, permanent }) => {
                Authorization::Redirect { address, permanent }
            }
            Err(refusal) => refused(&refusal),
            Ok(access) => {
                let target = self.directory.config.target(name);
                let parameters = target
                    .map(|target| target.parameters.clone())
                    .unwrap_or_default();
                Authorization::Allowed(LoginTerms {
                    authentication: authentication_terms(&access.authentication),
                    limits: limits(&parameters),
                    portal_group_tag: access.portal_group.tag,
                    target_alias: target
                        .map(|target| target.alias.clone())
                        .unwrap_or_default(),
                    command_window: u32::from(
                        parameters.queue_depth.unwrap_or(DEFAULT_QUEUE_DEPTH),
                    ),
                })
            }
        }
    }

    fn existing_session(&mut self, identity: &LoginIdentity) -> Option<ExistingSession> {
        let session = self
            .find(identity)
            .filter(|session| session.tsih == identity.tsih)?;
        let (connections, has_cid) = session.connections(identity.cid);
        Some(ExistingSession {
            parameters: session.parameters.clone(),
            connections,
            has_cid,
            exp_cmd_sn: session.exp_cmd_sn.load(Ordering::Relaxed),
            max_cmd_sn: session.max_cmd_sn.load(Ordering::Relaxed),
        })
    }

    fn admit(&mut self, login: &LoginResult) -> Result<u16, LoginStatus> {
        let identity = &login.identity;
        if identity.tsih != 0 {
            let session = self
                .find(identity)
                .filter(|session| session.tsih == identity.tsih);
            let session = session.ok_or(LoginStatus::SESSION_DOES_NOT_EXIST)?;
            let seat = session.take_seat(identity.cid);
            let seat = seat.ok_or(LoginStatus::TOO_MANY_CONNECTIONS)?;
            self.admitted = Some((seat, None));
            return Ok(session.tsih);
        }
        let name = SessionName::of(identity, login.portal_group_tag);
        let at_most = self
            .access(identity)
            .and_then(|(_, target)| target.parameters.max_sessions);
        let mut registry = self.shared.registry();
        let known = registry.find(&name);
        if known.is_none() {
            self.make_room(&mut registry, &name, at_most)?;
        }
        // A session that comes back stays on its loop: there its old tasks end before new ones
        // start.
        let loop_index = known.map_or(self.loop_index, |old| old.loop_index);
        let (session, replaced) = registry
            .insert(name, loop_index, login.session.clone())
            .ok_or(LoginStatus::OUT_OF_RESOURCES)?;
        session.note_window(login.exp_cmd_sn, login.max_cmd_sn);
        // A new session has room for its first connection.
        let seat = session.take_seat(identity.cid);
        let seat = seat.ok_or(LoginStatus::OUT_OF_RESOURCES)?;
        self.admitted = Some((seat, replaced));
        Ok(session.tsih)
    }
}

fn refused(refusal: &access::Refusal) -> Authorization {
    let (class, detail) = refusal.login_status();
    Authorization::Refused {
        status: LoginStatus(u16::from_be_bytes([class, detail])),
        reason: refusal.to_string(),
    }
}

fn credential(secret: &ChapSecret) -> ChapCredential {
    ChapCredential {
        name: secret.user.clone(),
        secret: secret.secret.clone().into_bytes(),
    }
}

fn authentication_terms(wanted: &access::Authentication) -> Authentication {
    match wanted {
        access::Authentication::None => Authentication::None,
        access::Authentication::Chap { initiator, target } => Authentication::Chap {
            initiator: credential(initiator),
            target: target.as_ref().map(credential),
        },
    }
}

/// Returns the limits of negotiation for one target.
fn limits(parameters: &TargetParameters) -> TargetLimits {
    let digest = |required: Option<bool>| match required {
        Some(true) => DigestPolicy::Require,
        Some(false) => DigestPolicy::Forbid,
        None => DigestPolicy::Allow,
    };
    TargetLimits {
        max_connections: parameters.max_connections.unwrap_or(4),
        initial_r2t: parameters.initial_r2t.unwrap_or(false),
        immediate_data: parameters.immediate_data.unwrap_or(true),
        max_burst_length: parameters.max_burst_length.unwrap_or(1 << 20),
        first_burst_length: parameters.first_burst_length.unwrap_or(256 << 10),
        max_outstanding_r2t: parameters.max_outstanding_r2t.unwrap_or(8),
        max_recv_data_segment_length: parameters.max_recv_data_segment_length.unwrap_or(256 << 10),
        header_digest: digest(parameters.require_header_digest),
        data_digest: digest(parameters.require_data_digest),
        ..TargetLimits::default()
    }
}

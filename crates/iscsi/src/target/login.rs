//! LOGIN at the target: from the first byte of a connection to the full-feature phase (RFC 7143
//! §6.3, §11.12, §11.13).
//!
//! [`Login::receive`] takes one Login Request and returns one Login Response. Stages:
//!
//! ```text
//! first request: names, SessionType, policy
//!   ├── SecurityNegotiation (CSG 0) ──┐
//!   └── if nothing must be proved ────┴── OperationalNegotiation (CSG 1) ── full feature
//! ```
//!
//! # Invariants
//! - Nothing about a session is changed before the initiator is authenticated and every parameter
//!   is agreed. [`LoginPolicy::admit`] is called once, right before the last response.
//! - Memory and work are bounded whatever is sent: [`MAX_REQUESTS`], [`MAX_TEXT`].
//! - Time is not read here: the owner of the connection ends a login that takes too long.

mod identity;
mod policy;
mod refusal;
mod security_negotiation;

use identity::{check_identity, identify, is_identity};
pub use policy::{
    Authentication, Authorization, ExistingSession, LoginIdentity, LoginPolicy, LoginResult,
    LoginTerms, SessionKind,
};
pub use refusal::LoginRefusal;
use refusal::Refusal;
use security_negotiation::{SecurityError, SecurityKeys, SecurityNegotiation};

use crate::chap::Entropy;
use crate::negotiation::{
    DEFAULT_MAX_RECV_DATA_SEGMENT_LENGTH, Key, Negotiation, Scope, SessionParameters,
};
use crate::pdu::{
    BHS_LENGTH, LoginRequest, LoginResponse, LoginStage, LoginStatus, PduError, RawBhs, padded,
};
use crate::text_keys::{REJECT, TextInput, TextOutput, TextPairs};

/// Longest data segment accepted and sent during login, in bytes.
pub const MAX_DATA_SEGMENT: usize = DEFAULT_MAX_RECV_DATA_SEGMENT_LENGTH as usize;
/// Most text accepted during one login, in bytes.
pub const MAX_TEXT: usize = 64 << 10;
/// Most requests accepted during one login.
pub const MAX_REQUESTS: u32 = 64;

/// The only version of iSCSI.
const VERSION: u8 = 0;

/// Reply to one request.
#[derive(Debug)]
pub struct LoginReply {
    /// Response to send: header, text, padding. No digests exist during login.
    pub pdu: Vec<u8>,
    /// Next action after the response is sent.
    pub outcome: LoginOutcome,
}

/// Next action after a response.
#[derive(Debug)]
pub enum LoginOutcome {
    /// Wait for the next request.
    Pending,
    /// The connection is in the full-feature phase.
    Connected(Box<LoginResult>),
    /// Close the connection.
    Refused(LoginRefusal),
}

/// One login at the target.
#[derive(Debug)]
pub struct Login {
    requests: u32,
    input: TextInput,
    output: TextOutput,
    stage: LoginStage,
    /// Names that are known from the first complete text on, even if that text is refused.
    identity: Option<LoginIdentity>,
    /// Facts that are known once the first text has been accepted.
    established: Option<Established>,
    /// First header. Later ones must name its session and connection.
    first: Option<LoginRequest>,
    stat_sn: u32,
    finished: bool,
}

/// Facts that the first text settles.
#[derive(Debug)]
struct Established {
    portal_group_tag: u16,
    /// Parameters of the session that is joined.
    existing: Option<SessionParameters>,
    security: SecurityNegotiation,
    negotiation: Negotiation,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
}

impl Default for Login {
    fn default() -> Self {
        Self::new()
    }
}

impl Login {
    /// Starts a login on a fresh connection.
    pub const fn new() -> Self {
        Self {
            requests: 0,
            input: TextInput::new(MAX_TEXT),
            output: TextOutput::new(),
            stage: LoginStage::SecurityNegotiation,
            identity: None,
            established: None,
            first: None,
            stat_sn: 0,
            finished: false,
        }
    }

    /// Takes one PDU: its header, and its data segment without padding. After any outcome but
    /// [`LoginOutcome::Pending`] the login is over.
    pub fn receive(
        &mut self,
        bhs: &RawBhs,
        data: &[u8],
        policy: &mut dyn LoginPolicy,
        entropy: &mut dyn Entropy,
    ) -> LoginReply {
        match LoginRequest::parse(bhs) {
            Ok(request) => match self.take_request(&request, data, policy, entropy) {
                Ok(reply) => reply,
                Err(refusal) => self.refuse(Some(&request), refusal),
            },
            Err(error) => self.refuse(None, not_a_login(error)),
        }
    }

    fn take_request(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        policy: &mut dyn LoginPolicy,
        entropy: &mut dyn Entropy,
    ) -> Result<LoginReply, Refusal> {
        self.check_header(request, data)?;
        self.input.push(data)?;
        if request.continues {
            // RFC 7143 §6.2: text in progress is answered by an empty response.
            return Ok(self.respond(request, Step::Stay));
        }
        let text = self.input.take();
        if !self.output.is_empty() {
            // The response was cut short, so the initiator must only ask for the rest.
            if TextPairs::new(&text).next().is_some() {
                return Err(Refusal::initiator_error(
                    "text while a response was incomplete",
                ));
            }
        } else {
            if self.established.is_none() {
                self.first_request(request, &text, policy)?;
            }
            match self.stage {
                LoginStage::SecurityNegotiation => {
                    self.security_negotiation(request, &text, entropy)?
                }
                _ => self.operational_negotiation(request, &text)?,
            }
        }
        let step = self.next_step(request, policy)?;
        Ok(self.respond(request, step))
    }

    /// Checks the rules that every request must satisfy in every stage.
    fn check_header(&mut self, request: &LoginRequest, data: &[u8]) -> Result<(), Refusal> {
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err(Refusal::initiator_error("too many login requests"));
        }
        if self.finished {
            return Err(Refusal::new(
                LoginStatus::INVALID_DURING_LOGIN,
                "login request after the login",
            ));
        }
        if request.version_min > VERSION {
            return Err(Refusal::new(
                LoginStatus::UNSUPPORTED_VERSION,
                "no common version",
            ));
        }
        if data.len() > MAX_DATA_SEGMENT {
            return Err(Refusal::initiator_error(
                "login data segment longer than 8192 bytes",
            ));
        }
        let stage = match LoginStage::from_code(request.csg) {
            Some(
                stage @ (LoginStage::SecurityNegotiation | LoginStage::OperationalNegotiation),
            ) => stage,
            _ => return Err(Refusal::initiator_error("invalid current stage")),
        };
        if request.transit {
            let forward = LoginStage::from_code(request.nsg).is_some_and(|next| next > stage);
            if !forward || request.continues {
                return Err(Refusal::initiator_error("invalid transition"));
            }
        }
        match &self.first {
            None => {
                self.first = Some(*request);
                self.stage = stage;
                self.stat_sn = request.exp_stat_sn;
            }
            Some(first) => {
                let same = (first.isid, first.tsih, first.cid)
                    == (request.isid, request.tsih, request.cid);
                if !same {
                    return Err(Refusal::initiator_error(
                        "ISID, TSIH or CID changed during login",
                    ));
                }
                if stage != self.stage {
                    return Err(Refusal::initiator_error("current stage does not match"));
                }
            }
        }
        Ok(())
    }

    /// Handles the first text, which names initiator and target, and asks whether they are allowed.
    fn first_request(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
        policy: &mut dyn LoginPolicy,
    ) -> Result<(), Refusal> {
        let identity = self.identity.insert(identify(request, text)?);
        let terms = match policy.authorize(identity) {
            Authorization::Allowed(terms) => terms,
            Authorization::Redirect { address, permanent } => {
                return Err(Refusal::redirect(address, permanent));
            }
            Authorization::Refused { status, reason } => {
                return Err(Refusal::new(status, reason));
            }
        };
        let (mut existing, mut exp_cmd_sn) = (None, request.cmd_sn);
        let mut max_cmd_sn = request
            .cmd_sn
            .wrapping_add(terms.command_window.max(1))
            .wrapping_sub(1);
        if identity.tsih != 0 {
            let session = session_to_join(identity, policy)?;
            (exp_cmd_sn, max_cmd_sn) = (session.exp_cmd_sn, session.max_cmd_sn);
            existing = Some(session.parameters);
        }
        let scope = match (identity.session_kind, identity.tsih) {
            (SessionKind::Discovery, _) => Scope::DiscoveryLogin,
            (SessionKind::Normal, 0) => Scope::LeadingLogin,
            (SessionKind::Normal, _) => Scope::FurtherLogin,
        };
        let security = SecurityNegotiation::new(terms.authentication);
        if self.stage != LoginStage::SecurityNegotiation && !security.may_leave() {
            return Err(SecurityError::NotAuthenticated.into());
        }
        if identity.session_kind == SessionKind::Normal {
            // RFC 7143 §13.9: in the first response of a normal session.
            self.output
                .push("TargetPortalGroupTag", terms.portal_group_tag);
            if !terms.target_alias.is_empty() {
                self.output.push("TargetAlias", &terms.target_alias);
            }
        }
        self.established = Some(Established {
            portal_group_tag: terms.portal_group_tag,
            existing,
            security,
            negotiation: Negotiation::new(scope, terms.limits),
            exp_cmd_sn,
            max_cmd_sn,
        });
        Ok(())
    }

    /// Handles stage 0: AuthMethod and CHAP. Other keys have to wait.
    fn security_negotiation(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
        entropy: &mut dyn Entropy,
    ) -> Result<(), Refusal> {
        let (Some(established), Some(identity)) = (&mut self.established, &self.identity) else {
            return Err(Refusal::initiator_error(
                "the first login request is missing",
            ));
        };
        let mut keys = SecurityKeys::default();
        for pair in TextPairs::new(text) {
            let (key, value) = pair?;
            match keys.take(key, value) {
                Some(true) => continue,
                Some(false) => {
                    return Err(Refusal::initiator_error(format_args!("{key} came twice")));
                }
                None => {}
            }
            if is_identity(key) {
                check_identity(identity, key, value)?;
            } else if is_not_negotiable(key)
                || Key::from_name(key).is_some_and(|key| !key.is_declarative())
            {
                // Operational keys belong to stage 1 (RFC 7143 §13: "Use: LO").
                self.output.push(key, REJECT);
            } else {
                established
                    .negotiation
                    .receive(key, value, &mut self.output)?;
            }
        }
        Ok(established
            .security
            .receive(&keys, request.transit, entropy, &mut self.output)?)
    }

    /// Handles stage 1: all other keys.
    fn operational_negotiation(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
    ) -> Result<(), Refusal> {
        let (Some(established), Some(identity)) = (&mut self.established, &self.identity) else {
            return Err(Refusal::initiator_error(
                "the first login request is missing",
            ));
        };
        let mut security = SecurityKeys::default();
        for pair in TextPairs::new(text) {
            let (key, value) = pair?;
            if is_identity(key) {
                check_identity(identity, key, value)?;
            } else if is_not_negotiable(key) || security.take(key, value).is_some() {
                self.output.push(key, REJECT);
            } else {
                established
                    .negotiation
                    .receive(key, value, &mut self.output)?;
            }
        }
        if request.transit {
            if established.negotiation.is_waiting() {
                return Err(Refusal::initiator_error(
                    "the initiator did not answer the target's offers",
                ));
            }
            established
                .negotiation
                .offer_what_is_missing(&mut self.output);
        }
        Ok(())
    }

    /// Decides whether the initiator may move to the stage it wants. For the full-feature phase the
    /// session is admitted here.
    fn next_step(
        &mut self,
        request: &LoginRequest,
        policy: &mut dyn LoginPolicy,
    ) -> Result<Step, Refusal> {
        let (Some(established), Some(identity)) = (&self.established, &self.identity) else {
            return Ok(Step::Stay);
        };
        let may_leave = match self.stage {
            LoginStage::SecurityNegotiation => established.security.may_leave(),
            _ => !established.negotiation.is_waiting(),
        };
        let cut_short = self.output.remaining() > MAX_DATA_SEGMENT;
        if !request.transit || !may_leave || cut_short {
            return Ok(Step::Stay);
        }
        if request.nsg != LoginStage::FullFeature as u8 {
            return Ok(Step::Operational);
        }
        let (session, connection) = established.negotiation.finish()?;
        let mut result = LoginResult {
            identity: identity.clone(),
            tsih: 0,
            portal_group_tag: established.portal_group_tag,
            authenticated_as: established.security.authenticated_as().map(str::to_owned),
            session: established.existing.clone().unwrap_or(session),
            connection,
            exp_cmd_sn: established.exp_cmd_sn,
            max_cmd_sn: established.max_cmd_sn,
            stat_sn: self.stat_sn.wrapping_add(1),
            exp_stat_sn: request.exp_stat_sn,
        };
        result.tsih = policy
            .admit(&result)
            .map_err(|status| Refusal::new(status, "no session is free"))?;
        Ok(Step::FullFeature(Box::new(result)))
    }

    /// Builds the response and moves on.
    fn respond(&mut self, request: &LoginRequest, step: Step) -> LoginReply {
        let (next, tsih) = match &step {
            Step::Stay => (None, request.tsih),
            Step::Operational => (Some(LoginStage::OperationalNegotiation), request.tsih),
            Step::FullFeature(result) => (Some(LoginStage::FullFeature), result.tsih),
        };
        let (exp_cmd_sn, max_cmd_sn) = self.command_window(request);
        // The target says nothing while the initiator has not finished its text.
        let room = if request.continues {
            0
        } else {
            MAX_DATA_SEGMENT
        };
        let length = self.output.remaining().min(room);
        let header = LoginResponse {
            transit: next.is_some(),
            continues: !request.continues && self.output.remaining() > length,
            csg: self.stage as u8,
            nsg: next.map_or(0, |stage| stage as u8),
            version_max: VERSION,
            version_active: VERSION,
            data_segment_length: length as u32,
            isid: request.isid,
            tsih,
            itt: request.itt,
            stat_sn: self.stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
            status: LoginStatus::SUCCESS,
        };
        let pdu = encode(&header, self.output.next_segment(room));
        if self.output.is_empty() {
            self.output = TextOutput::new();
        }
        self.stat_sn = self.stat_sn.wrapping_add(1);
        if let Some(stage) = next {
            self.stage = stage;
        }
        let outcome = match step {
            Step::FullFeature(result) => {
                self.finished = true;
                LoginOutcome::Connected(result)
            }
            Step::Stay | Step::Operational => LoginOutcome::Pending,
        };
        LoginReply { pdu, outcome }
    }

    /// Builds the last response of a refused login, with the reason.
    fn refuse(&mut self, request: Option<&LoginRequest>, refusal: Refusal) -> LoginReply {
        self.finished = true;
        let mut text = TextOutput::new();
        if let Some(address) = &refusal.target_address {
            text.push("TargetAddress", address);
        }
        let request = request.copied().or(self.first);
        let (exp_cmd_sn, max_cmd_sn) =
            request.map_or((0, 0), |request| self.command_window(&request));
        let header = LoginResponse {
            transit: false,
            continues: false,
            csg: request.map_or(0, |request| request.csg),
            nsg: 0,
            version_max: VERSION,
            version_active: VERSION,
            data_segment_length: text.remaining() as u32,
            isid: request.map_or_else(Default::default, |request| request.isid),
            tsih: request.map_or(0, |request| request.tsih),
            itt: request.map_or(0, |request| request.itt),
            stat_sn: self.stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
            status: refusal.status,
        };
        let pdu = encode(&header, text.next_segment(MAX_DATA_SEGMENT));
        let name = |get: fn(&LoginIdentity) -> Option<String>| self.identity.as_ref().and_then(get);
        let outcome = LoginOutcome::Refused(LoginRefusal {
            status: refusal.status,
            reason: refusal.reason,
            initiator_name: name(|identity| Some(identity.initiator_name.clone())),
            target_name: name(|identity| identity.target_name.clone()),
        });
        LoginReply { pdu, outcome }
    }

    /// Returns the ExpCmdSN and MaxCmdSN to send. Login requests are immediate: they use up no
    /// CmdSN.
    fn command_window(&self, request: &LoginRequest) -> (u32, u32) {
        self.established
            .as_ref()
            .map_or((request.cmd_sn, request.cmd_sn), |e| {
                (e.exp_cmd_sn, e.max_cmd_sn)
            })
    }
}

/// Stage to which a response leads.
enum Step {
    Stay,
    Operational,
    FullFeature(Box<LoginResult>),
}

/// Encodes a header and its text as one PDU.
fn encode(header: &LoginResponse, text: &[u8]) -> Vec<u8> {
    let mut bhs = [0; BHS_LENGTH];
    header.encode(&mut bhs);
    let mut pdu = Vec::with_capacity(BHS_LENGTH + padded(text.len()));
    pdu.extend_from_slice(&bhs);
    pdu.extend_from_slice(text);
    pdu.resize(BHS_LENGTH + padded(text.len()), 0);
    pdu
}

fn not_a_login(error: PduError) -> Refusal {
    Refusal::new(
        LoginStatus::INVALID_DURING_LOGIN,
        format_args!("not a login request: {error}"),
    )
}

/// Reports whether only a target may send the key, or only in the full-feature phase.
fn is_not_negotiable(key: &str) -> bool {
    matches!(
        key,
        "TargetAlias" | "TargetAddress" | "TargetPortalGroupTag" | "SendTargets"
    )
}

/// Checks a further connection (TSIH not 0): its session must exist and take one more connection.
fn session_to_join(
    identity: &LoginIdentity,
    policy: &mut dyn LoginPolicy,
) -> Result<ExistingSession, Refusal> {
    if identity.session_kind == SessionKind::Discovery {
        // RFC 7143 §4.3: a discovery session has one connection.
        let status = LoginStatus::CANNOT_INCLUDE_IN_SESSION;
        return Err(Refusal::new(
            status,
            "a discovery session can have only one connection",
        ));
    }
    let session = policy.existing_session(identity).ok_or_else(|| {
        Refusal::new(
            LoginStatus::SESSION_DOES_NOT_EXIST,
            "no session has this TSIH",
        )
    })?;
    if !session.has_cid && session.connections >= session.parameters.max_connections {
        return Err(Refusal::new(
            LoginStatus::TOO_MANY_CONNECTIONS,
            "the session already has MaxConnections connections",
        ));
    }
    Ok(session)
}

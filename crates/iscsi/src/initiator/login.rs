//! LOGIN at the initiator: from a fresh connection to the full-feature phase (RFC 7143 §6.3).
//!
//! [`Login::start`] makes the first request. [`Login::receive`] takes each response and makes the
//! next request, until the login is connected or refused.

use std::fmt;

use super::offer::{Offer, Reached};
use crate::chap::{self, ChapAlgorithm, ChapChallenge, ChapCredential, ChapError, Entropy};
use crate::negotiation::{
    ConnectionParameters, DEFAULT_MAX_RECV_DATA_SEGMENT_LENGTH, Key, Limits, Negotiation,
    NegotiationError, Scope, SessionParameters,
};
use crate::pdu::{
    BHS_LENGTH, Isid, LoginRequest, LoginResponse, LoginStage, LoginStatus, PduError, RawBhs,
    padded,
};
use crate::text_keys::{TextError, TextInput, TextOutput, TextPairs, parse_number};

/// Most text in bytes that is accepted from a target during one login.
const MAX_TEXT: usize = 64 << 10;
/// Most responses that are accepted during one login.
const MAX_RESPONSES: u32 = 64;

/// Algorithms of CHAP_A, in the order of the offer. IANA's 7 is SHA-256, but tgt and IET mean SHA-1
/// by it. They pick the first number that they know, and then refuse our answer. So 7 stands behind
/// the numbers that they know as well.
pub const OFFERED: [ChapAlgorithm; 4] = [
    ChapAlgorithm::Sha3_256,
    ChapAlgorithm::Sha1,
    ChapAlgorithm::Md5,
    ChapAlgorithm::Sha256,
];

/// Parties and parameters of a login.
#[derive(Clone, Debug)]
pub struct LoginSettings {
    /// InitiatorName.
    pub initiator_name: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// TargetName. `None` opens a discovery session.
    pub target_name: Option<String>,
    /// Initiator session identifier.
    pub isid: Isid,
    /// Session to join, or 0 to make a new one.
    pub tsih: u16,
    /// Connection identifier.
    pub cid: u16,
    /// CmdSN of the first command.
    pub cmd_sn: u32,
    /// CHAP name and secret of this initiator. `None` offers no authentication.
    pub credential: Option<ChapCredential>,
    /// Secret that the target must prove (mutual CHAP). It needs `credential`.
    pub target_credential: Option<ChapCredential>,
    /// CHAP_A to offer. A target picks the first algorithm that it knows.
    pub algorithms: Vec<ChapAlgorithm>,
    /// Operational parameters to offer.
    pub limits: Limits,
    /// Extent of the offer.
    pub offer: Offer,
}

impl LoginSettings {
    /// Makes the settings of a login without authentication, with defaults for the rest.
    pub fn new(initiator_name: impl Into<String>, target_name: Option<String>, isid: Isid) -> Self {
        Self {
            initiator_name: initiator_name.into(),
            initiator_alias: None,
            target_name,
            isid,
            tsih: 0,
            cid: 0,
            cmd_sn: 1,
            credential: None,
            target_credential: None,
            algorithms: OFFERED.to_vec(),
            limits: Limits {
                max_connections: 1,
                ..Limits::default()
            },
            offer: Offer::default(),
        }
    }
}

/// Next action of the caller after a response.
#[derive(Debug)]
pub enum LoginProgress {
    /// Send these bytes and wait for the next response.
    Send(Vec<u8>),
    /// The connection is in the full-feature phase.
    Connected(Box<LoggedIn>),
}

/// Login that succeeded, from which a [`Session`](super::Session) starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// Handle of the session.
    pub tsih: u16,
    /// Initiator session identifier.
    pub isid: Isid,
    /// Connection identifier.
    pub cid: u16,
    /// TargetPortalGroupTag.
    pub portal_group_tag: Option<u16>,
    /// TargetAlias.
    pub target_alias: Option<String>,
    /// Parameters of the session.
    pub session: SessionParameters,
    /// Parameters of the connection.
    pub connection: ConnectionParameters,
    /// CmdSN of the first command.
    pub cmd_sn: u32,
    /// Last CmdSN that the target takes.
    pub max_cmd_sn: u32,
    /// Next StatSN expected.
    pub exp_stat_sn: u32,
}

/// Reasons why a login failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginError {
    /// The target refused.
    Refused(LoginStatus),
    /// The target is at another address.
    Redirected {
        /// TargetAddress: `host:port`, perhaps with `,tag`.
        address: String,
        /// Whether the target moved for good.
        permanent: bool,
    },
    /// The target's authentication or ours failed.
    Chap(ChapError),
    /// The target did not authenticate itself although it must, or chose something that was not
    /// offered.
    Authentication(&'static str),
    /// Negotiation failed.
    Negotiation(NegotiationError),
    /// The target's text is malformed.
    Text(TextError),
    /// The target's PDU is malformed.
    Pdu(PduError),
    /// The target broke the protocol.
    Protocol(&'static str),
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => write!(f, "the target refused the login: {status}"),
            Self::Redirected { address, .. } => write!(f, "the target is at {address}"),
            Self::Chap(error) => write!(f, "authentication failed: {error}"),
            Self::Authentication(what) => write!(f, "authentication failed: {what}"),
            Self::Negotiation(error) => error.fmt(f),
            Self::Text(error) => error.fmt(f),
            Self::Pdu(error) => error.fmt(f),
            Self::Protocol(what) => write!(f, "the target broke the protocol: {what}"),
        }
    }
}

impl std::error::Error for LoginError {}

macro_rules! from_error {
    ($($error:ident => $variant:ident),*) => {$(
        impl From<$error> for LoginError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}
from_error!(ChapError => Chap, NegotiationError => Negotiation, TextError => Text, PduError => Pdu);

/// State of a login.
#[derive(Debug)]
enum LoginStep {
    /// AuthMethod was offered.
    OfferedMethod,
    /// CHAP_A was offered.
    OfferedAlgorithm,
    /// CHAP_R was sent. The challenge is for the target, if it must prove itself.
    Responded(Option<ChapChallenge>),
    /// Nothing is left to prove.
    Authenticated,
    /// Operational parameters were offered.
    Operational,
}

/// Keys of one response that are not negotiated.
#[derive(Default)]
struct Answers<'a> {
    /// Whether nothing is sent after these keys.
    are_last: bool,
    auth_method: Option<&'a str>,
    chap_a: Option<&'a str>,
    chap_i: Option<&'a str>,
    chap_c: Option<&'a str>,
    chap_n: Option<&'a str>,
    chap_r: Option<&'a str>,
    target_address: Option<&'a str>,
}

/// One login of an initiator.
#[derive(Debug)]
pub struct Login {
    settings: LoginSettings,
    state: LoginStep,
    negotiation: Negotiation,
    input: TextInput,
    responses: u32,
    tsih: u16,
    exp_stat_sn: u32,
    max_cmd_sn: u32,
    portal_group_tag: Option<u16>,
    target_alias: Option<String>,
}

impl Login {
    /// Begins a login, and returns the bytes to send first.
    pub fn start(settings: LoginSettings) -> (Self, Vec<u8>) {
        let scope = match (&settings.target_name, settings.tsih) {
            (None, _) => Scope::DiscoveryLogin,
            (Some(_), 0) => Scope::LeadingLogin,
            (Some(_), _) => Scope::FurtherLogin,
        };
        let authenticate = settings.credential.is_some();
        let mut login = Self {
            state: if authenticate || settings.offer.is_security_plain {
                LoginStep::OfferedMethod
            } else {
                LoginStep::Operational
            },
            negotiation: Negotiation::new(scope, settings.offer.limits(&settings.limits)),
            input: TextInput::new(MAX_TEXT),
            responses: 0,
            tsih: settings.tsih,
            exp_stat_sn: 0,
            max_cmd_sn: settings.cmd_sn.wrapping_sub(1),
            portal_group_tag: None,
            target_alias: None,
            settings,
        };
        let mut text = TextOutput::new();
        text.push("InitiatorName", &login.settings.initiator_name);
        if let Some(alias) = &login.settings.initiator_alias {
            text.push("InitiatorAlias", alias);
        }
        match &login.settings.target_name {
            Some(name) => {
                text.push("TargetName", name);
                text.push("SessionType", "Normal");
            }
            None => text.push("SessionType", "Discovery"),
        }
        if authenticate {
            let is_mutual = login.settings.target_credential.is_some();
            text.push("AuthMethod", login.settings.offer.methods(is_mutual));
        } else if matches!(login.state, LoginStep::OfferedMethod) {
            text.push("AuthMethod", "None");
        } else {
            login.negotiation.offer_all(&mut text);
        }
        let request = login.request(true, &mut text);
        (login, request)
    }

    /// Takes one response: its header, and its data segment without padding.
    ///
    /// # Errors
    /// The login has failed: close the connection.
    pub fn receive(
        &mut self,
        bhs: &RawBhs,
        data: &[u8],
        entropy: &mut dyn Entropy,
    ) -> Result<LoginProgress, LoginError> {
        let response = LoginResponse::parse(bhs)?;
        self.check_header(&response)?;
        self.input.push(data)?;
        if response.continues {
            return Ok(LoginProgress::Send(
                self.request(false, &mut TextOutput::new()),
            ));
        }
        let text = self.input.take();
        let mut out = TextOutput::new();
        let mut answers = Answers {
            are_last: response.transit && matches!(self.state, LoginStep::Operational),
            ..Answers::default()
        };
        for pair in TextPairs::new(&text) {
            let (key, value) = pair?;
            self.take_pair(key, value, &mut answers, &mut out)?;
        }
        if !response.status.is_success() {
            return Err(refusal(response.status, answers.target_address));
        }
        self.exp_stat_sn = response.stat_sn.wrapping_add(1);
        self.max_cmd_sn = response.max_cmd_sn;
        self.tsih = response.tsih;
        if matches!(self.state, LoginStep::Operational) {
            return self.operational(&response, &mut out);
        }
        self.security(&response, &answers, entropy, &mut out)
    }

    /// Returns the offer of another attempt, on a new connection, after this login failed.
    ///
    /// `error` is `None` if the target closed the connection. Returns `None` if another offer would
    /// change nothing.
    pub fn second_offer(&self, error: Option<&LoginError>) -> Option<Offer> {
        let reached = match self.state {
            LoginStep::OfferedMethod | LoginStep::OfferedAlgorithm => Reached::SecurityOffer,
            LoginStep::Responded(_) | LoginStep::Authenticated => Reached::Proof,
            LoginStep::Operational => Reached::Parameters,
        };
        let authenticates = self.settings.credential.is_some();
        self.settings.offer.after(reached, error, authenticates)
    }

    /// Returns the settings with which the login started.
    pub const fn settings(&self) -> &LoginSettings {
        &self.settings
    }

    fn stage(&self) -> LoginStage {
        match self.state {
            LoginStep::Operational => LoginStage::OperationalNegotiation,
            _ => LoginStage::SecurityNegotiation,
        }
    }

    fn check_header(&mut self, response: &LoginResponse) -> Result<(), LoginError> {
        self.responses += 1;
        if self.responses > MAX_RESPONSES {
            return Err(LoginError::Protocol("the target does not end the login"));
        }
        if !response.status.is_success() {
            return Ok(());
        }
        if response.version_active != 0 {
            return Err(LoginError::Protocol("it uses an unknown version of iSCSI"));
        }
        if response.csg != self.stage() as u8 {
            return Err(LoginError::Protocol("it answered for another login stage"));
        }
        if response.transit && (response.continues || response.nsg <= response.csg) {
            return Err(LoginError::Protocol("invalid transition"));
        }
        Ok(())
    }

    fn take_pair<'a>(
        &mut self,
        key: &str,
        value: &'a str,
        answers: &mut Answers<'a>,
        out: &mut TextOutput,
    ) -> Result<(), LoginError> {
        let slot = match key {
            "AuthMethod" => &mut answers.auth_method,
            "CHAP_A" => &mut answers.chap_a,
            "CHAP_I" => &mut answers.chap_i,
            "CHAP_C" => &mut answers.chap_c,
            "CHAP_N" => &mut answers.chap_n,
            "CHAP_R" => &mut answers.chap_r,
            "TargetAddress" => &mut answers.target_address,
            "TargetPortalGroupTag" => {
                self.portal_group_tag = parse_number(value).and_then(|tag| u16::try_from(tag).ok());
                return Ok(());
            }
            "TargetAlias" => {
                self.target_alias = Some(value.to_owned());
                return Ok(());
            }
            "TargetName" | "InitiatorName" | "InitiatorAlias" | "SessionType" => return Ok(()),
            // In a last response a target states its own wishes: keys of its own, or that it has no
            // markers (RFC 3720).
            _ if answers.are_last && Key::from_name(key).is_none_or(Key::is_obsolete) => {
                return Ok(());
            }
            _ => return Ok(self.negotiation.receive(key, value, out)?),
        };
        *slot = Some(value);
        Ok(())
    }

    /// Handles stage 0.
    fn security(
        &mut self,
        response: &LoginResponse,
        answers: &Answers<'_>,
        entropy: &mut dyn Entropy,
        out: &mut TextOutput,
    ) -> Result<LoginProgress, LoginError> {
        match &self.state {
            LoginStep::OfferedMethod => match answers.auth_method {
                Some("CHAP") if self.settings.credential.is_some() => {
                    let offer = self.settings.offer;
                    out.push("CHAP_A", offer.algorithms(&self.settings.algorithms));
                    self.state = LoginStep::OfferedAlgorithm;
                    if response.transit {
                        return Err(LoginError::Protocol(
                            "it chose CHAP and left the security stage at once",
                        ));
                    }
                    return Ok(LoginProgress::Send(self.request(false, out)));
                }
                // A target that names no method but goes on asks for no authentication.
                Some("None") if self.may_do_without() => self.state = LoginStep::Authenticated,
                None if self.may_do_without() && response.transit => {
                    self.state = LoginStep::Authenticated;
                }
                Some("CHAP") => {
                    return Err(LoginError::Authentication(
                        "the target demands CHAP, but no CHAP secret is configured for it",
                    ));
                }
                _ => return Err(LoginError::Authentication("no method in common")),
            },
            LoginStep::OfferedAlgorithm => {
                if response.transit {
                    return Err(LoginError::Protocol(
                        "it left the security stage before its end",
                    ));
                }
                self.respond_to_challenge(answers, entropy, out)?;
                return Ok(LoginProgress::Send(self.request(true, out)));
            }
            LoginStep::Responded(challenge) => {
                if let (Some(challenge), Some(expected)) =
                    (challenge, &self.settings.target_credential)
                {
                    let name = answers.chap_n.ok_or(LoginError::Authentication(
                        "the target did not prove its identity",
                    ))?;
                    let proof = answers.chap_r.ok_or(LoginError::Authentication(
                        "the target did not prove its identity",
                    ))?;
                    challenge.verify(expected, name, proof)?;
                }
                self.state = LoginStep::Authenticated;
            }
            LoginStep::Authenticated | LoginStep::Operational => {}
        }
        if !response.transit {
            return Ok(LoginProgress::Send(self.request(true, out)));
        }
        if response.nsg != LoginStage::OperationalNegotiation as u8 {
            return Err(LoginError::Protocol("it skipped a login stage"));
        }
        self.state = LoginStep::Operational;
        self.negotiation.offer_all(out);
        Ok(LoginProgress::Send(self.request(true, out)))
    }

    /// Reports whether the login offered to go on without a proof.
    const fn may_do_without(&self) -> bool {
        self.settings.target_credential.is_none()
            && (self.settings.credential.is_none() || !self.settings.offer.is_security_plain)
    }

    /// Answers CHAP_A, CHAP_I and CHAP_C: proves our secret, and asks for the target's.
    fn respond_to_challenge(
        &mut self,
        answers: &Answers<'_>,
        entropy: &mut dyn Entropy,
        out: &mut TextOutput,
    ) -> Result<(), LoginError> {
        let algorithm = answers
            .chap_a
            .and_then(ChapAlgorithm::select)
            .filter(|algorithm| self.settings.algorithms.contains(algorithm))
            .ok_or(ChapError::NoCommonAlgorithm)?;
        let identifier = answers.chap_i.ok_or(ChapError::BadKey("CHAP_I"))?;
        let challenge = answers.chap_c.ok_or(ChapError::BadKey("CHAP_C"))?;
        let Some(credential) = &self.settings.credential else {
            return Err(ChapError::NoSecretToProve.into());
        };
        let ours = self
            .settings
            .target_credential
            .as_ref()
            .map(|_| ChapChallenge::new(algorithm, entropy));
        let response = chap::answer(algorithm, identifier, challenge, credential, ours.as_ref())?;
        out.push("CHAP_N", &credential.name);
        out.push("CHAP_R", response);
        if let Some(ours) = &ours {
            out.push("CHAP_I", ours.identifier());
            out.push("CHAP_C", ours.challenge_text());
        }
        self.state = LoginStep::Responded(ours);
        Ok(())
    }

    /// Handles stage 1.
    fn operational(
        &mut self,
        response: &LoginResponse,
        out: &mut TextOutput,
    ) -> Result<LoginProgress, LoginError> {
        if !response.transit {
            return Ok(LoginProgress::Send(self.request(true, out)));
        }
        if !out.is_empty() {
            return Err(LoginError::Protocol(
                "it ended the login with an open question",
            ));
        }
        let (session, connection) = self.negotiation.finish()?;
        Ok(LoginProgress::Connected(Box::new(LoggedIn {
            tsih: self.tsih,
            isid: self.settings.isid,
            cid: self.settings.cid,
            portal_group_tag: self.portal_group_tag,
            target_alias: self.target_alias.take(),
            session,
            connection,
            cmd_sn: self.settings.cmd_sn,
            max_cmd_sn: self.max_cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        })))
    }

    /// Builds the next request. With `transit` it asks for the next stage.
    fn request(&self, transit: bool, text: &mut TextOutput) -> Vec<u8> {
        let stage = self.stage();
        let next = if stage == LoginStage::SecurityNegotiation {
            LoginStage::OperationalNegotiation
        } else {
            LoginStage::FullFeature
        };
        // Names and offers stay far below the 8192 bytes that a target takes during login.
        let data = text.next_segment(DEFAULT_MAX_RECV_DATA_SEGMENT_LENGTH as usize);
        let header = LoginRequest {
            immediate: true,
            transit,
            continues: false,
            csg: stage as u8,
            nsg: if transit { next as u8 } else { 0 },
            version_max: 0,
            version_min: 0,
            total_ahs_length: 0,
            data_segment_length: data.len() as u32,
            isid: self.settings.isid,
            tsih: self.settings.tsih,
            itt: 0,
            cid: self.settings.cid,
            cmd_sn: self.settings.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        let mut bhs = [0; BHS_LENGTH];
        header.encode(&mut bhs);
        let mut pdu = bhs.to_vec();
        pdu.extend_from_slice(data);
        pdu.resize(BHS_LENGTH + padded(data.len()), 0);
        pdu
    }
}

fn refusal(status: LoginStatus, address: Option<&str>) -> LoginError {
    match address {
        Some(address) if status.is_redirect() => {
            let permanent = status == LoginStatus::TARGET_MOVED_PERMANENTLY;
            LoginError::Redirected {
                address: address.to_owned(),
                permanent,
            }
        }
        _ => LoginError::Refused(status),
    }
}

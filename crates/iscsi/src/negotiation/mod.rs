//! Negotiation of operational parameters, equal for both sides (RFC 7143 §6.2, §13).
//!
//! A [`Negotiation`] starts from the defaults of the RFC. One side offers. The other answers with
//! the result of the key's function (OR, AND, minimum, maximum, first common value of a list), and
//! both apply that result. Security keys and names are not negotiated and do not come here.

mod key;
#[cfg(test)]
mod tests;

use std::fmt;

pub use key::{Key, KeySet};

use crate::text_keys::{
    IRRELEVANT, NOT_UNDERSTOOD, REJECT, TextOutput, boolean, parse_boolean, parse_list,
    parse_number,
};
use key::Function;

/// MaxRecvDataSegmentLength in bytes during login, and until a side declares another.
pub const DEFAULT_MAX_RECV_DATA_SEGMENT_LENGTH: u32 = 8192;

/// Parameters of a session, as agreed (RFC 7143 §13, keys of session-wide scope).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionParameters {
    /// MaxConnections.
    pub max_connections: u16,
    /// InitialR2T: no unsolicited Data-Out.
    pub initial_r2t: bool,
    /// ImmediateData: commands may carry data.
    pub immediate_data: bool,
    /// MaxBurstLength in bytes, of one Data-In sequence or one R2T.
    pub max_burst_length: u32,
    /// FirstBurstLength in bytes: unsolicited data of one command, immediate data included. It is
    /// never above `max_burst_length`.
    pub first_burst_length: u32,
    /// DefaultTime2Wait in seconds.
    pub default_time2wait_s: u16,
    /// DefaultTime2Retain in seconds.
    pub default_time2retain_s: u16,
    /// MaxOutstandingR2T per task.
    pub max_outstanding_r2t: u16,
    /// DataPDUInOrder.
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder.
    pub data_sequence_in_order: bool,
    /// ErrorRecoveryLevel.
    pub error_recovery_level: u8,
    /// iSCSIProtocolLevel (RFC 7144). 1 is RFC 7143, 2 adds RFC 7144's task management functions.
    pub protocol_level: u8,
}

impl Default for SessionParameters {
    /// Returns the defaults of RFC 7143 §13.
    fn default() -> Self {
        Self {
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_burst_length: 262_144,
            first_burst_length: 65_536,
            default_time2wait_s: 2,
            default_time2retain_s: 20,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            protocol_level: 1,
        }
    }
}

/// Parameters of a connection, as agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// HeaderDigest=CRC32C.
    pub header_digest: bool,
    /// DataDigest=CRC32C.
    pub data_digest: bool,
    /// Longest data segment that this side takes, as it declared it, in bytes.
    pub our_max_recv_data_segment_length: u32,
    /// Longest data segment that the peer takes, as it declared it, in bytes.
    pub peer_max_recv_data_segment_length: u32,
}

impl Default for ConnectionParameters {
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            our_max_recv_data_segment_length: DEFAULT_MAX_RECV_DATA_SEGMENT_LENGTH,
            peer_max_recv_data_segment_length: DEFAULT_MAX_RECV_DATA_SEGMENT_LENGTH,
        }
    }
}

/// Wish of one side for a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestPolicy {
    /// None is the only value.
    Forbid,
    /// None if the peer agrees. An answering side takes the first value that the peer names.
    #[default]
    Allow,
    /// CRC32C if the peer can.
    Prefer,
    /// CRC32C is the only value.
    Require,
}

impl DigestPolicy {
    /// Returns the value list of an offer.
    const fn offer(self) -> &'static str {
        match self {
            Self::Forbid => "None",
            Self::Allow => "None,CRC32C",
            Self::Prefer => "CRC32C,None",
            Self::Require => "CRC32C",
        }
    }

    /// Chooses from an offer: `Some(true)` is CRC32C, `None` is no common value.
    fn choose(self, offer: &str) -> Option<bool> {
        let has = |digest| parse_list(offer).any(|item| item == digest);
        match self {
            Self::Forbid => has("None").then_some(false),
            Self::Require => has("CRC32C").then_some(true),
            Self::Prefer if has("CRC32C") => Some(true),
            Self::Prefer | Self::Allow => parse_list(offer).find_map(|item| match item {
                "CRC32C" => Some(true),
                "None" => Some(false),
                _ => None,
            }),
        }
    }
}

/// Largest offer of one side. On a target these are the limits within which it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// MaxConnections.
    pub max_connections: u16,
    /// Whether to insist on InitialR2T=Yes.
    pub initial_r2t: bool,
    /// Whether to allow ImmediateData.
    pub immediate_data: bool,
    /// MaxBurstLength in bytes.
    pub max_burst_length: u32,
    /// FirstBurstLength in bytes.
    pub first_burst_length: u32,
    /// Smallest DefaultTime2Wait in seconds.
    pub default_time2wait_s: u16,
    /// Largest DefaultTime2Retain in seconds.
    pub default_time2retain_s: u16,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u16,
    /// iSCSIProtocolLevel.
    pub protocol_level: u8,
    /// HeaderDigest.
    pub header_digest: DigestPolicy,
    /// DataDigest.
    pub data_digest: DigestPolicy,
    /// MaxRecvDataSegmentLength to declare, in bytes.
    pub max_recv_data_segment_length: u32,
}

/// Limits of a target.
pub type TargetLimits = Limits;

impl Default for Limits {
    /// Returns generous limits, which make 4 KiB writes and large transfers cheap.
    fn default() -> Self {
        Self {
            max_connections: 4,
            initial_r2t: false,
            immediate_data: true,
            max_burst_length: 1_048_576,
            first_burst_length: 262_144,
            default_time2wait_s: 2,
            default_time2retain_s: 0,
            max_outstanding_r2t: 8,
            protocol_level: 1,
            header_digest: DigestPolicy::Allow,
            data_digest: DigestPolicy::Allow,
            max_recv_data_segment_length: 262_144,
        }
    }
}

/// Phase of the negotiation, which decides the keys that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// First connection of a normal session.
    LeadingLogin,
    /// Further connection of a normal session, for which session-wide keys are settled.
    FurtherLogin,
    /// Login of a discovery session.
    DiscoveryLogin,
    /// Text requests after login: only MaxRecvDataSegmentLength is left to declare.
    FullFeature,
}

/// Reasons why a negotiation failed. A target answers with "initiator error".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegotiationError {
    /// The key came twice.
    Repeated(Key),
    /// A value is not allowed by the RFC.
    InvalidValue(Key),
    /// Insistence of this side on a value to which the peer does not agree.
    NotAgreed(Key),
    /// The peer sent more unknown keys than any known implementation sends.
    TooManyUnknownKeys,
}

impl fmt::Display for NegotiationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated(key) => write!(f, "{} was negotiated twice", key.name()),
            Self::InvalidValue(key) => write!(f, "invalid value of {}", key.name()),
            Self::NotAgreed(key) => write!(f, "no agreement on {}", key.name()),
            Self::TooManyUnknownKeys => f.write_str("too many unknown keys"),
        }
    }
}

impl std::error::Error for NegotiationError {}

/// Number of unknown keys that are answered before the peer is taken for an attacker.
const MAX_UNKNOWN_KEYS: u8 = 32;

/// State of one negotiation.
#[derive(Clone, Debug)]
pub struct Negotiation {
    scope: Scope,
    limits: Limits,
    session: SessionParameters,
    connection: ConnectionParameters,
    /// Keys that the peer has sent.
    received: KeySet,
    /// Keys that this side has sent.
    sent: KeySet,
    /// Keys that this side has offered and the peer has not answered.
    unanswered: KeySet,
    unknown_keys: u8,
}

impl Negotiation {
    /// Starts a negotiation from the defaults.
    pub fn new(scope: Scope, limits: Limits) -> Self {
        Self {
            scope,
            limits,
            session: SessionParameters::default(),
            connection: ConnectionParameters::default(),
            received: KeySet::default(),
            sent: KeySet::default(),
            unanswered: KeySet::default(),
            unknown_keys: 0,
        }
    }

    /// Offers every key that matters in this scope, as an initiator does first.
    pub fn offer_all(&mut self, out: &mut TextOutput) {
        for key in Key::ALL {
            if key.is_obsolete() || !self.is_relevant(key) {
                continue;
            }
            // A level above the default is offered only on purpose, because some targets fail on
            // the key.
            if key == Key::ProtocolLevel && self.limits.protocol_level <= 1 {
                continue;
            }
            if key != Key::TaskReporting {
                self.offer(key, out);
            }
        }
    }

    /// Offers the keys that a target must state by itself. They are its MaxRecvDataSegmentLength,
    /// and each limit that is stricter here than the default, because the default applies if the
    /// initiator has not asked.
    pub fn offer_what_is_missing(&mut self, out: &mut TextOutput) {
        let (limits, defaults) = (&self.limits, SessionParameters::default());
        let stricter = [
            (Key::MaxRecvDataSegmentLength, true),
            (
                Key::HeaderDigest,
                limits.header_digest == DigestPolicy::Require,
            ),
            (Key::DataDigest, limits.data_digest == DigestPolicy::Require),
            (Key::ImmediateData, !limits.immediate_data),
            (
                Key::MaxBurstLength,
                limits.max_burst_length < defaults.max_burst_length,
            ),
            (
                Key::FirstBurstLength,
                limits.first_burst_length < defaults.first_burst_length,
            ),
        ];
        for (key, wanted) in stricter {
            let settled =
                self.sent.contains(key) || (self.received.contains(key) && !key.is_declarative());
            if wanted && !settled && self.is_relevant(key) {
                self.offer(key, out);
            }
        }
    }

    /// Reports whether offers of this side wait for an answer.
    pub fn is_waiting(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Takes one pair from the peer. An answer that is due goes to `out`.
    ///
    /// # Errors
    /// A protocol error or a negotiation failure in the sense of the RFC.
    pub fn receive(
        &mut self,
        name: &str,
        value: &str,
        out: &mut TextOutput,
    ) -> Result<(), NegotiationError> {
        let Some(key) = Key::from_name(name) else {
            return self.answer_unknown(name, value, out);
        };
        if self.received.contains(key) {
            // MaxRecvDataSegmentLength may be declared anew in the full-feature phase, once per
            // exchange.
            return Err(NegotiationError::Repeated(key));
        }
        self.received.insert(key);
        if self.unanswered.remove(key) {
            return self.take_answer(key, value);
        }
        if matches!(value, NOT_UNDERSTOOD | IRRELEVANT | REJECT) {
            // This answers a declaration, or no question at all, and is never answered in turn.
            return Ok(());
        }
        if key.is_declarative() {
            return self.take_declaration(value);
        }
        self.sent.insert(key);
        if key.is_obsolete() {
            let no = matches!(key, Key::IFMarker | Key::OFMarker);
            out.push(key.name(), if no { "No" } else { REJECT });
        } else if !self.is_relevant(key) {
            out.push(key.name(), IRRELEVANT);
        } else if !self.apply(key, value) {
            out.push(key.name(), REJECT);
        } else {
            self.push_agreed(key, out);
        }
        Ok(())
    }

    /// Ends the negotiation.
    ///
    /// # Errors
    /// The peer did not agree to a required digest.
    pub fn finish(&self) -> Result<(SessionParameters, ConnectionParameters), NegotiationError> {
        if self.limits.header_digest == DigestPolicy::Require && !self.connection.header_digest {
            return Err(NegotiationError::NotAgreed(Key::HeaderDigest));
        }
        if self.limits.data_digest == DigestPolicy::Require && !self.connection.data_digest {
            return Err(NegotiationError::NotAgreed(Key::DataDigest));
        }
        let mut session = self.session.clone();
        // RFC 7143 §13.14: FirstBurstLength must not exceed MaxBurstLength.
        session.first_burst_length = session.first_burst_length.min(session.max_burst_length);
        Ok((session, self.connection.clone()))
    }

    fn is_relevant(&self, key: Key) -> bool {
        match self.scope {
            Scope::LeadingLogin => true,
            Scope::FurtherLogin => key.is_connection_wide(),
            Scope::DiscoveryLogin => key.is_relevant_in_discovery(),
            Scope::FullFeature => key.is_declarative(),
        }
    }

    fn answer_unknown(
        &mut self,
        name: &str,
        value: &str,
        out: &mut TextOutput,
    ) -> Result<(), NegotiationError> {
        if matches!(value, NOT_UNDERSTOOD | IRRELEVANT | REJECT) {
            return Ok(());
        }
        self.unknown_keys += 1;
        if self.unknown_keys > MAX_UNKNOWN_KEYS {
            return Err(NegotiationError::TooManyUnknownKeys);
        }
        out.push(name, NOT_UNDERSTOOD);
        Ok(())
    }

    fn take_declaration(&mut self, value: &str) -> Result<(), NegotiationError> {
        let key = Key::MaxRecvDataSegmentLength;
        let length = number(key, value).ok_or(NegotiationError::InvalidValue(key))?;
        self.connection.peer_max_recv_data_segment_length = length;
        Ok(())
    }

    fn take_answer(&mut self, key: Key, value: &str) -> Result<(), NegotiationError> {
        match value {
            // The default stays in force. A required digest is checked at the end.
            NOT_UNDERSTOOD | IRRELEVANT | REJECT => Ok(()),
            // The function is applied again, so a peer that answers beyond our offer gains nothing.
            _ if self.apply(key, value) => Ok(()),
            _ if key.function() == Function::List => Err(NegotiationError::NotAgreed(key)),
            _ => Err(NegotiationError::InvalidValue(key)),
        }
    }

    fn offer(&mut self, key: Key, out: &mut TextOutput) {
        let limits = &self.limits;
        let name = key.name();
        match key {
            Key::HeaderDigest => out.push(name, limits.header_digest.offer()),
            Key::DataDigest => out.push(name, limits.data_digest.offer()),
            Key::MaxRecvDataSegmentLength => {
                self.connection.our_max_recv_data_segment_length =
                    limits.max_recv_data_segment_length;
                out.push(name, limits.max_recv_data_segment_length);
            }
            Key::InitialR2T => out.push(name, boolean(limits.initial_r2t)),
            Key::ImmediateData => out.push(name, boolean(limits.immediate_data)),
            Key::DataPduInOrder | Key::DataSequenceInOrder => out.push(name, boolean(true)),
            Key::TaskReporting => out.push(name, "RFC3720"),
            Key::IFMarker | Key::OFMarker | Key::IFMarkInt | Key::OFMarkInt => return,
            _ => out.push(name, self.limit(key)),
        }
        self.sent.insert(key);
        if !key.is_declarative() {
            self.unanswered.insert(key);
        }
    }

    /// Returns our side's number for a key whose function is minimum or maximum.
    fn limit(&self, key: Key) -> u32 {
        let limits = &self.limits;
        match key {
            Key::MaxConnections => limits.max_connections.into(),
            Key::MaxBurstLength => limits.max_burst_length,
            // RFC 7143 §13.14 again: never offer a value that we would not allow.
            Key::FirstBurstLength => limits.first_burst_length.min(limits.max_burst_length),
            Key::DefaultTime2Wait => limits.default_time2wait_s.into(),
            Key::DefaultTime2Retain => limits.default_time2retain_s.into(),
            Key::MaxOutstandingR2T => limits.max_outstanding_r2t.into(),
            Key::ProtocolLevel => limits.protocol_level.into(),
            // Only ErrorRecoveryLevel 0 is supported, so only 0 is offered.
            _ => 0,
        }
    }

    /// Applies the key's function to the peer's value and our limit. Returns `false` if the value
    /// is not acceptable.
    fn apply(&mut self, key: Key, value: &str) -> bool {
        match key.function() {
            Function::Minimum => match number(key, value) {
                Some(theirs) => self.agree_number(key, theirs.min(self.limit(key))),
                None => return false,
            },
            Function::Maximum => match number(key, value) {
                Some(theirs) => self.agree_number(key, theirs.max(self.limit(key))),
                None => return false,
            },
            Function::Or | Function::And => match parse_boolean(value) {
                Some(theirs) => self.agree_boolean(key, theirs),
                None => return false,
            },
            Function::List => return self.agree_list(key, value),
            Function::Declared | Function::Obsolete => return false,
        }
        true
    }

    fn agree_number(&mut self, key: Key, value: u32) {
        let session = &mut self.session;
        // Ranges are checked by `number`, and every limit lies in the key's range too.
        match key {
            Key::MaxConnections => session.max_connections = value as u16,
            Key::MaxBurstLength => session.max_burst_length = value,
            Key::FirstBurstLength => session.first_burst_length = value,
            Key::DefaultTime2Wait => session.default_time2wait_s = value as u16,
            Key::DefaultTime2Retain => session.default_time2retain_s = value as u16,
            Key::MaxOutstandingR2T => session.max_outstanding_r2t = value as u16,
            Key::ErrorRecoveryLevel => session.error_recovery_level = value as u8,
            _ => session.protocol_level = value as u8,
        }
    }

    fn agree_boolean(&mut self, key: Key, theirs: bool) {
        match key {
            Key::InitialR2T => self.session.initial_r2t = theirs || self.limits.initial_r2t,
            Key::ImmediateData => {
                self.session.immediate_data = theirs && self.limits.immediate_data
            }
            // The function is OR with our Yes: data always comes in order.
            Key::DataPduInOrder => self.session.data_pdu_in_order = true,
            _ => self.session.data_sequence_in_order = true,
        }
    }

    fn agree_list(&mut self, key: Key, value: &str) -> bool {
        let choice = match key {
            Key::HeaderDigest => self.limits.header_digest.choose(value),
            Key::DataDigest => self.limits.data_digest.choose(value),
            _ => parse_list(value)
                .any(|item| item == "RFC3720")
                .then_some(false),
        };
        match (key, choice) {
            (_, None) => return false,
            (Key::HeaderDigest, Some(crc)) => self.connection.header_digest = crc,
            (Key::DataDigest, Some(crc)) => self.connection.data_digest = crc,
            _ => {}
        }
        true
    }

    /// Answers with the agreed value.
    fn push_agreed(&self, key: Key, out: &mut TextOutput) {
        let (name, session) = (key.name(), &self.session);
        let digest = |crc| if crc { "CRC32C" } else { "None" };
        match key {
            Key::HeaderDigest => out.push(name, digest(self.connection.header_digest)),
            Key::DataDigest => out.push(name, digest(self.connection.data_digest)),
            Key::TaskReporting => out.push(name, "RFC3720"),
            Key::InitialR2T => out.push(name, boolean(session.initial_r2t)),
            Key::ImmediateData => out.push(name, boolean(session.immediate_data)),
            Key::DataPduInOrder => out.push(name, boolean(session.data_pdu_in_order)),
            Key::DataSequenceInOrder => out.push(name, boolean(session.data_sequence_in_order)),
            Key::MaxConnections => out.push(name, session.max_connections),
            Key::MaxBurstLength => out.push(name, session.max_burst_length),
            Key::FirstBurstLength => out.push(name, session.first_burst_length),
            Key::DefaultTime2Wait => out.push(name, session.default_time2wait_s),
            Key::DefaultTime2Retain => out.push(name, session.default_time2retain_s),
            Key::MaxOutstandingR2T => out.push(name, session.max_outstanding_r2t),
            Key::ErrorRecoveryLevel => out.push(name, session.error_recovery_level),
            Key::ProtocolLevel => out.push(name, session.protocol_level),
            // These keys are never negotiated: `receive` does not come here with them.
            Key::MaxRecvDataSegmentLength
            | Key::IFMarker
            | Key::OFMarker
            | Key::IFMarkInt
            | Key::OFMarkInt => {}
        }
    }

    /// Returns the MaxRecvDataSegmentLength that the peer declared in this negotiation.
    pub fn declared_by_peer(&self) -> Option<u32> {
        let declared = self.received.contains(Key::MaxRecvDataSegmentLength);
        declared.then_some(self.connection.peer_max_recv_data_segment_length)
    }
}

/// Reads a number within the key's range.
fn number(key: Key, value: &str) -> Option<u32> {
    let number = u32::try_from(parse_number(value)?).ok()?;
    key.range().contains(&number).then_some(number)
}

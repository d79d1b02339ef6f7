//! What a login needs to know from the program around it: who may log in to what, and which sessions
//! exist. The login itself decides nothing of that.

use crate::chap::ChapCredential;
use crate::negotiation::{ConnectionParameters, SessionParameters, TargetLimits};
use crate::pdu::{Isid, LoginStatus};

/// SessionType (RFC 7143 §13.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionKind {
    /// SCSI commands.
    Normal,
    /// SendTargets only.
    Discovery,
}

/// Who wants to log in, to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginIdentity {
    /// InitiatorName, as sent. Names compare without regard to case (RFC 3722).
    pub initiator_name: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// SessionType.
    pub session_kind: SessionKind,
    /// TargetName, as sent; always there in a normal session.
    pub target_name: Option<String>,
    /// Initiator session identifier.
    pub isid: Isid,
    /// TSIH of the session to join; 0 for a new session.
    pub tsih: u16,
    /// Connection identifier.
    pub cid: u16,
}

/// The answers that a login asks for. Implemented once per connection, so the portal that the
/// connection came in by is the implementor's knowledge.
pub trait LoginPolicy {
    /// May this initiator log in to this target (or open a discovery session) through this portal, and
    /// on which terms? Asked once, with the first request.
    fn authorize(&mut self, identity: &LoginIdentity) -> Authorization;

    /// The session named by initiator, ISID, target and TSIH; asked if `identity.tsih` is not 0. `None`
    /// refuses with "session does not exist".
    fn existing_session(&mut self, identity: &LoginIdentity) -> Option<ExistingSession>;

    /// The login has succeeded: take it in and return its TSIH, just before the last response is sent.
    ///
    /// If `login.identity.tsih` is 0 this makes a session; one with the same initiator, ISID and target
    /// portal group is reinstated, which means ended first (RFC 7143 §6.3.5). Otherwise the connection
    /// joins the session; a connection of the same CID is ended first (§6.3.4).
    ///
    /// # Errors
    /// The status to refuse with, for example [`LoginStatus::OUT_OF_RESOURCES`].
    fn admit(&mut self, login: &LoginResult) -> Result<u16, LoginStatus>;
}

/// May they log in?
#[derive(Clone, Debug)]
pub enum Authorization {
    /// Yes, on these terms.
    Allowed(LoginTerms),
    /// Elsewhere.
    Redirect {
        /// TargetAddress: `host:port`; IPv6 addresses in brackets. A `,tag` behind it is not told.
        address: String,
        /// Remember it for ever (0x0102) or not (0x0101).
        permanent: bool,
    },
    /// No: not found, forbidden, removed, unavailable, out of resources.
    Refused {
        /// What the initiator is told.
        status: LoginStatus,
        /// Why, in words for the administrator.
        reason: String,
    },
}

/// On which terms they may log in.
#[derive(Clone, Debug)]
pub struct LoginTerms {
    /// What they must prove.
    pub authentication: Authentication,
    /// Within which parameters are negotiated.
    pub limits: TargetLimits,
    /// TargetPortalGroupTag of the portal.
    pub portal_group_tag: u16,
    /// TargetAlias; empty for none.
    pub target_alias: String,
    /// Commands that a new session may have outstanding; at least 1.
    pub command_window: u32,
}

/// What an initiator must prove.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// Nothing.
    None,
    /// That it knows a secret.
    Chap {
        /// The initiator's name and secret.
        initiator: ChapCredential,
        /// Our name and secret, if the initiator wants us to prove something too (mutual CHAP).
        target: Option<ChapCredential>,
    },
}

/// The session that a further connection wants to join.
#[derive(Clone, Debug)]
pub struct ExistingSession {
    /// Its parameters.
    pub parameters: SessionParameters,
    /// Its connections.
    pub connections: u16,
    /// One of them has the CID of the login: it will be replaced.
    pub has_cid: bool,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
}

/// A login that succeeded: everything the full-feature phase starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginResult {
    /// Who logged in, to what. `tsih` is 0 for a new session, also after it has been admitted.
    pub identity: LoginIdentity,
    /// The session's handle; 0 until [`LoginPolicy::admit`] has given it.
    pub tsih: u16,
    /// TargetPortalGroupTag.
    pub portal_group_tag: u16,
    /// CHAP_N of the initiator, if it had to prove itself.
    pub authenticated_as: Option<String>,
    /// Parameters of the session (of the existing one, if it was joined).
    pub session: SessionParameters,
    /// Parameters of this connection.
    pub connection: ConnectionParameters,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted, as told in the last response.
    pub max_cmd_sn: u32,
    /// StatSN of the next response on this connection.
    pub stat_sn: u32,
    /// ExpStatSN of the last login request.
    pub exp_stat_sn: u32,
}

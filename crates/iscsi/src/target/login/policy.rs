//! Knowledge of the surrounding program that a login needs: the initiators that may log in to a
//! target, and the sessions that exist. The login itself decides nothing of that.

use crate::chap::ChapCredential;
use crate::negotiation::{ConnectionParameters, SessionParameters, TargetLimits};
use crate::pdu::{Isid, LoginStatus};

/// SessionType (RFC 7143 §13.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionKind {
    /// Session for SCSI commands.
    Normal,
    /// Session for SendTargets only.
    Discovery,
}

/// Initiator that wants to log in, and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginIdentity {
    /// InitiatorName, as sent. Names compare without regard to case (RFC 3722).
    pub initiator_name: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// SessionType.
    pub session_kind: SessionKind,
    /// TargetName, as sent. A normal session always has one.
    pub target_name: Option<String>,
    /// Initiator session identifier.
    pub isid: Isid,
    /// TSIH of the session to join, or 0 for a new session.
    pub tsih: u16,
    /// Connection identifier.
    pub cid: u16,
}

/// Answers that a login asks for. It is implemented once per connection, so the implementor knows
/// the portal of the connection.
pub trait LoginPolicy {
    /// Decides whether this initiator may log in to this target (or open a discovery session)
    /// through this portal, and on which terms. Called once, with the first request.
    fn authorize(&mut self, identity: &LoginIdentity) -> Authorization;

    /// Returns the session named by initiator, ISID, target and TSIH. Called if `identity.tsih` is
    /// not 0. `None` refuses with "session does not exist".
    fn existing_session(&mut self, identity: &LoginIdentity) -> Option<ExistingSession>;

    /// Takes in a login that has succeeded, just before the last response is sent, and returns its
    /// TSIH.
    ///
    /// If `login.identity.tsih` is 0, this makes a session. A session with that initiator, ISID and
    /// target portal group is reinstated, which means ended first (RFC 7143 §6.3.5). Otherwise the
    /// connection joins the session. A connection of that CID is ended first (§6.3.4).
    ///
    /// # Errors
    /// The status to refuse with, for example [`LoginStatus::OUT_OF_RESOURCES`].
    fn admit(&mut self, login: &LoginResult) -> Result<u16, LoginStatus>;
}

/// Decision about a login.
#[derive(Clone, Debug)]
pub enum Authorization {
    /// The login is allowed on these terms.
    Allowed(LoginTerms),
    /// The initiator is sent to another address.
    Redirect {
        /// TargetAddress: `host:port`, with IPv6 addresses in brackets. A `,tag` behind it is not
        /// sent.
        address: String,
        /// Whether the initiator is to remember the address for ever (0x0102) or not (0x0101).
        permanent: bool,
    },
    /// The login is refused: not found, forbidden, removed, unavailable, out of resources.
    Refused {
        /// Status that the initiator is told.
        status: LoginStatus,
        /// Reason in words for the administrator.
        reason: String,
    },
}

/// Terms of a login.
#[derive(Clone, Debug)]
pub struct LoginTerms {
    /// Proof that the initiator must give.
    pub authentication: Authentication,
    /// Limits within which parameters are negotiated.
    pub limits: TargetLimits,
    /// TargetPortalGroupTag of the portal.
    pub portal_group_tag: u16,
    /// TargetAlias, empty for none.
    pub target_alias: String,
    /// Number of commands that a new session may have outstanding, at least 1.
    pub command_window: u32,
}

/// Proof that an initiator must give.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// No proof.
    None,
    /// Proof of a secret.
    Chap {
        /// Name and secret of the initiator.
        initiator: ChapCredential,
        /// Name and secret of the target, for an initiator that wants a proof too (mutual CHAP).
        target: Option<ChapCredential>,
    },
}

/// Session that a further connection wants to join.
#[derive(Clone, Debug)]
pub struct ExistingSession {
    /// Parameters of the session.
    pub parameters: SessionParameters,
    /// Number of connections of the session.
    pub connections: u16,
    /// Whether one of them has the CID of the login, and so will be replaced.
    pub has_cid: bool,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
}

/// Login that succeeded, with everything from which the full-feature phase starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginResult {
    /// Initiator that logged in, and its target. `tsih` is 0 for a new session, also after the
    /// session has been admitted.
    pub identity: LoginIdentity,
    /// Handle of the session, 0 until [`LoginPolicy::admit`] has given it.
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
    /// Last CmdSN accepted, as sent in the last response.
    pub max_cmd_sn: u32,
    /// StatSN of the next response on this connection.
    pub stat_sn: u32,
    /// ExpStatSN of the last login request.
    pub exp_stat_sn: u32,
}

//! Reasons why a login is refused: the part for the initiator, and the part only for the log.

use std::fmt;

use super::security_negotiation::SecurityError;
use crate::negotiation::NegotiationError;
use crate::pdu::LoginStatus;
use crate::text_keys::TextError;

/// Login that failed, in words for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRefusal {
    /// Status that was sent to the initiator.
    pub status: LoginStatus,
    /// Reason, which was not sent to the initiator.
    pub reason: String,
    /// InitiatorName, if the login came so far.
    pub initiator_name: Option<String>,
    /// TargetName, if the login came so far.
    pub target_name: Option<String>,
}

impl fmt::Display for LoginRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let initiator = self
            .initiator_name
            .as_deref()
            .unwrap_or("an unnamed initiator");
        let target = self.target_name.as_deref().unwrap_or("no target");
        write!(
            f,
            "login of {initiator} to {target} refused: {} ({})",
            self.reason, self.status
        )
    }
}

/// Status to refuse with, and the reason.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: LoginStatus,
    pub(super) reason: String,
    /// TargetAddress, if the initiator is sent to another address.
    pub(super) target_address: Option<String>,
}

impl Refusal {
    pub(super) fn new(status: LoginStatus, reason: impl fmt::Display) -> Self {
        Self {
            status,
            reason: reason.to_string(),
            target_address: None,
        }
    }

    /// Sends the initiator to an address. The portal group tag of the address is not sent: in a
    /// login response it must be omitted, with its comma (RFC 7143 §13.8).
    pub(super) fn redirect(mut address: String, permanent: bool) -> Self {
        address.truncate(address.find(',').unwrap_or(address.len()));
        let status = if permanent {
            LoginStatus::TARGET_MOVED_PERMANENTLY
        } else {
            LoginStatus::TARGET_MOVED_TEMPORARILY
        };
        Self {
            target_address: Some(address),
            ..Self::new(status, "the target is at another address")
        }
    }

    pub(super) fn initiator_error(reason: impl fmt::Display) -> Self {
        Self::new(LoginStatus::INITIATOR_ERROR, reason)
    }
}

impl From<TextError> for Refusal {
    fn from(error: TextError) -> Self {
        Self::initiator_error(error)
    }
}

impl From<NegotiationError> for Refusal {
    fn from(error: NegotiationError) -> Self {
        Self::initiator_error(error)
    }
}

impl From<SecurityError> for Refusal {
    fn from(error: SecurityError) -> Self {
        let status = LoginStatus::AUTHENTICATION_FAILURE;
        match error {
            SecurityError::NoCommonMethod => {
                Self::new(status, "no authentication method in common")
            }
            SecurityError::NotAuthenticated => Self::new(status, "authentication is required"),
            SecurityError::Chap(error) => Self::new(status, error),
        }
    }
}

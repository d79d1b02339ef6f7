//! Reasons why a claim rule or one of its options is refused.

use std::fmt;

/// Stable kind of a [`RuleError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleErrorKind {
    /// The request breaks a rule.
    Invalid,
    /// An equal rule exists already.
    Exists,
    /// The rule does not exist.
    NotFound,
    /// The rule belongs to the system and stays as it is.
    System,
}

/// Refusal in words for an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Stable kind.
    pub kind: RuleErrorKind,
    /// Description of the problem.
    pub message: String,
    /// Step to try next.
    pub next: String,
}

impl RuleError {
    /// Creates an error of `kind`. `message` says what was wrong, `next` what to try.
    pub fn new(kind: RuleErrorKind, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            next: next.into(),
        }
    }

    /// Creates an error for a request that breaks a rule.
    pub fn invalid(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(RuleErrorKind::Invalid, message, next)
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RuleError {}

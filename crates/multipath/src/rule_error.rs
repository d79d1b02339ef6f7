//! Why a claim rule or an option of it is refused.

use std::fmt;

/// The stable kind of a [`RuleError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleErrorKind {
    /// What was asked breaks a rule.
    Invalid,
    /// The same rule is there already.
    Exists,
    /// No such rule.
    NotFound,
    /// It belongs to the system and stays as it is.
    System,
}

/// A refusal in the words an administrator needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The stable kind.
    pub kind: RuleErrorKind,
    /// What was wrong.
    pub message: String,
    /// What to try next.
    pub next: String,
}

impl RuleError {
    /// An error of `kind`: `message` says what was wrong, `next` what to try.
    pub fn new(kind: RuleErrorKind, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            next: next.into(),
        }
    }

    /// A broken rule.
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

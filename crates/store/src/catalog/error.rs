//! Refusals: a stable kind, the problem, the state that was left alone, and the next step to try.

use std::fmt;

/// The stable kind of a [`CatalogError`]; callers may match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The name is in use already.
    Exists,
    /// A named object does not exist.
    NotFound,
    /// No dataset can have this name.
    InvalidName,
    /// A value breaks a rule.
    InvalidValue,
    /// Snapshots are in the way.
    HasSnapshots,
    /// Clones are in the way.
    HasClones,
    /// A hold keeps a snapshot.
    Held,
    /// A limit was reached.
    LimitReached,
    /// The folder still contains datasets.
    NotEmpty,
    /// The object cannot be changed.
    ReadOnly,
    /// The object is in use.
    Busy,
    /// Data that was read from a disk, or planned against an older state, does not fit.
    Mismatch,
}

impl ErrorKind {
    /// Returns the kind as one word, for scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::NotFound => "not-found",
            Self::InvalidName => "invalid-name",
            Self::InvalidValue => "invalid-value",
            Self::HasSnapshots => "has-snapshots",
            Self::HasClones => "has-clones",
            Self::Held => "held",
            Self::LimitReached => "limit-reached",
            Self::NotEmpty => "not-empty",
            Self::ReadOnly => "read-only",
            Self::Busy => "busy",
            Self::Mismatch => "mismatch",
        }
    }
}

/// Reason why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogError {
    /// Stable kind of the refusal.
    pub kind: ErrorKind,
    /// Problem, with names and values.
    pub message: String,
    /// Next step to try; empty if there is none to know.
    pub next: String,
}

impl CatalogError {
    /// State that every refusal of the catalogue leaves alone.
    pub const NOT_CHANGED: &'static str = "nothing was changed";

    /// Makes a refusal.
    pub fn new(kind: ErrorKind, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            next: next.into(),
        }
    }

    /// Makes the refusal of data that does not fit: it lies on a disk, or was planned before
    /// another change.
    pub(super) fn mismatch(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Mismatch, message, "")
    }
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, Self::NOT_CHANGED)?;
        if !self.next.is_empty() {
            write!(f, "; {}", self.next)?;
        }
        Ok(())
    }
}

impl std::error::Error for CatalogError {}

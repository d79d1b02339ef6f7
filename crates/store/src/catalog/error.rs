//! Refusals: a stable kind, what was wrong, what was left alone, and what to try next.

use std::fmt;

/// The stable kind of a [`CatalogError`]; callers may match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Something of that name exists already.
    Exists,
    /// Something named does not exist.
    NotFound,
    /// No dataset can be called that.
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
    /// A folder still contains something.
    NotEmpty,
    /// It cannot be changed.
    ReadOnly,
    /// It is in use.
    Busy,
    /// What was read from a disk, or planned against an older state, does not fit.
    Mismatch,
}

impl ErrorKind {
    /// The kind as one word, for scripts.
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

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogError {
    /// The stable kind.
    pub kind: ErrorKind,
    /// What was wrong, with names and values.
    pub problem: String,
    /// What to try next; empty where nobody can know.
    pub next: String,
}

impl CatalogError {
    /// What every refusal of the catalogue leaves alone.
    pub const UNCHANGED: &'static str = "nothing was changed";

    /// A refusal.
    pub fn new(kind: ErrorKind, problem: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            kind,
            problem: problem.into(),
            next: next.into(),
        }
    }

    /// What lies on a disk, or was planned before something else happened, does not fit.
    pub(super) fn mismatch(problem: impl Into<String>) -> Self {
        Self::new(ErrorKind::Mismatch, problem, "")
    }
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, Self::UNCHANGED)?;
        if !self.next.is_empty() {
            write!(f, "; {}", self.next)?;
        }
        Ok(())
    }
}

impl std::error::Error for CatalogError {}

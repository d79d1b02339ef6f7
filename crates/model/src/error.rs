//! Errors that users see, in four fields: a stable kind, the problem, the part that was left
//! unchanged, and the next step. The control API sends exactly these four fields.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use hint::Place;

/// Stable kind of an [`Error`]. Scripts may match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The request breaks a rule.
    Invalid,
    /// An object that the request names does not exist.
    NotFound,
    /// An object of the given name exists already.
    Exists,
    /// The named object is used by another object.
    InUse,
    /// The configuration changed since the caller read it.
    Stale,
    /// The state folder is used by another daemon.
    Locked,
    /// The stored configuration is damaged.
    Corrupt,
    /// A file could not be read or written.
    Storage,
    /// The data plane could not carry out the change.
    Refused,
    /// The daemon does not answer.
    Unavailable,
    /// The request does not say whose it is, or what it says is wrong.
    NotAuthenticated,
    /// The author of the request may not do this.
    NotPermitted,
    /// Attempts come too fast.
    TooMany,
}

impl ErrorKind {
    /// Returns the kind's name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not-found",
            Self::Exists => "exists",
            Self::InUse => "in-use",
            Self::Stale => "stale",
            Self::Locked => "locked",
            Self::Corrupt => "corrupt",
            Self::Storage => "storage",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::NotAuthenticated => "not-authenticated",
            Self::NotPermitted => "not-permitted",
            Self::TooMany => "too-many",
        }
    }
}

/// Default statement of an error about the part that was left unchanged.
pub const NOTHING_CHANGED: &str = "nothing was changed";

/// A refusal or failure, in the words that an administrator needs.
#[derive(Clone, Debug)]
pub struct Error {
    /// The stable kind.
    pub kind: ErrorKind,
    /// Description of the problem.
    pub message: String,
    /// Part that was left unchanged.
    pub not_changed: String,
    /// Step to try next.
    pub next: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Returns an error of `kind`. `message` describes the problem, and `next` the step to try.
    pub fn new(kind: ErrorKind, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            not_changed: NOTHING_CHANGED.into(),
            next: next.into(),
            source: None,
        }
    }

    /// Returns an error for a broken rule.
    pub fn invalid(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message, next)
    }

    /// Returns an error for a name that no object has.
    pub fn not_found(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message, next)
    }

    /// Returns an error for a name that is taken.
    pub fn exists(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exists, message, next)
    }

    /// Returns an error for a file of the state folder that could not be read or written. `doing`
    /// completes "could not …".
    pub fn storage(doing: impl fmt::Display, source: std::io::Error) -> Self {
        Self::system(Place::StateFolder, doing, source)
    }

    /// Returns an error of the kernel at `place`. `doing` completes "could not …".
    pub fn system(place: Place<'_>, doing: impl fmt::Display, source: std::io::Error) -> Self {
        let message = format!("could not {doing}: {source}");
        Self::new(ErrorKind::Storage, message, place.next(&source)).caused_by(source)
    }

    /// Replaces the statement about the part that was left unchanged by a more exact one.
    pub fn not_changed(mut self, what: impl Into<String>) -> Self {
        self.not_changed = what.into();
        self
    }

    /// Adds the cause to the error.
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.message == other.message
            && self.not_changed == other.not_changed
            && self.next == other.next
    }
}

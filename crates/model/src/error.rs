//! What went wrong with a configuration: a stable kind, what was wrong, what was not changed and
//! what to try next. The control API sends exactly these four fields.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use hint::Place;

/// The stable kind of an [`Error`]; scripts may match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// What was asked breaks a rule.
    Invalid,
    /// Something named does not exist.
    NotFound,
    /// Something of that name exists already.
    Exists,
    /// Something else depends on it.
    InUse,
    /// The configuration changed since the caller looked.
    Stale,
    /// Another daemon uses the state folder.
    Locked,
    /// The stored configuration is damaged.
    Corrupt,
    /// A file could not be read or written.
    Storage,
    /// The data plane could not carry the change out.
    Refused,
    /// The daemon does not answer.
    Unavailable,
}

impl ErrorKind {
    /// The kind as it stands in JSON.
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
        }
    }
}

/// What an error says was left alone unless it knows better.
pub const NOTHING_CHANGED: &str = "nothing was changed";

/// A refusal or failure, in the words an administrator needs.
#[derive(Clone, Debug)]
pub struct Error {
    /// The stable kind.
    pub kind: ErrorKind,
    /// What was wrong.
    pub message: String,
    /// What was not changed.
    pub not_changed: String,
    /// What to try next.
    pub next: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`: `message` says what was wrong, `next` what to try.
    pub fn new(kind: ErrorKind, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            not_changed: NOTHING_CHANGED.into(),
            next: next.into(),
            source: None,
        }
    }

    /// A broken rule.
    pub fn invalid(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message, next)
    }

    /// A name that nothing has.
    pub fn not_found(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message, next)
    }

    /// A name that is taken.
    pub fn exists(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exists, message, next)
    }

    /// A file of the state folder that could not be read or written; `doing` completes "could not
    /// …".
    pub fn storage(doing: impl fmt::Display, source: std::io::Error) -> Self {
        Self::system(Place::StateFolder, doing, source)
    }

    /// An error of the kernel at a place; `doing` completes "could not …".
    pub fn system(place: Place<'_>, doing: impl fmt::Display, source: std::io::Error) -> Self {
        let message = format!("could not {doing}: {source}");
        Self::new(ErrorKind::Storage, message, place.next(&source)).caused_by(source)
    }

    /// The same error with a more exact statement of what was left alone.
    pub fn not_changed(mut self, what: impl Into<String>) -> Self {
        self.not_changed = what.into();
        self
    }

    /// The same error with its cause.
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

//! Reasons why an experiment could not be made.

use std::fmt;
use std::io;

/// Reason why an experiment could not be made.
#[derive(Debug)]
pub enum LabError {
    /// Part that this machine lacks. The text names it, and how to get it.
    Missing(String),
    /// A command failed.
    Command {
        /// Command as a person would type it.
        command: String,
        /// Output of the command.
        said: String,
    },
    /// The system refuses. `doing` completes "could not …".
    System {
        /// Operation that was tried.
        doing: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A condition was not met without which the figures mean nothing.
    Invalid(String),
    /// The user ended it.
    Interrupted,
}

impl LabError {
    pub(super) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) | Self::Invalid(what) => f.write_str(what),
            Self::Command { command, said } => write!(f, "`{command}` failed: {said}"),
            Self::System { doing, source } => write!(f, "could not {doing}: {source}"),
            Self::Interrupted => f.write_str("ended by the user"),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

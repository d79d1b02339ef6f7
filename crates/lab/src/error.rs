//! Why an experiment could not be made.

use std::fmt;
use std::io;

/// Why an experiment could not be made.
#[derive(Debug)]
pub enum LabError {
    /// This machine lacks something; what, and how to get it.
    Missing(String),
    /// A command failed; what it was and what it said.
    Command {
        /// As a person would type it.
        command: String,
        /// What it said.
        said: String,
    },
    /// The system refuses; `doing` completes "could not …".
    System {
        /// What was tried.
        doing: String,
        /// What it said.
        source: io::Error,
    },
    /// Something was not as it has to be for the figures to mean something.
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

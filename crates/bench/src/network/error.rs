//! Errors between the two ends.

use std::fmt;
use std::io;

/// Reason why a path cannot be measured.
#[derive(Debug)]
pub enum NetworkError {
    /// A socket failed; `doing` completes "could not …".
    Socket {
        /// Operation that was tried.
        doing: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The other end is busy with another client.
    Busy,
    /// The other end refuses the test, with iperf3's number for the reason.
    Refused(i32),
    /// The other end ended the test.
    Ended,
    /// The other end does not speak iperf3's protocol. The text describes its message.
    Protocol(String),
    /// The user ended it.
    Interrupted,
}

impl NetworkError {
    /// Returns a function that wraps the error of a socket. `doing` completes "could not …".
    pub(super) fn socket(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Socket { doing, source }
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { doing, source } if is_timeout(source) => {
                write!(f, "could not {doing}: no answer in time")
            }
            Self::Socket { doing, source } => write!(f, "could not {doing}: {source}"),
            Self::Busy => f.write_str("the other end is busy with another client"),
            Self::Refused(number) => write!(
                f,
                "the other end refused the test (error {number} of iperf3)"
            ),
            Self::Ended => f.write_str("the other end ended the test"),
            Self::Protocol(what) => {
                write!(f, "the other end does not speak iperf3's protocol: {what}")
            }
            Self::Interrupted => f.write_str("ended by the user"),
        }
    }
}

impl std::error::Error for NetworkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Reports whether a call on a blocking socket ended because its time was over.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

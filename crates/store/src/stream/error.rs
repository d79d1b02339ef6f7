//! Reasons why a stream is not believed.

use std::fmt;

/// The stable kind of a [`StreamError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamErrorKind {
    /// The bytes are no stream.
    Foreign,
    /// The stream is of a later version.
    Version,
    /// The stream ends too early.
    Truncated,
    /// Bytes differ from those that were written, or their order does.
    Damaged,
    /// The writer of the stream broke a rule.
    Invalid,
    /// The sender says that it gave up, and why.
    Failed,
}

/// Fault of a stream, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// The stable kind of the fault.
    pub kind: StreamErrorKind,
    /// Bytes of the stream before the record that is not believed.
    pub offset: u64,
    /// Description of the fault.
    pub context: String,
}

impl StreamError {
    /// Makes an error of the record behind `offset` bytes.
    pub(super) fn new(kind: StreamErrorKind, offset: u64, context: impl Into<String>) -> Self {
        Self {
            kind,
            offset,
            context: context.into(),
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            StreamErrorKind::Failed => write!(f, "the sender failed: {}", self.context),
            _ => write!(f, "{} (at byte {})", self.context, self.offset),
        }
    }
}

impl std::error::Error for StreamError {}

//! Why a stream is not believed.

use std::fmt;

/// The stable kind of a [`StreamError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamErrorKind {
    /// It is no stream.
    Foreign,
    /// It is one of a later version.
    Version,
    /// It ends before its end.
    Truncated,
    /// Bytes are not what was written, or not in their order.
    Damaged,
    /// Whoever wrote it broke a rule.
    Invalid,
    /// The sender says that it gave up, and why.
    Failed,
}

/// What is wrong with a stream, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// The stable kind.
    pub kind: StreamErrorKind,
    /// Bytes of the stream before the record that is not believed.
    pub offset: u64,
    /// What is wrong.
    pub context: String,
}

impl StreamError {
    /// At the record behind so many bytes.
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
            StreamErrorKind::Failed => write!(f, "the sender gave up: {}", self.context),
            _ => write!(f, "{} (at byte {})", self.context, self.offset),
        }
    }
}

impl std::error::Error for StreamError {}

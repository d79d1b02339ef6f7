//! Reason why a pool cannot be opened.

use std::fmt;

/// Kind of an [`OpenError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpenErrorKind {
    /// No label of a pool was found.
    NoPool,
    /// The pool misses too many leaves.
    Missing,
    /// Data that the pool cannot do without is damaged.
    Damaged,
    /// The log is damaged: it lacks groups that were durable.
    LogDamaged,
    /// A log vdev is missing, and may hold the only copy of durable writes.
    LogMissing,
    /// The pool was written by another version of the program.
    Version,
    /// The pool was written by another version of the program; this version may only read it.
    ReadOnlyVersion,
    /// Leaves of the pool were written to without each other.
    Parted,
    /// A leaf holds an old copy, and no other leaf makes up for it.
    Old,
    /// The pool belongs to another host, or may do so.
    InUse,
    /// Devices share an identity: one is a copy of the other.
    Twins,
    /// The power failed while the pool was given a new identity (`open/reguid.rs`).
    Reguid,
}

/// Reason why a pool cannot be opened. The attempt changed nothing.
#[derive(Clone, Debug)]
pub struct OpenError {
    /// Kind of the error; it decides which step the administrator takes.
    pub kind: OpenErrorKind,
    /// Text that says what was wrong.
    pub context: String,
}

impl OpenError {
    /// Makes an error of this kind with this text.
    pub fn new(kind: OpenErrorKind, context: impl Into<String>) -> Self {
        let context = context.into();
        Self { kind, context }
    }

    /// Makes the error for a structure that a newer program wrote.
    pub(super) fn later(what: &str, version: u16) -> Self {
        let context = format!(
            "a newer version of the program wrote {what} of the pool, in format {version}; this program \
             knows formats up to {}. Nothing was changed; open the pool with the newer program",
            crate::format::NEWEST
        );
        Self::new(OpenErrorKind::Version, context)
    }

    pub(super) fn damaged(context: impl Into<String>) -> Self {
        Self::new(OpenErrorKind::Damaged, context)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for OpenError {}

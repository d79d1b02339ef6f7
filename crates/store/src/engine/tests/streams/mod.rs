//! Streams between pools.

pub(super) mod clones;
pub(super) mod whole;

//! Progress of a pool's background work, as its status and its events tell it.
//!
//! The words are functions of the engine's answers alone. So they lie below the thread that tells
//! events, while administrators' requests lie above it.

pub(crate) mod scan;
pub(crate) mod trim;

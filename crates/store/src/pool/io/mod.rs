//! The way of reads and writes: from a request to blocks, groups, and what makes them durable.

pub(super) mod commit;
pub(crate) mod fetch_ahead;
pub(super) mod padding;
pub(super) mod prepared;
pub(super) mod read;
pub(super) mod rest;
pub(super) mod second;
pub(super) mod signpost;
pub(super) mod unmerged;
pub(super) mod write;

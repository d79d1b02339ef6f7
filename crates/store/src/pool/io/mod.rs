//! The way of reads and writes: from a request to blocks, groups, and what makes them durable.

pub(super) mod checkpoint_at_rest;
pub(super) mod commit;
pub(crate) mod fetch_ahead;
pub(super) mod padding;
pub(super) mod prepared;
pub(super) mod publish;
pub(super) mod read;
pub(super) mod second_copy;
pub(super) mod signpost;
pub(super) mod unmerged;
pub(super) mod write;

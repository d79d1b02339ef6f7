//! The way of reads and writes: from a request to blocks, groups, and what makes them durable.

pub(super) mod block_reads;
pub(super) mod change;
pub(super) mod checkpoint_at_rest;
pub(super) mod commit;
pub(crate) mod fetch_ahead;
pub(super) mod log_end;
pub(super) mod log_start;
pub(super) mod mapping;
pub(super) mod padding;
pub(super) mod pending;
pub(super) mod placing;
pub(super) mod prepared;
pub(super) mod publish;
pub(super) mod read;
pub(super) mod rest;
pub(super) mod second_copy;
pub(super) mod second_place;
pub(super) mod signpost;
pub(super) mod signpost_places;
pub(super) mod stalled;
pub(super) mod unmerged;
pub(super) mod wanted;
pub(super) mod write;

//! Volumes, snapshots and folders of pools, and streams of them.

pub(super) mod dataset_names;
pub(super) mod dataset_order;
pub(super) mod dataset_sources;
pub(super) mod datasets;
pub(super) mod renamed_volumes;
pub(super) mod stream;
pub(super) mod stream_clones;
pub(super) mod stream_names;
pub(super) mod stream_rest;

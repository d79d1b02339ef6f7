//! Snapshots: what they hold that volumes no longer do.

pub mod deadlist;

pub use deadlist::Deadlist;

//! Snapshots: the blocks that they hold and that volumes no longer hold.

pub mod deadlist;

pub use deadlist::Deadlist;

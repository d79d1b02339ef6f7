//! Which block of a volume lies where.
//!
//! A volume's map is a [`Tree`] as of some checkpoint, and above it [`Layers`] of what was written
//! and unmapped since: [`Map`] asks both. A snapshot closes the topmost layer and shares what is
//! below; a checkpoint merges closed layers, the lowest first, into new trees ([`Merge`]), which share
//! every untouched node with the old ones.
//!
//! Nothing here waits for a disk. What needs a node that is not in the [`NodeCache`] returns
//! [`Missing`], keeps its own place, and goes on there when it is called again with the node read.
//!
//! | question | file |
//! |---|---|
//! | where is the pointer of block *i* looked up | `view.rs`: layers, then `tree.rs` |
//! | what did a write or an UNMAP since the checkpoint change | `layer.rs`, `range_set.rs` |
//! | what does a snapshot or clone see of it | `layers.rs` |
//! | how do changes come into the tree, which blocks die of it | `merge.rs` |
//! | who visits all blocks (destroy, scrub) | `walk.rs` |
//! | how many nodes will changes cost | `touched.rs` |
//! | how many blocks will the volume have with them | `tally.rs` |
//! | which blocks differ between two snapshots | `diff.rs` |

pub mod diff;
pub mod hash;
pub mod layer;
pub mod layers;
pub mod merge;
pub mod node_cache;
pub mod range_set;
pub mod tally;
pub mod touched;
pub mod tree;
pub mod view;
pub mod walk;

pub use diff::{Change, Diff};
pub use layer::{Hit, Layer};
pub use layers::{Closed, Layers};
pub use merge::{Merge, NoSpace, Sink, Stop};
pub use node_cache::{Missing, NodeCache};
pub use tally::{Count, Tally};
pub use tree::Tree;
pub use view::Map;
pub use walk::{Progress, Visit, Walk};

#[cfg(test)]
mod world;

//! The map: where each block of a volume lies.
//!
//! A volume's map is a [`Tree`] as of some checkpoint, and above it [`Layers`] of blocks written
//! and unmapped since; [`Map`] asks both. A snapshot closes the topmost layer and shares the layers
//! below. A checkpoint merges closed layers, the lowest first, into new trees ([`Merge`]). New
//! trees share every untouched node with the old ones.
//!
//! Nothing here waits for a disk. A function that needs a node outside the [`NodeCache`] returns
//! [`Missing`] and keeps its place. It goes on there when it is called again with the node read.
//!
//! | question | file |
//! |---|---|
//! | Where is the pointer of block *i* looked up? | `view.rs`: layers, then `tree.rs` |
//! | What did a write or an UNMAP since the checkpoint change? | `layer.rs`, `range_set.rs` |
//! | What do snapshots and clones see of the changes? | `layers.rs` |
//! | How do changes come into the tree, and which blocks die? | `merge.rs` |
//! | What visits all blocks (destroy, scrub)? | `walk.rs` |
//! | How many nodes will changes cost? | `touched.rs` |
//! | How many blocks will the volume have with the changes? | `tally.rs` |
//! | Which blocks differ between two snapshots? | `diff.rs` |

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

//! Every byte that lies on a disk: structures, their encoding and their bounds. All numbers are
//! little-endian; `docs/format.md` draws them.

pub(crate) mod bytes;
pub mod extent;
pub mod label;
pub mod list;
pub mod node;
pub mod pointer;
pub mod record;
pub mod root;
pub mod space_page;

pub use extent::Extent;
pub use label::Label;
pub use node::{FAN_OUT, Node, NodeError, NodeFault, NodeId};
pub use pointer::{Address, Algorithm, Compression, Epoch, Pointer};
pub use record::{Entry, PoolKey, Record};
pub use root::Root;

/// The unit of allocation and of every device request, in bytes.
pub const SECTOR_SIZE: usize = 4096;

/// The version of the format that is written. A pool of a later one is not touched.
pub const VERSION: u16 = 1;

/// A volume or a snapshot: a number that is never used again in the same pool.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct DatasetId(pub u32);

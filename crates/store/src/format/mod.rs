//! Every byte that lies on a disk: structures, their encoding and their bounds. All numbers are
//! little-endian; `docs/format.md` draws them.

pub mod activity;
pub(crate) mod bytes;
pub mod dataset;
pub mod extent;
pub mod label;
pub mod list;
pub mod node;
pub mod pointer;
pub mod pointers;
pub mod record;
pub mod root;
pub mod space_page;

pub use activity::{Activity, ActivityState, Who};
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
/// That of the newest structure: a record that says where its signpost lies. Programs that know only [`VERSION`] refuse
/// it, where they would otherwise take it for the end of the log.
pub const NEWEST: u16 = 2;

/// The version of a structure of this pool, where it is later than the `newest` that is known. In all versions a structure begins
/// with its magic number and its version, and a root or record has the pool's guid and its keyed checksum
/// where this version has them; so nobody else can make one pass for such a structure, and it is told from
/// none.
fn later_version(sector: &[u8], magic: &[u8; 8], newest: u16, key: PoolKey) -> Option<u16> {
    const GUID: usize = 16;
    const CHECKSUM: std::ops::Range<usize> = 72..88;
    let mut reader = bytes::Reader(sector);
    let is_one = reader.array()? == *magic;
    let version = reader.u16().filter(|version| *version > newest)?;
    let is_ours = bytes::Reader(sector.get(GUID..)?).u64()? == key.guid;
    if !is_one || !is_ours {
        return None;
    }
    let mut blank: [u8; SECTOR_SIZE] = sector.try_into().ok()?;
    let stored = u128::from_le_bytes(blank[CHECKSUM].try_into().ok()?);
    blank[CHECKSUM].fill(0);
    (crate::checksum::keyed(key.secret, &blank) == stored).then_some(version)
}

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

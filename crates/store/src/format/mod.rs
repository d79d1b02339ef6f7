//! The format: every structure that lies on a disk, its encoding and its bounds. All numbers are
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

/// Unit of allocation and of every device request, in bytes.
pub const SECTOR_SIZE: usize = 4096;

/// Version of the format that is written. A pool of a later version is not touched.
pub const VERSION: u16 = 1;
/// Version of the newest structure: a record that says where its signpost lies. Programs that know
/// only [`VERSION`] refuse this record. Otherwise they would take it for the end of the log.
pub const NEWEST: u16 = 2;

/// Returns the version of a structure of this pool, if it is later than `newest`, the newest known
/// version. In all versions a structure begins with its magic number and its version. In all
/// versions a root or record has the pool's guid and its keyed checksum at this version's place. So
/// nobody else can forge a later structure, and it is not taken for a missing one.
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

/// Number of a volume or a snapshot. The number is never used again in the pool.
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

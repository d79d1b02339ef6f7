//! Ranges of volumes and snapshots that have no right copy, for `pool status -v`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A range of a volume or snapshot whose bytes could not be read correctly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedView {
    /// Name of the volume or snapshot.
    pub dataset: String,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes.
    pub len: u64,
}

/// Total loss of a volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostView {
    /// Name of the volume or snapshot.
    pub dataset: String,
    /// Bytes of all its lost ranges together.
    pub bytes: u64,
    /// Number of lost ranges.
    pub ranges: u64,
    /// Whether there may be more. The pool keeps a limited number of ranges and may have dropped
    /// some.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_more: bool,
}

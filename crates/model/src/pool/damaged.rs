//! Bytes of volumes and snapshots that have no right copy, for `pool status -v`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bytes of a volume or snapshot that could not be read with right bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedView {
    /// Its name.
    pub dataset: String,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub len: u64,
}

/// What is lost of a volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostView {
    /// Its name.
    pub dataset: String,
    /// Bytes of all its ranges together.
    pub bytes: u64,
    /// How many ranges these are.
    pub ranges: u64,
    /// There may be more: so many ranges were met that not all of them are known any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_more: bool,
}

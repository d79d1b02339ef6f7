//! Events of a pool, and the history of the requests that administrators made of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Happening {
    /// Time of the entry, in seconds since 1970.
    pub time_s: u64,
    /// Description of the event.
    pub text: String,
}

/// Author of a change to a pool, and the words of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// User of this machine, or empty if unknown.
    pub user: String,
    /// Command line of the request, or request of the API.
    pub text: String,
    /// Whether the pool made the change on its own.
    pub is_internal: bool,
}

/// History of a pool, as far as the pool keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolHistoryView {
    /// Name of the pool.
    pub pool: String,
    /// History entries, oldest first. The beginning is always kept. If the history grows too long,
    /// the oldest of the other entries go.
    pub entries: Vec<HistoryLine>,
}

/// An entry in the history of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryLine {
    /// Time of the entry, in seconds since 1970.
    pub time_s: u64,
    /// Command line, request of the API, or description of the event.
    pub text: String,
    /// User who made the request, or empty if unknown.
    pub user: String,
    /// Host that had the pool at that time.
    pub host: String,
    /// Whether the pool acted on its own.
    pub is_internal: bool,
}

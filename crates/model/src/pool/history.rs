//! Events of a pool, and the history of what administrators asked of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that happened to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Happening {
    /// When, in seconds since 1970.
    pub time_s: u64,
    /// What.
    pub text: String,
}

/// Author of a change to a pool, and the words of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// User of this machine, or empty if unknown.
    pub user: String,
    /// Command line, or request of the API.
    pub text: String,
    /// Whether the pool made the change on its own.
    pub is_internal: bool,
}

/// What was done to a pool, as far as it keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryView {
    /// The pool.
    pub pool: String,
    /// What was done, oldest first. How it began stays; of the rest the oldest goes when there is
    /// too much.
    pub entries: Vec<HistoryLine>,
}

/// Something that was done to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryLine {
    /// When, in seconds since 1970.
    pub time_s: u64,
    /// The command line, the request of the API, or what happened.
    pub text: String,
    /// Who asked for it; empty where nobody knows.
    pub user: String,
    /// The machine that had the pool then.
    pub host: String,
    /// Whether the pool did it by itself.
    pub is_internal: bool,
}

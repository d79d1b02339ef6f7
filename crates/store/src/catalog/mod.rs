//! The catalogue: the datasets of a pool, and the operations on them. It is pure data.
//!
//! An operation takes two steps. A `Catalog::plan_…` (`plan/`) takes the administrator's request,
//! in names and words. It makes an [`Operation`] of the request, decided to the last number, or
//! refuses with a reason. [`Catalog::apply`] does an operation, when it enters the log and again
//! when the log is replayed. It returns [`Step`]s that say what becomes of blocks. The rules are in
//! `check/mod.rs`, once, for both steps. Actions that need an explicit request are refused in
//! the plans only. The pool's history lies beside the datasets ([`history`]).

mod applied;
mod apply;
mod check;
mod dataset;
mod disturbed;
mod error;
pub mod history;
mod index;
mod lookup;
pub mod name;
mod operation;
mod plan;
mod properties;
mod property;
mod settings;
pub mod size;
mod stored;
mod value;

#[cfg(test)]
mod tests;

pub use applied::{Applied, Step};
pub use dataset::{Dataset, DatasetKind, Receiving, Snapshot, Volume};
pub use error::{CatalogError, ErrorKind};
pub use history::{History, HistoryEntry};
pub use index::Catalog;
pub use name::Name;
pub use operation::{
    MAX_OPERATION, NewClone, NewDataset, NewFolder, NewName, NewSnapshot, NewSnapshots, NewVolume,
    Operation,
};
pub use plan::request;
pub use plan::request::Stamp;
pub use properties::{Effective, Properties, Source};
pub use property::{Change, MAX_USER_NAME, Native, PROPERTIES, Property, PropertyInfo};
pub use settings::Settings;
pub use value::{
    CachePolicy, ChecksumChoice, CompressionChoice, MAX_USER_VALUE, SyncPolicy, Value,
};

/// Number of the folder that contains all others.
pub const ROOT: crate::format::DatasetId = crate::format::DatasetId(0);

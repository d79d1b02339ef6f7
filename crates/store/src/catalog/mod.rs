//! The catalogue: which datasets a pool has, and what may be done with them. Pure data.
//!
//! Two steps. A `Catalog::plan_…` (`plan/`) takes what an administrator asks for, in names and words, and makes an
//! [`Operation`] of it, decided to the last number, or says why not. [`Catalog::apply`] does an
//! operation, when it enters the log and again when the log is replayed, and says in [`Step`]s what
//! becomes of blocks. Rules stand in `check.rs`, once, for both; manners (what has to be asked for
//! explicitly) in the plans only. Beside the datasets lies what was done to the pool ([`history`]).

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
pub use dataset::{Dataset, Kind, Receiving, Snapshot, Volume};
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

/// The folder that contains all others.
pub const ROOT: crate::format::DatasetId = crate::format::DatasetId(0);

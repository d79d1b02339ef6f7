//! Pools: requests, views and results that the API, the command line, the lab and the tests share.
//!
//! Each file has the types of one verb or one view. The crate `pools` does the work on pools.

pub mod check;
pub mod create;
pub mod damaged;
pub mod dataset;
pub mod found;
pub mod health;
pub mod history;
pub mod import;
pub mod io;
pub mod outlook;
pub mod properties;
pub mod rebuild_labels;
pub mod reguid;
pub mod rewind;
pub mod salvage;
pub mod scan;
pub mod status;
pub mod stream;
pub mod trim;
pub mod twins;
pub mod vdev;
pub mod vdev_change;
pub mod vdev_request;

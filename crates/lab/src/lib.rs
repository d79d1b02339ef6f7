//! A storage network on one machine. One command repeats on it what people measured in the field.
//!
//! Two network namespaces are joined by links of chosen speed and MTU. A Sandstone daemon serves in
//! one of them; `bench run` and `bench network` measure in the other. The links between both can be
//! cut.
//!
//! | subject | where |
//! |---|---|
//! | the experiments | [`experiments`]; those on volumes of a pool: `pool_experiments.rs` |
//! | quotes from the field reports | [`reports`] |
//! | namespaces and links; parts that this machine lacks for them | [`network`] |
//! | the daemon, and its logical units | `target.rs` |
//! | one run of a load | `load.rs` |
//! | an experiment from beginning to end | [`run`] |
//! | the results, beside the report's figures | [`outcome`] |

mod command;
mod error;
pub mod experiments;
mod load;
pub mod network;
pub mod outcome;
mod pool_experiments;
pub mod reports;
pub mod run;
mod target;

pub use error::LabError;

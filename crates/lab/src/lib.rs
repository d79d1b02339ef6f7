//! A storage network on one machine: what people measured in the field, repeated by one command.
//!
//! Two network namespaces are joined by links of chosen speed and MTU. A daemon of ours serves in
//! one of them, `bench run` and `bench network` measure in the other, and between both the links
//! can be cut.
//!
//! | what | where |
//! |---|---|
//! | the experiments | [`experiments`]; those on volumes of a pool: `pool_experiments.rs` |
//! | what the field reports say | [`reports`] |
//! | namespaces and links; what this machine lacks for them | [`network`] |
//! | the daemon, and what it serves | `target.rs` |
//! | one run of a load | `load.rs` |
//! | an experiment from beginning to end | [`run`] |
//! | what came of it, beside the report's figures | [`outcome`] |

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

//! The control plane: transactions over the configuration, the HTTP/JSON API and its client.
//!
//! # Invariants
//! - Whatever is in force is on the disk, and whatever is on the disk is in force or was refused
//!   and taken back ([`transaction`]).
//! - Nothing here runs on an event loop of the data plane, and no event loop waits for it.
//! - No secret is in an answer, a listing or a message, but in a backup, which the control socket alone gives.

pub mod address;
pub mod answer;
pub mod api;
mod asker;
mod author;
pub mod client;
mod disks_of_units;
pub mod endpoint;
mod json_list;
mod metrics;
mod names_in_use;
mod new_unit;
pub mod server;
mod streaming;
pub mod transaction;
mod unit_changes;

pub use address::ControlAddress;
pub use api::Plane;
pub use author::Author;
pub use client::Client;
pub use endpoint::Endpoint;
pub use server::ControlServer;
pub use transaction::Transactions;

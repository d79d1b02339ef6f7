//! The initiator: an iSCSI LUN as a block device, over many sessions.
//!
//! | subject | where |
//! |---|---|
//! | the adapter that lives in a lane, and its devices | `adapter.rs`, `device.rs` |
//! | the adapter of the daemon, in a thread of its own | `host_adapter.rs` |
//! | settings from the configuration | `crates/model/src/initiator/configured.rs` |
//! | administrators' operations and views | `administration.rs`, `fabric/view.rs` |
//! | sessions, devices and commands under way | `fabric.rs` |
//! | one session: connecting, LOGIN, bytes; redirection | `nexus.rs`, `link.rs`, `lookup.rs` |
//! | a second login that offers less, for old targets | `attempts.rs` |
//! | the units that a session shows | `scan.rs` |
//! | a command's path, and a command that is lost | [`multipath`] |
//! | a request becomes commands | `commands.rs`, `requests.rs` |
//! | settings by a URL or a device's name | `crates/model/src/initiator/settings.rs`, `crates/model/src/initiator/url.rs`, `named.rs`, `crates/model/src/initiator/options.rs` |
//! | discovery of targets | `discovery.rs` |
//! | connections and random bytes, from the kernel or from a simulation | `outside.rs` |
//! | a plain session that waits, for tools | `connection.rs`, `self_test.rs`, `write_cache.rs` |

pub mod adapter;
mod administration;
mod attempts;
mod claims;
mod commands;
pub mod connection;
pub mod device;
pub mod discovery;
mod fabric;
pub mod host_adapter;
mod link;
mod lookup;
pub mod named;
mod nexus;
pub mod open;
pub mod outside;
pub mod own_name;
mod requests;
mod scan;
pub mod self_test;
pub mod write_cache;

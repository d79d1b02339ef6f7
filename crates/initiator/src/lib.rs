//! The initiator: an iSCSI LUN as a block device, over many sessions.
//!
//! | what | where |
//! |---|---|
//! | the adapter that lives in a lane, and its devices | `adapter.rs`, `device.rs` |
//! | the adapter of the daemon, in a thread of its own | `host.rs` |
//! | what of it is configured becomes settings | `configured.rs` |
//! | what an administrator does with it and sees | `administration.rs`, `view.rs` |
//! | sessions, devices and what is under way | `fabric.rs` |
//! | one session: connecting, LOGIN, bytes; a redirection to a name | `nexus.rs`, `link.rs`, `lookup.rs` |
//! | a second login that offers less, for old targets | `attempts.rs` |
//! | which units a session shows | `scan.rs` |
//! | which path a command takes, and what happens when it is lost | [`multipath`] |
//! | a request becomes commands | `commands.rs`, `requests.rs` |
//! | what can be set, by a URL or the name of a configured device | `settings.rs`, `url.rs`, `named.rs`, `options.rs` |
//! | which targets there are | `discovery.rs` |
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
pub mod host;
mod link;
mod lookup;
pub mod named;
mod nexus;
pub mod open;
pub mod own_name;
mod requests;
mod scan;
pub mod self_test;
pub mod write_cache;

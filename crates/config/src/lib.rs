//! The administrator's configuration: logical units, targets, hosts, and the map that joins them.
//!
//! Everything here is data and pure functions, except [`store`], which keeps the one file.
//!
//! | question | file |
//! |---|---|
//! | Where is the request type of a change, and what does it do (`lu create`)? | `change/`, a file for each object |
//! | Which rules does a configuration obey? | `validate.rs` and `validate/` |
//! | Where is the configuration stored? | `store.rs`; its generations: `history.rs`; a whole backup: `backup.rs` |
//! | What does a host see, and why not more? | `access.rs`, `explain.rs`; by protocol: `directory.rs` |
//! | Which LUNs and identities are given out? | `placement.rs`, `identity.rs` |
//! | How do two configurations differ? | `diff.rs` |
//! | How are other programs' configurations imported? | `import/` |
//!
//! # Invariants
//! - A configuration that the store returns or accepts passed [`validate::validate`].
//! - A stored configuration is replaced whole or not at all, whatever happens to the machine.
//! - An identity (NAA, serial number, relative port id) is never given out twice, even after a
//!   return to an older configuration.
//! - A secret leaves this module only for the file, for its login, and for a backup.

pub mod access;
pub mod backup;
pub mod change;
pub mod diff;
pub mod directory;
pub mod explain;
pub mod history;
pub mod identity;
pub mod import;
pub mod placement;
pub mod redact;
pub mod store;
pub mod validate;

#[cfg(test)]
mod names_everywhere;

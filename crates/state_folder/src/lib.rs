//! Files that the daemon keeps for itself: each change is whole or absent, and each file lies
//! twice.
//!
//! | file | what it holds | by |
//! |---|---|---|
//! | `config.toml` | the configuration in force, with the installation's identity | `crates/config/src/store.rs` |
//! | `pools.json` | which pools this daemon has, and where their devices were | `crates/pools/src/devices/known.rs` |
//! | `lent.json` | which disks of other machines logical units had | `crates/pools/src/devices/lent.rs` |
//! | `access.json` | users, tokens, and roles at the control socket | `crates/access/src/records.rs` |
//! | `alerts.json` | open alerts, and the paths that initiators had | `crates/alert/src/keeper.rs` |
//! | `units/NAA.state` | reservations and saved mode pages of one unit | `crates/unit/src/state_file.rs` |
//!
//! Each of them is a [`KeptFile`]: a file, and beside it a folder `history` with a copy of each
//! generation, the newest included. A copy has blocks of its own, so one damaged file never costs
//! anything.
//!
//! # Order of writes
//! 1. The copy is written under a temporary name, synced and renamed; its folder is synced.
//! 2. The file is written beside the old one, synced and renamed over it; its folder is synced.
//! 3. Old generations are removed.
//!
//! The copy is never older than the file, and whatever was acknowledged is in both. Of those that
//! are whole, the highest generation counts: after a crash between the two steps that is a change
//! which nobody was told of, and may hold.
//!
//! # Secrets
//! Secrets lie sealed in these files. [`SecretKey`] seals and opens them; its own file,
//! `secrets.key`, lies beside them and in `history`.
//!
//! The history of figures (`history/figures`) is no such file: `crates/history` has its own order.

mod frame;
pub mod hex;
mod kept_file;
mod private;
mod secret_key;
pub mod steps;

pub use frame::Unfit;
pub use frame::{open_json, seal_json};
pub use kept_file::{FoundFile, KeptFile, Trouble};
pub use private::write_private;
pub use secret_key::{SecretKey, is_sealed};

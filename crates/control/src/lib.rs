//! The control plane: transactions over the configuration, the HTTP/JSON API, and its client.
//!
//! | question | file |
//! |---|---|
//! | Which endpoints are there, and what do they take and return? | `endpoint/`, a file for each object |
//! | Where is a request carried out? | `handlers/`, a file for each object |
//! | Where is the request type of a change defined (`lu create`)? | `config`: `change/`, a file for each object; of a pool: `model`: `pool/` |
//! | How does a change come into force, or is taken back? | `transaction.rs`; changes wait for their turn in `transaction/queue.rs` |
//! | Who asks, and may they? | `asker.rs`, `author.rs`, `origin.rs`; `gate.rs` lets through and notes |
//! | How do pages of this process ask endpoints? | `door.rs` |
//! | Is a body what the document tells? | `call.rs`, with `call/shape.rs` |
//! | How does a client reach the daemon? | `client.rs`, `address.rs`; on another machine: `client/remote.rs` |
//! | How are errors and results answered? | `answer.rs`; long answers: `streaming.rs` |
//! | Where do the facts for alerts come from? | `watch.rs`; alerts and events themselves: the crate `alert` |
//! | Where do figures of commands come from? | `snapshots.rs`, once a second |
//! | Who records the history of figures? | `history_keeper.rs`, once a minute; files and charts: `history` |
//! | How are figures told as metrics? | `metrics/`, with alert rules; at an address of their own: `metrics_listener.rs` |
//!
//! # Invariants
//! - The configuration in force is on the disk. A configuration on the disk is in force, or was
//!   refused and taken back ([`transaction`]).
//! - No code here runs on an event loop of the data plane, and no event loop waits for it.
//! - No answer, listing or message holds a secret. The exception is a backup, which only the
//!   control socket gives.

pub mod address;
pub mod answer;
mod asker;
mod author;
mod call;
pub mod client;
mod disks_of_units;
mod door;
pub mod endpoint;
mod gate;
pub mod handlers;
mod history_keeper;
mod interfaces;
mod json_list;
pub mod metrics;
mod metrics_listener;
mod names_in_use;
mod new_unit;
pub mod origin;
pub mod plane;
pub mod server;
pub mod snapshots;
mod streaming;
pub mod transaction;
mod unit_changes;
pub mod watch;

pub use address::ControlAddress;
pub use asker::{Asker, COOKIE_NAME};
pub use author::Author;
pub use client::{Client, Trust};
pub use door::Door;
pub use endpoint::Endpoint;
pub use history_keeper::HistoryKeeper;
pub use metrics_listener::{MetricsListener, MetricsServer};
pub use plane::{ConsoleCertificate, Plane};
pub use server::ControlServer;
pub use snapshots::{Feed, Snapshots};
pub use transaction::Transactions;
pub use watch::WatchThread;

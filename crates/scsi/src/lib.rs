//! A SCSI direct-access block device server without I/O: commands in, block actions and responses
//! out.
//!
//! The crate implements SAM-5 (tasks, nexuses, unit attentions), SPC-4 (primary commands,
//! persistent reservations, ALUA, third-party copy) and SBC-4 (block commands). It serves one
//! device type: the disk.
//!
//! It owns every decision of a device server and none of the machinery: it never sees an iSCSI PDU,
//! a socket, a file or a clock. The transport hands it a [`Command`], and it answers with a
//! [`Start`]. Longer work is a [`Task`] that asks for block actions one [`Step`] at a time.
//!
//! | Question | File |
//! |---|---|
//! | May a command run now, and what does it do? | `dispatch.rs`, then `command/` |
//! | When does a reservation forbid a command? | `persistent_reservation/` |
//! | Which bytes of a unit's state are stored? | `image.rs` |
//! | When are initiators told that space runs out (soft threshold)? | `medium/thin_provisioning.rs` |
//! | When is a unit attention raised, and told? | `unit_attention.rs` |
//! | What do INQUIRY, VPD pages and mode pages say? | `inquiry.rs`, `vpd.rs`, `mode_page.rs` |
//! | Which task runs first? | `task_set.rs`; which write waits for another: `range_lock.rs` |
//!
//! # Invariants
//! - A command that changes the medium is never started while a gate (reservation, unit attention,
//!   ALUA state, write protection, quiescence) forbids it. The gates are two words, one of the
//!   nexus and one of the unit, so that the common case costs two loads.
//! - A response with status GOOD is returned only after every [`Step`] of the task succeeded.
//! - State that must survive a restart (persistent reservations with APTPL, saved mode pages, ALUA
//!   states set by the initiator) is saved ([`Step::Save`]) before GOOD is returned.
//! - Every lock is held for a bounded, I/O-free stretch of code.
//!
//! Clause 5 of SBC-4 describes the block commands in the order of their names. Its lower clause
//! numbers differ between revisions, so comments cite these commands by name.

mod admission;
pub mod alua;
pub mod application_client;
pub mod cdb;
pub mod command;
mod command_descriptor;
pub mod command_table;
mod dispatch;
pub mod hindrance;
pub mod image;
mod inquiry;
pub mod itl_nexus;
pub mod logical_unit;
pub mod medium;
mod mode_page;
pub mod nexus;
pub mod persistent_reservation;
pub mod range_lock;
pub mod response;
pub mod sense;
pub mod task_set;
mod third_party_copy;
mod token;
pub mod unit_attention;
pub mod view;
mod vpd;

pub use admission::{Access, Refusal};
pub use command::{AbortScope, Command, Extent, Input, Start, Step, Task};
pub use dispatch::start_without_unit;
pub use hindrance::{Hindrance, Imposed};
pub use logical_unit::write_through::WriteThrough;
pub use medium::block_error::BlockError;
pub use medium::range::{BlockCount, BlockRange, Lba};
pub use response::{Response, Status};
pub use sense::{Asc, Sense, SenseKey};
pub use task_set::TaskAttribute;
pub use unit_attention::UnitAttention;

//! Multipathing in ESXi's terms: pure policy, without I/O, clock or randomness.
//!
//! A [`Device`] is all paths to one logical unit. Its host reports events with their time: a path
//! is up, silent or dead; an I/O is submitted or has ended. The host carries out the returned
//! [`Action`]s. So every sequence of events can be tested and simulated.
//!
//! | question | file |
//! |---|---|
//! | which path does an I/O take? | `path_selection.rs`, round robin in `round_robin.rs` |
//! | when is an I/O sent, and which I/Os wait? | `queue.rs` |
//! | what happens when a path is lost or restored? | `failover.rs` |
//! | why does a write wait after that? | `ghosts.rs`; time after the fence: `fence_settle.rs` |
//! | when is an I/O repeated, when does it fail? | `retry.rs` |
//! | which rule claims a device? | `claim_rules.rs`, `claim_rule.rs`, ESXi's in `system_rules.rs` |
//! | what does the administrator see? | `snapshot.rs`, sums in `counters.rs` |
//!
//! # Invariants
//! - Every I/O that was submitted and not cancelled finishes exactly once.
//! - An I/O is on one path at a time, and is only ever sent to a path that is up and active.
//! - At most DQLEN I/Os are at the device. The others are sent in order of submission, except those
//!   that wait for a ghost, or for a time to repeat.
//! - No request that changes blocks is sent while a write of a lost session to the same blocks may
//!   still land.
//! - No I/O fails for lack of a path while any path lives, before its time limit.

mod action;
mod claim_rule;
mod claim_rules;
mod counters;
mod device;
mod failover;
mod fence_settle;
mod ghosts;
mod hold;
mod io;
mod path;
mod path_selection;
mod queue;
mod queue_load;
mod retry;
mod round_robin;
mod rule_error;
mod satp;
mod settings;
mod snapshot;
mod system_rules;

pub use action::{Action, Actions, Refresh};
pub use claim_rule::{ClaimOption, ClaimRule, DRIVER, RuleText, TRANSPORT};
pub use claim_rules::{Claim, ClaimRules, RuleGroup, RuleView};
pub use counters::{Counters, IoSums};
pub use device::Device;
pub use hold::Hold;
pub use io::{Direction, Ended, Failure, IoId, IoShape, Outcome};
pub use path::{Link, PathId, PathIdentity};
pub use path_selection::Psp;
pub use queue_load::{load, used_percent};
pub use round_robin::{LimitType, RoundRobin};
pub use rule_error::{RuleError, RuleErrorKind};
pub use satp::Satp;
pub use settings::Settings;
pub use snapshot::{DeviceSnapshot, PathSnapshot, QueueSnapshot};

#[cfg(test)]
mod tests;

//! Events and alerts: what happened, what is wrong now, and who is told of it.
//!
//! | question | file |
//! |---|---|
//! | Where do events lie, and how are storms of them held down? | `journal/` |
//! | Which conditions are alerts? | `condition.rs`, the only list of them |
//! | What is known about the daemon? | `facts.rs` |
//! | Which conditions hold? | `watch/`, from facts alone |
//! | When does an alert open, repeat and end? | `book.rs` |
//! | Which changes of facts are events? | `changes.rs` |
//! | Who joins all this, and where are alerts kept? | `alerts.rs`, `keeper.rs` |
//! | Who is told, and how? | `ways/`: the queue, webhooks, mail, heartbeats |
//! | How does a start know that the last run was killed? | `run_mark.rs` |
//!
//! `condition.rs`, `watch/` and `book.rs` are pure: facts and times in, alerts and news out.

pub mod alerts;
pub mod book;
pub mod changes;
pub mod condition;
pub mod facts;
pub mod journal;
mod keeper;
pub mod run_mark;
pub mod watch;
pub mod ways;

pub use alerts::Alerts;
pub use book::{Book, KeptBook, News, Notice};
pub use condition::{CONDITIONS, Condition};
pub use facts::{Facts, Finding};
pub use journal::{EventFilter, Journal, RefusedLogins};
pub use run_mark::RunMark;
pub use watch::{Moment, Watch};
pub use ways::Ways;

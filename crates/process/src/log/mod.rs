//! The daemon's log: lines on stderr, for the journal of the machine.
//!
//! | what | where |
//! |---|---|
//! | which lines are gathered, and when their sum is due | `gathering.rs` |
//! | what a line is about: its kind, its object, its client | `line.rs` |
//! | the layer between the program's events and the lines | `layer.rs` |
//!
//! Start, stop and changes by administrators are never gathered: each of them counts.

mod gathering;
mod layer;
mod line;

use std::io::IsTerminal as _;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::layer::GatheringLayer;
pub use self::layer::flush;

/// The target of lines that are each written: start, stop, and who changed what.
pub const EACH: &str = "sandstone::each";

/// Sends events of this level and above to stderr.
pub fn to_stderr(level: &str) {
    let level = level.parse().unwrap_or(tracing::Level::INFO);
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        // A terminal that was closed takes no lines. The daemon goes on without them.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .finish();
    // A second subscriber in one process (tests) is refused; the first goes on.
    let _ = lines.with(GatheringLayer::start()).try_init();
}

//! The daemon's log: lines on stderr, for the journal of the machine.
//!
//! | subject | where |
//! |---|---|
//! | lines that are gathered, and when their sum is due | `gathering.rs` |
//! | the subject of a line: its kind, its object, its client | `line.rs` |
//! | the layer between the program's events and the lines | `layer.rs` |
//!
//! Start, stop and changes by administrators are never gathered, because each of them counts.

mod gathering;
mod layer;
mod line;

use std::io::IsTerminal as _;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::layer::GatheringLayer;
pub use self::layer::flush;

/// Tracing target of lines that are never gathered: start, stop, and changes by administrators.
pub const EACH: &str = "sandstone::each";

/// Sends events of this level and above to stderr.
pub fn to_stderr(level: &str) {
    let level = level.parse().unwrap_or(tracing::Level::INFO);
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        // A closed terminal takes no lines. The daemon goes on without them.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .finish();
    // A second subscriber in one process (in tests) is refused; the first goes on.
    let _ = lines.with(GatheringLayer::start()).try_init();
}

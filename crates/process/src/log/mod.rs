//! The daemon's log: lines on stderr, or entries of the machine's journal.
//!
//! | subject | where |
//! |---|---|
//! | lines that are gathered, and when their sum is due | `gathering.rs` |
//! | the subject of a line: its kind, its object, its client | `line.rs` |
//! | the layer between the program's events and the lines | `layer.rs` |
//! | entries of the journal, with the fields of events | `journal.rs` |
//!
//! Start, stop and changes by administrators are never gathered, because each of them counts.

mod gathering;
mod journal;
mod layer;
mod line;

use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::journal::JournalLayer;
use self::layer::GatheringLayer;
pub use self::layer::flush;

/// Tracing target of lines that are never gathered: start, stop, and changes by administrators.
pub const EACH: &str = "sandstone::each";

/// Form of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Entries of the machine's journal if stderr leads there, otherwise text.
    #[default]
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object in each line.
    Json,
    /// Entries of the machine's journal, each with the fields of the event.
    Journal,
}

impl Format {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Text, Self::Json, Self::Journal];

    /// Returns the name of the form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
            Self::Journal => "journal",
        }
    }

    /// Decides for a form that needs no further look at the machine.
    fn settled(self) -> Self {
        match self {
            Self::Auto if journal::is_stderr() => Self::Journal,
            Self::Auto => Self::Text,
            settled => settled,
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let format = Self::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{name:?} is no form of the log: choose one of {names}")
        })
    }
}

/// Logs events of this level and above: to stderr, or to the journal.
pub fn begin(level: &str, format: Format) {
    let level = level.parse().unwrap_or(Level::INFO);
    let filtered = tracing_subscriber::registry()
        .with(LevelFilter::from_level(level))
        .with(GatheringLayer::start());
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        // A closed terminal takes no lines. The daemon goes on without them.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    // A second subscriber in one process (in tests) is refused; the first goes on.
    let _ = match format.settled() {
        Format::Json => filtered.with(lines.json().flatten_event(true)).try_init(),
        Format::Journal => filtered.with(JournalLayer::default()).try_init(),
        Format::Auto | Format::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            filtered.with(lines.with_ansi(is_terminal)).try_init()
        }
    };
}

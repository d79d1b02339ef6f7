//! Events of the daemon: what happened, to which object, how grave it is, and the next step.
//!
//! Parts of the daemon report through a [`Teller`]. The journal numbers the events and keeps them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Gravity of an event or alert. The graver of two is the larger.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is wrong.
    #[default]
    Info,
    /// A fault is near, or was overcome.
    Warning,
    /// A part is not redundant or not served.
    Error,
    /// Data or service is lost, or will be lost very soon.
    Critical,
}

impl Severity {
    /// All severities, the least first.
    pub const ALL: [Self; 4] = [Self::Info, Self::Warning, Self::Error, Self::Critical];

    /// Returns the severity's word in listings and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }

    /// Returns the severity of the given word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|severity| severity.as_str() == word)
    }
}

/// Subject of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The daemon itself.
    #[default]
    Daemon,
    /// An alert opened or closed.
    Alert,
    /// A pool or one of its devices.
    Pool,
    /// A logical unit.
    Unit,
    /// A login that was accepted or refused.
    Login,
    /// A session that ended.
    Session,
    /// A session or path of this machine as an initiator.
    Path,
    /// A change of the configuration.
    Config,
}

impl Topic {
    /// Returns the topic's word in listings and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Alert => "alert",
            Self::Pool => "pool",
            Self::Unit => "unit",
            Self::Login => "login",
            Self::Session => "session",
            Self::Path => "path",
            Self::Config => "config",
        }
    }
}

/// An event, as the journal keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Number of the event. It grows by one with each event, also over restarts.
    pub number: u64,
    /// Time of the event, in milliseconds since 1970.
    pub time_ms: u64,
    /// Gravity of the event.
    pub severity: Severity,
    /// Subject of the event.
    pub topic: Topic,
    /// Name of the object: a pool, a logical unit, an initiator.
    pub object: String,
    /// Description of the event.
    pub text: String,
    /// Step to take, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A part of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// Events, oldest first.
    pub events: Vec<Event>,
    /// Number to ask for next, as `after`: no event up to it is missing from this and earlier
    /// pages, unless the journal no longer keeps it.
    pub next: u64,
    /// Number of the oldest event that is kept; 0 if there is none.
    pub oldest: u64,
}

/// An event as its reporter tells it. The journal adds number and time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occurrence {
    /// Gravity of the event.
    pub severity: Severity,
    /// Subject of the event.
    pub topic: Topic,
    /// Name of the object.
    pub object: String,
    /// Description of the event.
    pub text: String,
    /// Step to take, if there is one.
    pub next: Option<String>,
    /// Source of events that may come in storms. Of many events of one source in a short time, the
    /// first is kept, and the others are counted.
    pub source: Option<String>,
}

impl Occurrence {
    /// Returns an event about `object`.
    pub fn new(
        severity: Severity,
        topic: Topic,
        object: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            topic,
            object: object.into(),
            text: text.into(),
            ..Self::default()
        }
    }

    /// Adds the step to take.
    #[must_use]
    pub fn next(self, next: impl Into<String>) -> Self {
        Self {
            next: Some(next.into()),
            ..self
        }
    }

    /// Names the source of a possible storm of events.
    #[must_use]
    pub fn from_source(self, source: impl Into<String>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }
}

type Tell = dyn Fn(Occurrence) + Send + Sync;

/// Way for a part of the daemon to report events. A report never waits. The default forgets all
/// reports.
#[derive(Clone, Default)]
pub struct Teller(Option<Arc<Tell>>);

impl Teller {
    /// Returns a teller that hands each event to `tell`, which must not wait.
    pub fn new(tell: impl Fn(Occurrence) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Reports an event.
    pub fn tell(&self, occurrence: Occurrence) {
        if let Some(tell) = &self.0 {
            tell(occurrence);
        }
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json_and_the_graver_is_larger() {
        for severity in Severity::ALL {
            assert_eq!(serde_json::to_value(severity).unwrap(), severity.as_str());
            assert_eq!(Severity::of_word(severity.as_str()), Some(severity));
        }
        assert!(Severity::ALL.is_sorted());
        assert_eq!(Severity::of_word("fatal"), None);
    }
}

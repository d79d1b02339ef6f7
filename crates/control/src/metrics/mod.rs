//! The text of `/metrics`, for Prometheus and collectors like it.
//!
//! Nothing is counted here. The figures of commands come from the snapshot that is taken once a
//! second ([`crate::snapshots`]), and states come from one reading for each answer ([`readings`]).
//! So metrics, listings and pages agree.
//!
//! Names are `sandstone_OBJECT_WHAT_UNIT`, with base units and `_total` for counters. States are
//! one series for each state, of which the present one is 1. Labels that only describe an object
//! stand in a series `…_info`. The list for users is in `docs/operations.md`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::registry::Registry;

use self::family::Exposition;
pub(crate) use self::format::Format;
pub(crate) use self::readings::Reading;
pub use self::readings::Readings;
use model::figures::Snapshot;

mod commands;
mod daemon;
mod family;
mod format;
mod initiator;
mod pools;
mod readings;
pub mod rules;
mod sessions;
#[cfg(test)]
mod tests;
mod units;
mod vdevs;

/// Everything from which one answer is made.
#[derive(Debug)]
pub(crate) struct Metrics {
    reading: Arc<Reading>,
    /// Age of the reading.
    age: Duration,
    snapshot: Arc<Snapshot>,
}

impl Metrics {
    /// Joins a snapshot with the latest reading. `since` is the start of the daemon: the age of
    /// everything while there is no reading yet.
    pub(crate) fn new(
        reading: Option<(Instant, Arc<Reading>)>,
        snapshot: Arc<Snapshot>,
        since: Instant,
    ) -> Self {
        let (taken, reading) = reading.unwrap_or_else(|| (since, Arc::default()));
        Self {
            reading,
            age: taken.elapsed(),
            snapshot,
        }
    }

    /// Returns the answer in a format.
    pub(crate) fn encode(self, format: Format) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        let written = match format {
            Format::Text => prometheus_text::encode(&mut text, &registry),
            Format::OpenMetrics => text::encode(&mut text, &registry),
        };
        // Writing to a String cannot fail.
        debug_assert!(written.is_ok());
        text
    }

    /// Adds all families.
    fn tell(&self, out: &mut Exposition<'_>) -> fmt::Result {
        daemon::tell(out, self)?;
        units::tell(out, self)?;
        commands::tell_units(out, &self.snapshot)?;
        sessions::tell(out, self)?;
        commands::tell_sessions(out, &self.snapshot)?;
        commands::tell_port_groups(out, &self.snapshot)?;
        pools::tell(out, &self.reading.pools)?;
        vdevs::tell(out, &self.reading.pools)?;
        initiator::tell(out, self)
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.tell(&mut Exposition::new(encoder))
    }
}

//! Storms of events: of many events of one source in a short time, the first is kept at once, and
//! the others become one event with their number.

use std::collections::HashMap;

use model::event::{Occurrence, Severity, Topic};

/// Time for which further events of a source are only counted, in milliseconds.
const QUIET_MS: u64 = 60_000;
/// Most sources that are told apart. Others count as one.
const MAX_SOURCES: usize = 256;

/// Sources that told something lately.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    sources: HashMap<(Topic, String), Burst>,
}

#[derive(Debug)]
struct Burst {
    until_ms: u64,
    /// Number of events that were not kept, and the last of them.
    more: u64,
    last: Option<Occurrence>,
}

impl Bursts {
    /// Returns the event if it is to be kept now, and counts it otherwise.
    pub(super) fn admit(&mut self, occurrence: Occurrence, now_ms: u64) -> Option<Occurrence> {
        let Some(source) = occurrence.source.clone() else {
            return Some(occurrence);
        };
        let mut key = (occurrence.topic, source);
        if !self.sources.contains_key(&key) && self.sources.len() >= MAX_SOURCES {
            key.1 = String::new();
        }
        if let Some(burst) = self.sources.get_mut(&key) {
            burst.more += 1;
            burst.last = Some(occurrence);
            return None;
        }
        let burst = Burst {
            until_ms: now_ms + QUIET_MS,
            more: 0,
            last: None,
        };
        self.sources.insert(key, burst);
        Some(occurrence)
    }

    /// Returns the events about sources whose time is over: one for each with more events.
    pub(super) fn ended(&mut self, now_ms: u64) -> Vec<Occurrence> {
        let mut told = Vec::new();
        self.sources.retain(|_, burst| {
            // A clock that was set back must not silence a source for long.
            let is_over = now_ms >= burst.until_ms || burst.until_ms > now_ms + QUIET_MS;
            if !is_over {
                return true;
            }
            let Some(last) = burst.last.take() else {
                return false;
            };
            let text = match burst.more {
                1 => last.text.clone(),
                more => format!(
                    "{}: the last of {more} within {} s",
                    last.text,
                    QUIET_MS / 1000
                ),
            };
            let severity = match burst.more {
                1 => last.severity,
                _ => last.severity.max(Severity::Warning),
            };
            told.push(Occurrence {
                text,
                severity,
                ..last
            });
            burst.until_ms = now_ms + QUIET_MS;
            burst.more = 0;
            true
        });
        told.sort_by(|a, b| a.object.cmp(&b.object));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(source: &str, number: u64) -> Occurrence {
        let text = format!("refusal {number}");
        Occurrence::new(Severity::Warning, Topic::Login, source, text).from_source(source)
    }

    #[test]
    fn a_storm_becomes_one_event_with_a_count() {
        let mut bursts = Bursts::default();
        let kept = (0..100).filter_map(|at| bursts.admit(refused("a", at), 1000 + at));
        assert_eq!(kept.count(), 1);
        assert!(bursts.admit(refused("b", 0), 1200).is_some());
        assert!(bursts.ended(2000).is_empty());
        let told = bursts.ended(1000 + QUIET_MS);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].text, "refusal 99: the last of 99 within 60 s");
        // The storm goes on: it is still not told singly.
        assert!(bursts.admit(refused("a", 1), 62_000).is_none());
        assert_eq!(bursts.ended(130_000)[0].text, "refusal 1");
        // Silence for a while: the next event is told at once.
        assert!(bursts.ended(200_000).is_empty());
        assert!(bursts.admit(refused("a", 5), 200_001).is_some());
    }

    #[test]
    fn many_sources_take_bounded_memory() {
        let mut bursts = Bursts::default();
        let kept = (0..100_000_u64).filter_map(|at| bursts.admit(refused(&at.to_string(), at), 0));
        assert_eq!(kept.count(), MAX_SOURCES + 1);
        assert!(bursts.sources.len() <= MAX_SOURCES + 1);
        assert_eq!(bursts.ended(QUIET_MS).len(), 1);
    }

    #[test]
    fn events_without_a_source_are_all_kept() {
        let mut bursts = Bursts::default();
        let one = Occurrence::new(Severity::Info, Topic::Config, "lu a", "created");
        assert_eq!(bursts.admit(one.clone(), 0), Some(one.clone()));
        assert_eq!(bursts.admit(one.clone(), 0), Some(one));
    }
}

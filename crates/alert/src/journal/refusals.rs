//! Logins that were refused lately, counted for each initiator, so that an alert can tell of those
//! that are refused again and again.

use std::collections::{BTreeMap, VecDeque};

use model::event::Occurrence;

/// Time for which a refusal counts, in milliseconds.
pub const WINDOW_MS: u64 = 600_000;
/// Most initiators that are remembered.
const MAX_INITIATORS: usize = 256;
/// Most refusals of one initiator that are remembered.
const MAX_TIMES: usize = 100;

/// An initiator whose logins were refused lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedLogins {
    /// Name of the initiator, or its address if it gave no name.
    pub initiator: String,
    /// Number of refusals within [`WINDOW_MS`], at most 100.
    pub count: usize,
    /// Description of the last refusal.
    pub text: String,
    /// Step to take.
    pub next: Option<String>,
}

/// Refusals by initiator.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    initiators: BTreeMap<String, Refused>,
}

#[derive(Debug)]
struct Refused {
    times_ms: VecDeque<u64>,
    last: Occurrence,
}

impl Refusals {
    /// Counts a refusal.
    pub(super) fn note(&mut self, occurrence: &Occurrence, now_ms: u64) {
        let name = &occurrence.object;
        if !self.initiators.contains_key(name) && self.initiators.len() >= MAX_INITIATORS {
            let all = self.initiators.iter();
            let oldest = all.min_by_key(|(_, of)| of.times_ms.back().copied());
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.initiators.remove(&oldest);
            }
        }
        let refused = self
            .initiators
            .entry(name.clone())
            .or_insert_with(|| Refused {
                times_ms: VecDeque::new(),
                last: occurrence.clone(),
            });
        if refused.times_ms.len() >= MAX_TIMES {
            refused.times_ms.pop_front();
        }
        refused.times_ms.push_back(now_ms);
        refused.last = occurrence.clone();
    }

    /// Forgets the refusals of an initiator that logged in: what was wrong is mended.
    pub(super) fn forget(&mut self, initiator: &str) {
        self.initiators.remove(initiator);
    }

    /// Returns the refusals that still count, and forgets the others.
    pub(super) fn within(&mut self, now_ms: u64) -> Vec<RefusedLogins> {
        self.initiators.retain(|_, refused| {
            let times = &mut refused.times_ms;
            times.retain(|time| time.saturating_add(WINDOW_MS) > now_ms);
            !times.is_empty()
        });
        let all = self.initiators.iter();
        all.map(|(initiator, refused)| RefusedLogins {
            initiator: initiator.clone(),
            count: refused.times_ms.len(),
            text: refused.last.text.clone(),
            next: refused.last.next.clone(),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::event::{Severity, Topic};

    fn refused(name: &str) -> Occurrence {
        Occurrence::new(Severity::Warning, Topic::Login, name, "refused")
    }

    #[test]
    fn refusals_count_for_a_while() {
        let mut refusals = Refusals::default();
        for at in 0..7 {
            refusals.note(&refused("esx1"), at * 60_000);
        }
        assert_eq!(refusals.within(WINDOW_MS - 1)[0].count, 7);
        assert_eq!(refusals.within(WINDOW_MS + 120_000)[0].count, 4);
        assert!(refusals.within(2 * WINDOW_MS).is_empty());
    }

    #[test]
    fn hostile_names_take_bounded_memory() {
        let mut refusals = Refusals::default();
        for at in 0..10_000_u64 {
            refusals.note(&refused(&format!("iqn.{at}")), at);
            refusals.note(&refused("iqn.9999"), at);
        }
        let within = refusals.within(10_000);
        assert_eq!(within.len(), MAX_INITIATORS);
        assert!(within.iter().any(|of| of.count == MAX_TIMES));
    }
}

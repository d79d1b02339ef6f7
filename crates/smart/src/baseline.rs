//! Baselines of disks: the counts of errors with which each disk came, and what has grown since.
//!
//! A count that grew is an alarm for a month. Then the new count becomes the baseline: a disk that
//! lost some sectors long ago, and none since, is not worth waking anybody for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::Report;
use model::disk::{DiskHealth, DiskVerdict};

/// Time for which growth is told, in milliseconds.
const TOLD_MS: u64 = 30 * 86_400_000;
/// Used part of a disk's rated life from which it is told, in per cent.
const WORN_PERCENT: u64 = 100;
/// Time after which a disk that is gone is forgotten, in milliseconds.
const FORGOTTEN_MS: u64 = 365 * 86_400_000;

/// Baselines of all disks that were ever asked, by the disks' identities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Baselines(BTreeMap<String, Baseline>);

/// Baseline of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Baseline {
    seen_ms: u64,
    counts: BTreeMap<String, Count>,
}

/// Count of errors of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    baseline: u64,
    latest: u64,
    /// Time at which the count last grew, in milliseconds since 1970.
    grown_ms: Option<u64>,
}

impl Count {
    fn of(count: u64) -> Self {
        Self {
            baseline: count,
            latest: count,
            grown_ms: None,
        }
    }

    fn take(&mut self, count: u64, now_ms: u64) {
        if count > self.latest {
            self.grown_ms = Some(now_ms);
        }
        self.latest = count;
        let is_old = |at_ms: u64| now_ms.saturating_sub(at_ms) >= TOLD_MS;
        if count <= self.baseline || self.grown_ms.is_some_and(is_old) {
            *self = Self::of(count);
        }
    }

    fn growth(&self) -> u64 {
        self.latest - self.baseline
    }
}

impl Baselines {
    /// Takes a disk's report, and returns its health.
    pub(crate) fn judge(&mut self, disk: &str, report: Report, now_ms: u64) -> DiskHealth {
        let baseline = self.0.entry(disk.to_owned()).or_default();
        baseline.seen_ms = now_ms;
        for (what, count) in &report.counts {
            let known = baseline.counts.entry(what.clone());
            known.or_insert(Count::of(*count)).take(*count, now_ms);
        }
        let grown = baseline.counts.iter().filter(|(_, of)| of.growth() > 0);
        let grown = grown.map(|(what, of)| format!("{} {what} more than before", of.growth()));
        let mut wearing: Vec<String> = grown.collect();
        if let Some(used) = report.used_percent.filter(|used| *used >= WORN_PERCENT) {
            wearing.push(format!("{used} % of its rated life are used"));
        }
        let verdict = match () {
            () if !report.failing.is_empty() => DiskVerdict::Failing,
            () if !wearing.is_empty() => DiskVerdict::Wearing,
            () => DiskVerdict::Well,
        };
        DiskHealth {
            verdict,
            reasons: report.failing.into_iter().chain(wearing).collect(),
            temperature_c: report.temperature_c,
            power_on_hours: report.power_on_hours,
            used_percent: report.used_percent,
            counts: report.counts,
            asked_ms: now_ms,
        }
    }

    /// Forgets disks that have been gone for a year.
    pub(crate) fn forget(&mut self, now_ms: u64) {
        self.0
            .retain(|_, of| now_ms.saturating_sub(of.seen_ms) < FORGOTTEN_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn counting(count: u64) -> Report {
        Report {
            passed: Some(true),
            counts: [("media errors".to_owned(), count)].into(),
            ..Report::default()
        }
    }

    fn told(baselines: &mut Baselines, count: u64, day: u64) -> (DiskVerdict, Vec<String>) {
        let health = baselines.judge("S1", counting(count), day * DAY_MS);
        (health.verdict, health.reasons)
    }

    fn wearing(words: &str) -> (DiskVerdict, Vec<String>) {
        (DiskVerdict::Wearing, vec![words.to_owned()])
    }

    const WELL: (DiskVerdict, Vec<String>) = (DiskVerdict::Well, Vec::new());

    #[test]
    fn errors_of_old_are_no_alarm_and_new_ones_are() {
        let mut known = Baselines::default();
        assert_eq!(told(&mut known, 40, 0), WELL);
        assert_eq!(told(&mut known, 40, 1), WELL);
        let grown = wearing("2 media errors more than before");
        assert_eq!(told(&mut known, 42, 2), grown);
        assert_eq!(told(&mut known, 42, 31), grown);
        // After a month without more, they are errors of old.
        assert_eq!(told(&mut known, 42, 32), WELL);
        assert_eq!(
            told(&mut known, 43, 33),
            wearing("1 media errors more than before")
        );
    }

    #[test]
    fn growth_goes_on_being_told_while_it_goes_on() {
        let mut known = Baselines::default();
        assert_eq!(told(&mut known, 0, 0), WELL);
        for (day, count) in [(10, 1), (35, 2), (60, 3)] {
            let words = format!("{count} media errors more than before");
            assert_eq!(told(&mut known, count, day), wearing(&words));
        }
    }

    #[test]
    fn sectors_that_were_saved_end_the_alarm() {
        let mut known = Baselines::default();
        assert_eq!(told(&mut known, 0, 0), WELL);
        assert_eq!(told(&mut known, 8, 1).0, DiskVerdict::Wearing);
        assert_eq!(told(&mut known, 0, 2), WELL);
        assert_eq!(told(&mut known, 8, 3).0, DiskVerdict::Wearing);
    }

    #[test]
    fn what_the_disk_calls_failed_comes_first() {
        let mut known = Baselines::default();
        let report = Report {
            failing: vec!["it says that it fails".to_owned()],
            used_percent: Some(103),
            ..Report::default()
        };
        let health = known.judge("S1", report, 0);
        assert_eq!(health.verdict, DiskVerdict::Failing);
        assert_eq!(
            health.reasons,
            ["it says that it fails", "103 % of its rated life are used"]
        );
        let worn = Report {
            used_percent: Some(99),
            ..Report::default()
        };
        assert_eq!(known.judge("S1", worn, 0).verdict, DiskVerdict::Well);
    }

    #[test]
    fn disks_are_told_apart_and_forgotten_after_a_year() {
        let mut known = Baselines::default();
        known.judge("S1", counting(5), 0);
        known.judge("S2", counting(0), 100 * DAY_MS);
        assert_eq!(
            known.judge("S2", counting(5), 100 * DAY_MS).verdict,
            DiskVerdict::Wearing
        );
        known.forget(365 * DAY_MS);
        assert_eq!(known.0.keys().collect::<Vec<_>>(), ["S2"]);
    }
}

//! The book of alerts: findings of each second become alerts that open, are told, repeat and end.
//!
//! # Rules
//! - An alert is known by its condition and its object. It opens when the condition has held for
//!   its hold. Gaps that are shorter than the hold, or than [`MIN_GAP_MS`], do not count: a
//!   condition that comes and goes opens one alert, and is told once.
//! - An open alert is told again each day, unless somebody acknowledged it.
//! - An alert ends when its condition has not held for as long as a gap may be. The end is told.
//!   Until then the alert says that its condition is over, and asks for nothing more.
//! - Open alerts outlive a restart. Those that were not open yet begin anew.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::condition::{Condition, condition};
use crate::facts::Finding;
use crate::watch::Moment;
use model::alert::{Acknowledgement, AlertView};

/// Shortest time without a finding that ends an alert, in milliseconds.
pub const MIN_GAP_MS: u64 = 30_000;
/// Time after which an open alert is told again, in milliseconds.
pub const AGAIN_MS: u64 = 86_400_000;
/// Number of ended alerts that are kept.
const ENDED_KEPT: usize = 200;
/// Most alerts at once. Objects may bear names that others choose.
const MAX_ALERTS: usize = 4096;

/// News about an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// The alert opened.
    Opened,
    /// The alert is still open after a day.
    StillOpen,
    /// The alert ended.
    Ended,
    /// Nothing happened: somebody tests a way out.
    Test,
}

/// News about an alert, to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Kind of the news.
    pub news: News,
    /// The alert, as it is now.
    pub alert: AlertView,
}

/// All alerts, with their memory of the last seconds.
#[derive(Debug, Default)]
pub struct Book {
    last_number: u64,
    alerts: BTreeMap<(String, String), Entry>,
    ended: VecDeque<AlertView>,
    /// Number of changes of what outlives a restart.
    changes: u64,
    /// Time of the last moment that was taken over, in milliseconds of this run.
    taken_run_ms: u64,
}

#[derive(Debug)]
struct Entry {
    condition: &'static Condition,
    alert: AlertView,
    is_open: bool,
    /// Time of the first finding, in milliseconds of this run.
    began_run_ms: u64,
    /// Time of the last finding, in milliseconds of this run.
    seen_run_ms: u64,
}

/// Part of the book that outlives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptBook {
    last_number: u64,
    open: Vec<AlertView>,
    ended: Vec<AlertView>,
}

impl Entry {
    fn gap_ms(&self) -> u64 {
        (self.condition.hold_s * 1000).max(MIN_GAP_MS)
    }

    /// Returns the alert as it is shown at a moment. If its condition no longer holds, its remedy
    /// would mislead: it names devices or paths that are in order again.
    fn shown(&self, taken_run_ms: u64) -> AlertView {
        let mut alert = self.alert.clone();
        if self.seen_run_ms < taken_run_ms {
            alert.text = format!("This no longer holds: {}", alert.text);
            alert.next = format!(
                "nothing: the alert ends by itself when this has stayed so for {} s",
                self.gap_ms() / 1000
            );
        }
        alert
    }
}

impl Book {
    /// Restores the book that an earlier run kept. Alerts of conditions that this version no longer
    /// knows have ended.
    pub fn restored(kept: KeptBook, now: Moment) -> Self {
        let entry = |alert: AlertView| {
            let condition = condition(&alert.condition)?;
            let key = (alert.condition.clone(), alert.object.clone());
            let entry = Entry {
                condition,
                alert,
                is_open: true,
                began_run_ms: now.run_ms,
                seen_run_ms: now.run_ms,
            };
            Some((key, entry))
        };
        Self {
            last_number: kept.last_number,
            alerts: kept.open.into_iter().filter_map(entry).collect(),
            ended: kept.ended.into(),
            changes: 0,
            taken_run_ms: now.run_ms,
        }
    }

    /// Returns what is to outlive a restart.
    pub fn kept(&self) -> KeptBook {
        KeptBook {
            last_number: self.last_number,
            open: self.open_as(|entry| entry.alert.clone()),
            ended: self.ended.iter().cloned().collect(),
        }
    }

    /// Returns the number of changes of [`Self::kept`] so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the open alerts, the gravest first, and of these the oldest first.
    pub fn open(&self) -> Vec<AlertView> {
        self.open_as(|entry| entry.shown(self.taken_run_ms))
    }

    fn open_as(&self, view: impl Fn(&Entry) -> AlertView) -> Vec<AlertView> {
        let open = self.alerts.values().filter(|entry| entry.is_open);
        let mut open: Vec<AlertView> = open.map(view).collect();
        open.sort_by_key(|alert| {
            (
                std::cmp::Reverse(alert.severity),
                alert.since_ms,
                alert.number,
            )
        });
        open
    }

    /// Returns the alerts that ended, the latest first.
    pub fn ended(&self) -> Vec<AlertView> {
        self.ended.iter().rev().cloned().collect()
    }

    /// Takes over the findings of a moment, and returns the news.
    pub fn take(&mut self, findings: Vec<Finding>, now: Moment) -> Vec<Notice> {
        self.taken_run_ms = now.run_ms;
        for finding in findings {
            self.note(finding, now);
        }
        let mut news = Vec::new();
        for entry in self.alerts.values_mut() {
            let is_there = entry.seen_run_ms == now.run_ms;
            let held_ms = now.run_ms.saturating_sub(entry.began_run_ms);
            let told_ms = &mut entry.alert.told_ms;
            // A clock that was set back would otherwise silence the alert for long.
            *told_ms = (*told_ms).min(now.wall_ms);
            let is_due = now.wall_ms - *told_ms >= AGAIN_MS && entry.alert.acknowledged.is_none();
            let what = match entry.is_open {
                false if is_there && held_ms >= entry.condition.hold_s * 1000 => News::Opened,
                true if is_there && is_due => News::StillOpen,
                _ => continue,
            };
            if what == News::Opened {
                self.last_number += 1;
                entry.alert.number = self.last_number;
                entry.is_open = true;
            }
            entry.alert.told_ms = now.wall_ms;
            let alert = entry.alert.clone();
            news.push(Notice { news: what, alert });
        }
        news.extend(self.end_those_that_are_over(now));
        self.changes += u64::try_from(news.len()).unwrap_or(u64::MAX);
        news
    }

    /// Notes who knows of an alert. Returns the alert, or `None` if none of this number is open.
    pub fn acknowledge(&mut self, number: u64, by: &str, now: Moment) -> Option<AlertView> {
        let mut entries = self.alerts.values_mut();
        let entry = entries.find(|entry| entry.is_open && entry.alert.number == number)?;
        entry.alert.acknowledged = Some(Acknowledgement {
            by: by.to_owned(),
            at_ms: now.wall_ms,
        });
        self.changes += 1;
        Some(entry.alert.clone())
    }

    /// Takes back that somebody knows of an alert. Returns the alert, or `None` if none of this
    /// number is open.
    pub fn unacknowledge(&mut self, number: u64) -> Option<AlertView> {
        let mut entries = self.alerts.values_mut();
        let entry = entries.find(|entry| entry.is_open && entry.alert.number == number)?;
        if entry.alert.acknowledged.take().is_some() {
            self.changes += 1;
        }
        Some(entry.alert.clone())
    }

    fn note(&mut self, finding: Finding, now: Moment) {
        let key = (finding.condition.id.to_owned(), finding.object.clone());
        let is_room = self.alerts.len() < MAX_ALERTS;
        if !is_room && !self.alerts.contains_key(&key) {
            return;
        }
        let entry = self.alerts.entry(key).or_insert_with(|| Entry {
            condition: finding.condition,
            alert: AlertView {
                condition: finding.condition.id.to_owned(),
                object: finding.object,
                severity: finding.condition.severity,
                since_ms: now.wall_ms,
                ..AlertView::default()
            },
            is_open: false,
            began_run_ms: now.run_ms,
            seen_run_ms: now.run_ms,
        });
        entry.seen_run_ms = now.run_ms;
        entry.alert.text = finding.text;
        entry.alert.next = finding.next;
    }

    /// Ends the alerts whose conditions have not held for long enough, and returns the news.
    fn end_those_that_are_over(&mut self, now: Moment) -> Vec<Notice> {
        let mut over = Vec::new();
        self.alerts.retain(|_, entry| {
            let is_over = now.run_ms.saturating_sub(entry.seen_run_ms) > entry.gap_ms();
            if is_over && entry.is_open {
                over.push((entry.condition, entry.alert.clone()));
            }
            !is_over
        });
        let mut news = Vec::new();
        for (condition, mut alert) in over {
            alert.ended_ms = Some(now.wall_ms);
            let ranks = condition.outranked_by.iter();
            let worse = ranks.map(|id| ((*id).to_owned(), alert.object.clone()));
            let is_outranked = worse
                .filter_map(|key| self.alerts.get(&key))
                .any(|entry| entry.is_open);
            self.ended.push_back(alert.clone());
            if self.ended.len() > ENDED_KEPT {
                self.ended.pop_front();
            }
            self.changes += 1;
            if !is_outranked {
                let what = News::Ended;
                news.push(Notice { news: what, alert });
            }
        }
        news
    }
}

#[cfg(test)]
mod tests;

//! Gathers repeated log lines into one line and a count.
//!
//! The first line of a group is written at once. Lines that follow are counted. Their sum is
//! written at the end of each interval. When an interval passes without any line, a last sum over
//! all intervals is written.
//!
//! Memory is bounded. A kind is a place in the program, so there are few kinds. A kind has at most
//! [`MOST_OF_A_KIND`] groups; further objects and clients share one more. A client that makes up
//! names therefore fills neither memory nor disk.
//!
//! Callers pass the time as an argument.

use std::collections::HashMap;
use std::time::Duration;

use super::line::{CallSite, Line};

/// Interval after the first line of a group.
pub(super) const FIRST: Duration = Duration::from_secs(10);
/// Length of each later interval, while lines still come.
pub(super) const LATER: Duration = Duration::from_secs(60);
/// Most groups of one kind that are kept apart.
pub(super) const MOST_OF_A_KIND: usize = 16;

/// All open groups.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    kinds: HashMap<CallSite, HashMap<String, Group>>,
}

/// Lines of one kind about one object and client.
#[derive(Debug)]
struct Group {
    /// Time at which the first line was written.
    since: Duration,
    /// Time at which the sum of this interval is due.
    due: Duration,
    /// Number of lines of this interval that were held back.
    held: u64,
    /// Number of all lines, including the first, which was written at once.
    total: u64,
    /// Number of sums written so far.
    sums: u32,
    /// Newest line.
    last: Line,
    /// Length of the present interval.
    interval: Duration,
}

/// Sum of a group that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// Newest line of the group.
    pub(super) line: Line,
    /// Text that gives the number of lines, and their time span.
    pub(super) count: String,
}

impl Gathering {
    /// Notes a line, and reports whether to write it at once.
    pub(super) fn note(&mut self, now: Duration, line: Line) -> bool {
        let groups = self.kinds.entry(line.kind).or_default();
        let is_known = groups.contains_key(&line.about);
        let about = match is_known || groups.len() < MOST_OF_A_KIND {
            true => line.about.clone(),
            // Every line has a subject, so the empty key stands for the shared group of all others.
            false => String::new(),
        };
        if let Some(group) = groups.get_mut(&about) {
            group.held += 1;
            group.total += 1;
            group.last = line;
            return false;
        }
        let group = Group {
            since: now,
            due: now + FIRST,
            held: 0,
            total: 1,
            sums: 0,
            last: line,
            interval: FIRST,
        };
        groups.insert(about, group);
        true
    }

    /// Returns the time at which to call [`Self::sums`]; `None` if only a new line can make one
    /// due.
    pub(super) fn due(&self) -> Option<Duration> {
        let groups = self.kinds.values().flat_map(HashMap::values);
        groups.map(|group| group.due).min()
    }

    /// Returns the sums that are due, and forgets groups that ended.
    pub(super) fn sums(&mut self, now: Duration) -> Vec<Sum> {
        let mut sums = Vec::new();
        for groups in self.kinds.values_mut() {
            groups.retain(|about, group| {
                if now < group.due {
                    return true;
                }
                sums.extend(group.sum(now, about.is_empty()));
                let goes_on = group.held > 0;
                group.held = 0;
                group.interval = LATER;
                group.due = now + LATER;
                goes_on
            });
        }
        self.kinds.retain(|_, groups| !groups.is_empty());
        sums
    }

    /// Returns the sums of all lines held back, when the program ends.
    pub(super) fn finish(&mut self, now: Duration) -> Vec<Sum> {
        let kinds = std::mem::take(&mut self.kinds);
        let groups = kinds.into_values().flatten();
        let held = groups.filter(|(_, group)| group.held > 0);
        held.filter_map(|(about, mut group)| group.sum(now, about.is_empty()))
            .collect()
    }
}

impl Group {
    /// Returns the sum to write when an interval ends; `None` if every line was written.
    fn sum(&mut self, now: Duration, is_of_others: bool) -> Option<Sum> {
        let seconds = |time: Duration| time.as_secs().max(1);
        let others = if is_of_others {
            ", and others like it"
        } else {
            ""
        };
        let count = match (self.held, self.sums) {
            (0, 0 | 1) => return None,
            (0, _) => format!(
                "{} times in {} s, no longer{others}",
                self.total,
                seconds(now.saturating_sub(self.since).saturating_sub(self.interval))
            ),
            (held, _) => {
                let began = self.due.saturating_sub(self.interval);
                let span = now.saturating_sub(began);
                format!("{held} more in {} s{others}", seconds(span))
            }
        };
        self.sums += 1;
        Some(Sum {
            line: self.last.clone(),
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn line(at: u32, about: &str) -> Line {
        Line {
            level: Level::WARN,
            kind: ("a.rs", at),
            about: about.to_owned(),
            text: format!("it failed, {about}"),
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn counts(sums: &[Sum]) -> Vec<&str> {
        sums.iter().map(|sum| sum.count.as_str()).collect()
    }

    #[test]
    fn the_first_line_is_written_at_once_and_the_others_as_a_sum() {
        let mut gathering = Gathering::default();
        assert_eq!(gathering.due(), None, "nothing is waited for");
        assert!(gathering.note(at(0), line(1, "vm1")));
        let repeated = (0..100).filter(|_| gathering.note(at(0), line(1, "vm1")));
        assert_eq!(repeated.count(), 0);
        assert_eq!(gathering.due(), Some(FIRST));
        assert!(gathering.sums(at(9)).is_empty());
        let sums = gathering.sums(at(10));
        assert_eq!(counts(&sums), ["100 more in 10 s"]);
        assert_eq!(sums[0].line.text, "it failed, vm1");
        // The group ended, and every line was written.
        assert!(gathering.sums(at(70)).is_empty());
        assert_eq!(gathering.due(), None);
        assert!(gathering.note(at(71), line(1, "vm1")), "it begins anew");
    }

    #[test]
    fn what_goes_on_has_a_sum_for_each_interval_and_one_at_its_end() {
        let mut gathering = Gathering::default();
        let mut told = Vec::new();
        for second in 0..200 {
            for _ in 0..5 {
                if second < 130 && gathering.note(at(second), line(1, "vm1")) {
                    told.push("first".to_owned());
                }
            }
            let sums = gathering.sums(at(second));
            told.extend(sums.into_iter().map(|sum| sum.count));
        }
        let expected = [
            "first",
            "54 more in 10 s",
            "300 more in 60 s",
            "295 more in 60 s",
            "650 times in 130 s, no longer",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn another_kind_object_or_client_has_a_line_of_its_own() {
        let mut gathering = Gathering::default();
        assert!(gathering.note(at(0), line(1, "vm1")));
        assert!(gathering.note(at(0), line(1, "vm2")));
        assert!(gathering.note(at(0), line(2, "vm1")));
        assert!(!gathering.note(at(1), line(2, "vm1")));
    }

    #[test]
    fn whoever_makes_up_names_fills_neither_memory_nor_log() {
        let mut gathering = Gathering::default();
        let mut written = 0;
        for number in 0..100_000 {
            let now = Duration::from_millis(number);
            written += usize::from(gathering.note(now, line(1, &format!("name {number}"))));
            written += gathering.sums(now).len();
        }
        let groups: usize = gathering.kinds.values().map(HashMap::len).sum();
        assert!(groups <= MOST_OF_A_KIND + 1, "{groups} groups");
        // The lines took 100 s.
        assert!(written < 200, "{written} lines");
        let last = gathering.finish(at(100));
        assert!(
            last.iter()
                .any(|sum| sum.count.ends_with(", and others like it")),
            "{last:?}"
        );
    }

    #[test]
    fn nothing_that_was_held_is_lost_when_the_program_ends() {
        let mut gathering = Gathering::default();
        gathering.note(at(0), line(1, "vm1"));
        gathering.note(at(0), line(1, "vm2"));
        gathering.note(at(3), line(1, "vm2"));
        assert_eq!(counts(&gathering.finish(at(4))), ["1 more in 4 s"]);
        assert!(gathering.finish(at(5)).is_empty());
    }
}

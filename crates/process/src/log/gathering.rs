//! Repeated lines become one line and a count.
//!
//! The first line of a group is written at once. Those that follow are counted. Their sum is
//! written when the interval ends, and once more, over all intervals, when one passes without any.
//!
//! Memory is bounded: kinds are places in the program, of which there are few. A kind has
//! [`MOST_OF_A_KIND`] groups at most; further objects and clients share one more. So a client that
//! makes up names fills neither memory nor disk.
//!
//! Time is an argument.

use std::collections::HashMap;
use std::time::Duration;

use super::line::{Kind, Line};

/// The interval after the first line of a group.
pub(super) const FIRST: Duration = Duration::from_secs(10);
/// The intervals that follow where it goes on.
pub(super) const LATER: Duration = Duration::from_secs(60);
/// Groups of one kind that are kept apart.
pub(super) const MOST_OF_A_KIND: usize = 16;

/// All groups that are open.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    kinds: HashMap<Kind, HashMap<String, Group>>,
}

/// Lines of one kind about one object and client.
#[derive(Debug)]
struct Group {
    /// When its first line was written.
    since: Duration,
    /// When the sum of this interval is due.
    due: Duration,
    /// Lines of this interval that were not written.
    held: u64,
    /// All lines, with the one that was written at once.
    total: u64,
    /// Sums that were written.
    sums: u32,
    /// The newest line.
    last: Line,
    /// How long this interval is.
    interval: Duration,
}

/// A line to be written of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// The newest line of it.
    pub(super) line: Line,
    /// How often, and in which time.
    pub(super) count: String,
}

impl Gathering {
    /// Takes note of a line. Whether it is to be written at once.
    pub(super) fn note(&mut self, now: Duration, line: Line) -> bool {
        let groups = self.kinds.entry(line.kind).or_default();
        let is_known = groups.contains_key(&line.about);
        let about = match is_known || groups.len() < MOST_OF_A_KIND {
            true => line.about.clone(),
            // No line is about nothing: this one is of all others.
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

    /// When [`Self::sums`] is to be called; `None`: not before the next line.
    pub(super) fn due(&self) -> Option<Duration> {
        let groups = self.kinds.values().flat_map(HashMap::values);
        groups.map(|group| group.due).min()
    }

    /// The sums that are due. Groups that ended are forgotten.
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

    /// The sums of all that is held: the program ends.
    pub(super) fn finish(&mut self, now: Duration) -> Vec<Sum> {
        let kinds = std::mem::take(&mut self.kinds);
        let groups = kinds.into_values().flatten();
        let held = groups.filter(|(_, group)| group.held > 0);
        held.filter_map(|(about, mut group)| group.sum(now, about.is_empty()))
            .collect()
    }
}

impl Group {
    /// The line to be written when an interval ends; none where all of it was told.
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
                "{} times in {} s, not any more{others}",
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
        // It ended, and all of it was told.
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
            "650 times in 130 s, not any more",
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
        // In 100 s.
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

//! Latest events of a pool, for `pool events`.
//!
//! A failing device fails thousands of times. Of equal events on one device only the first is told,
//! then the number of the others.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use store::vdev::LeafId;

use crate::clock::wall_clock_s;
use crate::fullness::{Fill, Fullness};
use model::pool::history::Happening;

/// Number of lines that are kept.
const KEPT: usize = 500;
/// Time for which an event is not told again.
const QUIET: Duration = Duration::from_secs(10);

/// Latest events of a pool.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    lines: VecDeque<Happening>,
    /// Number of lines that are no longer kept.
    dropped: u64,
    /// Repeated events, by the device (if the event has one) and the kind.
    bursts: HashMap<(Option<LeafId>, &'static str), Burst>,
    /// Fill level of the pool when it was last told.
    fill: Fill,
}

#[derive(Debug)]
struct Burst {
    until: Instant,
    /// Number of times since the event was last told, and the last of them.
    more: u64,
    last: Option<Happening>,
}

impl EventLog {
    /// Returns everything, oldest first. Lines that are no longer kept, and events that were not
    /// told singly, appear as numbers.
    pub(crate) fn all(&self) -> Vec<Happening> {
        let first = self.lines.front().filter(|_| self.dropped > 0);
        let dropped = first.map(|first| Happening {
            time_s: first.time_s,
            text: format!("{} earlier events are no longer kept", self.dropped),
        });
        let bursts = self.bursts.values();
        let untold = bursts.filter_map(|burst| {
            let last = burst.last.as_ref()?;
            let text = format!(
                "{}: the last of {} since the previous report",
                last.text, burst.more
            );
            Some(Happening {
                text,
                time_s: last.time_s,
            })
        });
        let mut untold: Vec<Happening> = untold.collect();
        untold.sort_by(|a, b| (a.time_s, &a.text).cmp(&(b.time_s, &b.text)));
        let kept = self.lines.iter().cloned();
        dropped.into_iter().chain(kept).chain(untold).collect()
    }

    /// Keeps a line.
    pub(crate) fn note(&mut self, text: &str) {
        if self.lines.len() >= KEPT {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(happening(text));
    }

    /// Returns the fill level of the pool, if it is higher than the level told last.
    pub(crate) fn is_fuller(&mut self, now: Fullness) -> Option<Fill> {
        let before = self.fill;
        self.fill = now.after(before);
        (self.fill > before).then_some(self.fill)
    }

    /// Returns the words for an event of this kind, if it is to be told now.
    pub(crate) fn told(
        &mut self,
        leaf: Option<LeafId>,
        what: &'static str,
        text: String,
    ) -> Option<String> {
        Some(match self.is_told(leaf, what, &text, Instant::now())? {
            0 => text,
            more => format!("{text}, and {more} times since the previous report"),
        })
    }

    /// Returns the number of untold events of this kind, if the kind is to be told now.
    fn is_told(
        &mut self,
        leaf: Option<LeafId>,
        what: &'static str,
        text: &str,
        now: Instant,
    ) -> Option<u64> {
        let until = now + QUIET;
        match self.bursts.get_mut(&(leaf, what)) {
            Some(burst) if burst.until > now => {
                burst.more += 1;
                burst.last = Some(happening(text));
                None
            }
            Some(burst) => {
                burst.until = until;
                burst.last = None;
                Some(std::mem::take(&mut burst.more))
            }
            None => {
                let burst = Burst {
                    until,
                    more: 0,
                    last: None,
                };
                self.bursts.insert((leaf, what), burst);
                Some(0)
            }
        }
    }
}

/// Returns an event with the present time.
fn happening(text: &str) -> Happening {
    Happening {
        time_s: wall_clock_s(),
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_and_then_counted() {
        let mut log = EventLog::default();
        let (leaf, start) = (LeafId(1), Instant::now());
        let told: Vec<Option<u64>> = (0..25)
            .map(|second| {
                let now = start + Duration::from_secs(second);
                log.is_told(Some(leaf), "error", "it failed", now)
            })
            .collect();
        let heard: Vec<(usize, u64)> = told
            .iter()
            .enumerate()
            .filter_map(|(at, more)| Some((at, (*more)?)))
            .collect();
        assert_eq!(heard, [(0, 0), (10, 9), (20, 9)]);
        // The last events are not told singly, but are not hidden either.
        let all = log.all();
        assert_eq!(all.len(), 1);
        assert_eq!(
            all[0].text,
            "it failed: the last of 4 since the previous report"
        );
        assert_eq!(log.is_told(Some(LeafId(2)), "error", "", start), Some(0));
    }

    #[test]
    fn only_the_last_lines_are_kept_and_it_is_told_how_many_were_not() {
        let mut log = EventLog::default();
        (0..KEPT + 3).for_each(|number| log.note(&number.to_string()));
        let all = log.all();
        let first: Vec<&str> = all.iter().take(2).map(|of| of.text.as_str()).collect();
        assert_eq!(first, ["3 earlier events are no longer kept", "3"]);
        assert_eq!(all.len(), KEPT + 1);
    }
}

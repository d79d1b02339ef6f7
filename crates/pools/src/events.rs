//! Events of a pool, in words: for the log, and the latest for `pool events`.
//!
//! A failing device fails thousands of times. Of equal events on one device only the first is told,
//! then the number of the others.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use store::pool::{Event, Pool, ScanKind, ScanState, Short, TrimState};
use store::vdev::{DeviceErrorKind, LeafId, VdevEvent, VdevState};

use super::fullness::{Fill, Fullness};
use crate::import::opening::wall_clock_s;
use crate::progress::{scan, trim};
use crate::shared::Shared;
use model::event::Severity;
use model::pool::history::Happening;
use model::quantity::format_size;

/// Number of lines that are kept.
const KEPT: usize = 500;
/// Time for which an event is not told again.
const QUIET: Duration = Duration::from_secs(10);

/// Latest events of a pool.
#[derive(Debug, Default)]
pub(super) struct EventLog {
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
    pub(super) fn all(&self) -> Vec<Happening> {
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
    pub(super) fn note(&mut self, text: &str) {
        if self.lines.len() >= KEPT {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(happening(text));
    }

    /// Returns the fill level of the pool, if it is higher than the level told last.
    fn is_fuller(&mut self, now: Fullness) -> Option<Fill> {
        let before = self.fill;
        self.fill = now.after(before);
        (self.fill > before).then_some(self.fill)
    }

    /// Returns the words for an event of this kind, if it is to be told now.
    fn told(&mut self, leaf: Option<LeafId>, what: &'static str, text: String) -> Option<String> {
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

/// Words an event about free space. `device_of` names a leaf by its guid.
fn of_space(event: &Event, device_of: impl Fn(u64) -> String) -> Option<String> {
    match event {
        Event::WrittenOnce { blocks } => Some(format!(
            "no space is left for second copies of metadata: {blocks} blocks have one copy only, on devices \
             without redundancy. Free space, or add a vdev; blocks that change are then written twice again"
        )),
        Event::Trim { leaf, state, bytes } => {
            let text = trim::event(*state, *bytes);
            Some(format!("{}: {text}", device_of(*leaf)))
        }
        Event::TrimUnsupported { leaf } => {
            Some(format!("{}: the device cannot trim", device_of(*leaf)))
        }
        _ => None,
    }
}

/// Logs an event and keeps it.
pub(super) fn tell(event: &Event, pool: &Pool, shared: &Shared) {
    let name = shared.name();
    let device_of = |guid: u64| {
        let path = shared.places().get(&guid).map(|at| at.path.clone());
        path.map_or_else(|| format!("{guid:016x}"), |path| path.display().to_string())
    };
    let device = |leaf: LeafId| device_of(pool.guid(leaf).unwrap_or(0));
    let told = |leaf: Option<LeafId>, what: &'static str, text: String| {
        shared.event_log().told(leaf, what, text)
    };
    let burst = |leaf: LeafId, what: &'static str, text: String| {
        told(Some(leaf), what, format!("{}: {text}", device(leaf)))
    };
    let text = match event {
        Event::Checkpoint { epoch } => {
            tracing::debug!(pool = name, epoch, "checkpoint");
            let now = Fullness::of(&pool.status());
            let fuller = shared.event_log().is_fuller(now);
            fuller.map(|fill| format!("{}; {}", fill.told(), now.told()))
        }
        Event::Suspended { reason } => {
            tracing::error!(pool = name, reason, "the pool takes no changes any more");
            let text = format!("the pool takes no changes any more: {reason}");
            shared.note(Severity::Critical, &text);
            None
        }
        Event::WrittenOnce { .. } | Event::Trim { .. } | Event::TrimUnsupported { .. } => {
            of_space(event, device_of)
        }
        Event::SpareInUse { leaf, .. } => Some(format!("{}: the spare is in use", device(*leaf))),
        Event::Behind { behind } => Some(format!(
            "{} holds an old copy: {}. The device is being rebuilt from the others, and does not count until \
             then",
            device_of(behind.leaf),
            behind.told()
        )),
        Event::LabelsLost => Some(
            "only one label of the pool could be read: all data that it leads to is intact, and all labels \
             were rewritten. Find out what destroyed the other labels"
                .to_owned(),
        ),
        Event::Short { short } => Some(told_short(&device_of(short.leaf), short)),
        Event::CaughtUp { leaf, blocks } => Some(format!(
            "{} lacked {blocks} blocks of the log that other devices had; they were written to it when the \
             pool was opened",
            device(*leaf)
        )),
        Event::LogFailed { vdev, reason } => Some(format!(
            "log vdev {vdev} is not used any more: {reason}. Durable writes now go directly to the other \
             vdevs"
        )),
        Event::Vdev(VdevEvent::LeafState {
            leaf,
            state,
            reason,
        }) => Some(match state {
            VdevState::Offline => format!("{} was taken offline", device(*leaf)),
            VdevState::Removed if reason == "detached" => format!("{} was detached", device(*leaf)),
            state => format!("{} is {state}: {reason}", device(*leaf)),
        }),
        // The change of state was told already.
        Event::Vdev(VdevEvent::Answers { .. }) => None,
        Event::Vdev(VdevEvent::DeviceError { leaf, offset, kind }) => {
            let text = format!("{} at byte {offset}", failure(*kind));
            burst(*leaf, "error", text)
        }
        Event::Vdev(VdevEvent::ChecksumError { leaf, offset, len }) => {
            let text = format!("wrong bytes in {} at byte {offset}", format_size(*len));
            burst(*leaf, "checksum", text)
        }
        Event::Vdev(VdevEvent::Repaired { leaf, offset, len }) => {
            let text = format!("repaired {} at byte {offset}", format_size(*len));
            burst(*leaf, "repaired", text)
        }
        Event::Vdev(VdevEvent::Unrepaired {
            leaf, offset, len, ..
        }) => {
            let text = format!("cannot repair {} at byte {offset}", format_size(*len));
            burst(*leaf, "unrepaired", text)
        }
        Event::Vdev(VdevEvent::Slow { leaf }) => {
            let text = "answers slowly; other devices were read too".to_owned();
            burst(*leaf, "slow", text)
        }
        Event::Unrecoverable(span) => {
            let dataset = pool.catalog().full_name(span.dataset);
            let (offset, len) = (span.offset, format_size(span.len));
            let text = format!("{dataset}: no correct copy of {len} was found at byte {offset}");
            told(None, "unrecoverable", text)
        }
        Event::Vdev(VdevEvent::Lost { vdev }) => {
            Some(format!("vdev {vdev} lost writes that it had acknowledged"))
        }
    };
    if let Some(text) = text {
        say(event, &text, shared);
    }
}

/// Words that a device shrank, and the consequences.
pub(super) fn told_short(device: &str, short: &Short) -> String {
    let (has, had) = (format_size(short.has), format_size(short.had));
    let (lacks, left) = (
        short.had - short.has,
        if short.is_cut {
            "data beyond the new end is read from other devices that have it"
        } else {
            "the pool used nothing beyond the new end"
        },
    );
    format!(
        "{device} has {has} ({} bytes), but had {had} ({} bytes), {lacks} more: {left}",
        short.has, short.had
    )
}

/// Logs a text and keeps it.
fn say(event: &Event, text: &str, shared: &Shared) {
    let name = shared.name();
    let severity = severity(event);
    if severity == Severity::Info {
        tracing::info!(pool = name, "{text}");
    } else {
        tracing::warn!(pool = name, "{text}");
    }
    shared.note(severity, text);
}

/// Returns the gravity of an event.
fn severity(event: &Event) -> Severity {
    match event {
        Event::Suspended { .. } => Severity::Critical,
        Event::Unrecoverable(_)
        | Event::Vdev(VdevEvent::Lost { .. } | VdevEvent::Unrepaired { .. }) => Severity::Error,
        Event::Vdev(VdevEvent::LeafState { state, .. }) => match state {
            VdevState::Online => Severity::Info,
            VdevState::Faulted | VdevState::Unavailable => Severity::Error,
            _ => Severity::Warning,
        },
        Event::Trim { .. } | Event::CaughtUp { .. } => Severity::Info,
        _ => Severity::Warning,
    }
}

/// Tells that missing leaves may have been used without those that are here.
pub(super) fn tell_unaccounted(leaves: &[u64], pool: &Pool, shared: &Shared) {
    let paths = &pool.config().paths;
    let name = |guid: &u64| paths.get(guid).cloned().unwrap_or(format!("{guid:016x}"));
    let names: Vec<String> = leaves.iter().map(name).collect();
    let text = format!(
        "opened without {}: if the pool was used there later than on these devices, its newest changes are \
         only there, and the two parts can never be joined again",
        names.join(", ")
    );
    tracing::warn!(pool = shared.name(), "{text}");
    shared.note(Severity::Warning, &text);
}

/// Tells the start or end of a scrub or resilver, and returns the words.
pub(super) fn tell_scan(pool: &Pool, shared: &Shared) -> Option<String> {
    let status = pool.scan_status()?;
    let text = scan::text(&status, 0);
    let text = text.lines().next().unwrap_or_default();
    let is_short = (status.kind, status.state) == (ScanKind::Resilver, ScanState::Canceled)
        && pool.status().state != VdevState::Online;
    let severity = match is_short || status.unrecoverable > 0 {
        true => Severity::Warning,
        false => Severity::Info,
    };
    if severity == Severity::Warning {
        tracing::warn!(pool = shared.name(), "{text}");
    } else {
        tracing::info!(pool = shared.name(), "{text}");
    }
    shared.note(severity, text);
    Some(text.to_owned())
}

/// Returns the history line for a trim that has ended.
pub(super) fn tell_trim(event: &Event, shared: &Shared) -> Option<String> {
    let Event::Trim {
        leaf,
        state: state @ TrimState::Finished,
        bytes,
    } = event
    else {
        return None;
    };
    let places = shared.places();
    let path = places.get(leaf).map(|at| at.path.display().to_string());
    let name = path.unwrap_or_else(|| format!("{leaf:016x}"));
    Some(format!("{name}: {}", trim::event(*state, *bytes)))
}

fn failure(kind: DeviceErrorKind) -> &'static str {
    match kind {
        DeviceErrorKind::Medium => "an I/O error",
        DeviceErrorKind::Failed => "the device failed a request",
        DeviceErrorKind::Gone => "the device is gone",
        DeviceErrorKind::TimedOut => "no answer in time",
        DeviceErrorKind::NoSpace => {
            "the device has no room there: it has shrunk, or what it lies on is full"
        }
        DeviceErrorKind::Unsupported => "the device does not support the request",
        DeviceErrorKind::Reserved => "another host has reserved the device",
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

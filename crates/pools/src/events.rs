//! Events of a pool, in words: for the daemon's log, and for the latest events that are kept.

use store::engine::{Event, Pool, ScanKind, ScanState, Short, TrimState};
use store::vdev::{DeviceErrorKind, LeafId, VdevEvent, VdevState};

use super::fullness::Fullness;
use crate::progress::{scan, trim};
use crate::shared::Shared;
use model::event::Severity;
use model::quantity::format_size;

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
fn told_short(device: &str, short: &Short) -> String {
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

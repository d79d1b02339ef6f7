//! Conditions of the daemon itself.

use super::{Moment, finding};
use crate::condition as of;
use crate::facts::{Facts, Finding};
use model::date::utc_minute;
use model::quantity::format_size;

/// Free bytes of the state folder's file system that are too few.
const FEW_BYTES: u64 = 64 << 20;
/// Part of the file system that is too little, as a divisor. Large file systems have enough left.
const LITTLE: u64 = 20;
/// Free bytes that are enough in any case.
const ENOUGH_BYTES: u64 = 1 << 30;
/// Time for which a killed run is an alert, in milliseconds.
const KILLED_MS: u64 = 3_600_000;

/// Bound of the clock's error at which the kernel stops counting, in milliseconds: without an
/// answer of a time server it takes nine hours to get there, and clients ask far more often.
const UNSET_MS: u64 = 16_000;
/// Time before a certificate's end from which it is an alert. Own ones are made again earlier.
const ENDS_SOON_S: u64 = 21 * DAY_S;
const DAY_S: u64 = 86_400;

/// Judges the daemon.
pub(super) fn judge(facts: &Facts, now: Moment, found: &mut Vec<Finding>) {
    state_folder(facts, found);
    clock(facts, found);
    certificate(facts, now.wall_ms / 1000, found);
    for notice in &facts.notices {
        let folder = &facts.state_folder.path;
        // One alert tells of all damage: the first notice stands for the others.
        if found
            .iter()
            .all(|it| !std::ptr::eq(it.condition, &of::STATE_FILE_DAMAGED))
        {
            let (text, next) = (format!("{notice}."), "sandstone status shows what to do");
            found.push(finding(&of::STATE_FILE_DAMAGED, folder, text, next));
        }
    }
    if let Some(words) = facts.killed.filter(|_| facts.uptime_ms < KILLED_MS) {
        let next = "see the log of the system: journalctl -b -1 -u sandstone, dmesg";
        found.push(finding(
            &of::DAEMON_WAS_KILLED,
            "daemon",
            sentence(words),
            next,
        ));
    }
    for (part, silent_ms) in &facts.silent {
        let text = format!(
            "There was no answer about {part} for {} s.",
            silent_ms / 1000
        );
        let next = "see the daemon's log, and dmesg for a disk that hangs";
        found.push(finding(&of::WATCH_STALLED, *part, text, next));
    }
    for unreached in &facts.unreached {
        let condition = match unreached.is_mail {
            true => &of::MAIL_NOT_REACHED,
            false => &of::WEBHOOK_NOT_REACHED,
        };
        let text = format!("{} messages wait: {}.", unreached.queued, unreached.error);
        let next = format!("sandstone alert test {} tries it", unreached.way);
        found.push(finding(condition, &unreached.way, text, next));
    }
}

fn state_folder(facts: &Facts, found: &mut Vec<Finding>) {
    let folder = &facts.state_folder;
    let is_small = folder.available < FEW_BYTES || folder.available < folder.size / LITTLE;
    let text = match &folder.trouble {
        Some(trouble) => format!("A file could not be written to {}: {trouble}.", folder.path),
        None if folder.size > 0 && is_small && folder.available < ENOUGH_BYTES => format!(
            "{} of {} are free in {}.",
            format_size(folder.available),
            format_size(folder.size),
            folder.path
        ),
        None => return,
    };
    let next = format!("make space in the file system of {}", folder.path);
    found.push(finding(&of::STATE_FOLDER_FULL, &folder.path, text, next));
}

fn clock(facts: &Facts, found: &mut Vec<Finding>) {
    if facts.clock_error_ms.is_none_or(|error| error < UNSET_MS) {
        return;
    }
    let text = "The kernel has not heard of a time server for nine hours, or never has.";
    let next = "start a client of a time server, such as chrony; timedatectl shows its state";
    found.push(finding(&of::CLOCK_OFF, "clock", text, next));
}

fn certificate(facts: &Facts, now_s: u64, found: &mut Vec<Finding>) {
    let Some(certificate) = facts.certificate else {
        return;
    };
    let (ends_s, end) = (certificate.ends_s, utc_minute(certificate.ends_s));
    if ends_s > now_s + ENDS_SOON_S {
        return;
    }
    let text = match ends_s.checked_sub(now_s).filter(|left| *left > 0) {
        Some(left) => format!("It ends in {} days, at {end}.", left / DAY_S),
        None => format!("It ended at {end}."),
    };
    let next = match certificate.is_own {
        true => "sandstone tls make",
        false => {
            "sandstone tls give --cert FILE --key FILE; or replace the files that the options name"
        }
    };
    found.push(finding(&of::CERTIFICATE_ENDS, "console", text, next));
}

/// Returns words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

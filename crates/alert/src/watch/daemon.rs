//! Conditions of the daemon itself.

use super::finding;
use crate::condition as of;
use crate::facts::{Facts, Finding};
use model::quantity::format_size;

/// Free bytes of the state folder's file system that are too few.
const FEW_BYTES: u64 = 64 << 20;
/// Part of the file system that is too little, as a divisor. Large file systems have enough left.
const LITTLE: u64 = 20;
/// Free bytes that are enough in any case.
const ENOUGH_BYTES: u64 = 1 << 30;
/// Time for which a killed run is an alert, in milliseconds.
const KILLED_MS: u64 = 3_600_000;

/// Judges the daemon.
pub(super) fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    state_folder(facts, found);
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

/// Returns words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

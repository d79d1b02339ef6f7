//! Conditions of disks, as they tell them of themselves.

use super::finding;
use crate::condition as of;
use crate::facts::{Facts, Finding};
use model::disk::DiskVerdict;

/// Judges all disks.
pub(super) fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    for (path, health) in &facts.disks {
        let condition = match health.verdict {
            DiskVerdict::Failing => &of::DISK_FAILING,
            DiskVerdict::Wearing => &of::DISK_WEARING,
            DiskVerdict::Well | DiskVerdict::Unknown => continue,
        };
        let text = format!("The disk tells: {}.", health.reasons.join("; "));
        let next = "sandstone pool disks shows its serial number and its pool; sandstone pool disks --locate DISK \
                    lights its lamp";
        found.push(finding(condition, path, text, next));
    }
}

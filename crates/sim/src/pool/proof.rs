//! The offline proof of a pool (invariant 6): what `pool check` does right after an opening, on
//! disks of the laboratory.

use store::engine::Pool;
use store::engine::check::{Check, Finding, FindingKind};
use store::vdev::{DeviceError, DeviceErrorKind, DeviceRequest, IoId};

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::Disk;
use crate::subject::{Flaw, FlawKind};

/// Number of answers and ticks that no check here reaches.
const ENDLESS: u32 = 3_000_000;

/// Returns the flaws of a pool that has just been opened. `leaves` are the disks of its leaves.
pub(super) fn prove(
    pool: &mut Pool,
    leaves: &BTreeMap<u32, usize>,
    disks: &mut [Disk],
    mut now_us: u64,
) -> Vec<Flaw> {
    let tops = pool.status().top_levels;
    let lacking: BTreeSet<u16> = (tops.iter().filter(|top| top.is_lacking()))
        .map(|top| top.vdev)
        .collect();
    let Some(mut check) = Check::new(pool) else {
        return vec![contradiction("it is not at rest after its opening")];
    };
    for _ in 0..ENDLESS {
        if check.is_done() {
            let findings = check.finish().findings;
            return findings.iter().map(|of| flaw(of, &lacking)).collect();
        }
        for DeviceRequest { io, leaf, op } in check.take_requests() {
            match leaves.get(&leaf.0) {
                Some(disk) => disks[*disk].submit(now_us, io.0, op),
                None => {
                    let away = DeviceError::new(DeviceErrorKind::Gone, "it is away");
                    check.completed(io, Err(away), now_us);
                }
            }
        }
        let due = disks.iter().enumerate();
        let due = due.filter_map(|(number, disk)| Some((disk.next_due_us()?, number)));
        match (due.min(), check.deadline_us()) {
            (Some((at_us, disk)), deadline)
                if deadline.is_none_or(|deadline| at_us <= deadline) =>
            {
                now_us = now_us.max(at_us);
                if let Some(done) = disks[disk].complete(now_us) {
                    check.completed(IoId(done.id), done.outcome, now_us);
                }
            }
            (_, Some(deadline)) => {
                now_us = now_us.max(deadline);
                check.tick(now_us);
            }
            _ => break,
        }
    }
    vec![contradiction("the check never ends")]
}

fn contradiction(text: &str) -> Flaw {
    Flaw {
        kind: FlawKind::Contradiction,
        text: text.to_owned(),
    }
}

/// Returns the flaw of a finding. Blocks of the `lacking` top-level vdevs may be incomplete.
fn flaw(finding: &Finding, lacking: &BTreeSet<u16>) -> Flaw {
    let lacks_itself = || finding.extent.is_none_or(|of| lacking.contains(&of.vdev));
    let kind = match finding.kind {
        FindingKind::BadCopy => FlawKind::BadCopy,
        FindingKind::Unreadable if lacks_itself() => FlawKind::Lacking,
        // The block that leads to it may lie on another vdev.
        FindingKind::Unproven if !lacking.is_empty() => FlawKind::Lacking,
        FindingKind::Unreadable | FindingKind::Unproven => FlawKind::Lost,
        FindingKind::DoubleAllocation
        | FindingKind::NotAllocated
        | FindingKind::Beyond
        | FindingKind::Leak
        | FindingKind::WrongBirth
        | FindingKind::WrongDeadList
        | FindingKind::WrongReferenced
        | FindingKind::WrongSpace => FlawKind::Contradiction,
    };
    Flaw {
        kind,
        text: finding.to_string(),
    }
}

//! The watch: which conditions hold, judged from the facts of each second. It does no I/O and never
//! waits.
//!
//! Some conditions are about growth or pace. For these, the watch remembers earlier facts.

use std::collections::BTreeMap;

use crate::condition::Condition;
use crate::facts::{Facts, Finding};

mod daemon;
mod disks;
pub(crate) mod hosts;
mod links;
mod pace;
mod pools;
mod units;

use hosts::{DigestErrors, KnownPaths};
use links::{Retransmits, SharedUnits};
use pace::{MirrorPace, UnitPace};
use pools::DeviceErrors;

/// Time of an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970, which may be set back.
    pub wall_ms: u64,
    /// Milliseconds since any fixed moment of this run, which only grow.
    pub run_ms: u64,
}

/// Watch over all facts, with its memory of earlier ones.
#[derive(Debug, Default)]
pub struct Watch {
    device_errors: DeviceErrors,
    mirror_pace: MirrorPace,
    unit_pace: UnitPace,
    digest_errors: DigestErrors,
    known_paths: KnownPaths,
    retransmits: Retransmits,
    shared_units: SharedUnits,
    /// Findings about devices and space of pools when they last were open.
    last_open: BTreeMap<String, Vec<Finding>>,
}

impl Watch {
    /// Restores the memory that outlives a restart.
    pub fn restored(paths: KnownPaths) -> Self {
        Self {
            known_paths: paths,
            ..Self::default()
        }
    }

    /// Returns the memory that is to outlive a restart.
    pub fn known_paths(&self) -> &KnownPaths {
        &self.known_paths
    }

    /// Returns all conditions that hold now.
    pub fn findings(&mut self, facts: &Facts, now: Moment) -> Vec<Finding> {
        let mut found = Vec::new();
        self.pools(facts, now, &mut found);
        disks::judge(facts, &mut found);
        units::judge(facts, &mut found);
        self.unit_pace.judge(&facts.snapshot, now, &mut found);
        hosts::refused(facts, &mut found);
        hosts::devices(facts, &mut found);
        self.digest_errors.judge(facts, now, &mut found);
        self.known_paths.judge(facts, now, &mut found);
        self.retransmits.judge(facts, now, &mut found);
        self.shared_units.judge(&facts.snapshot, now, &mut found);
        daemon::judge(facts, now, &mut found);
        found
    }
}

/// Returns a finding.
fn finding(
    condition: &'static Condition,
    object: impl Into<String>,
    text: impl Into<String>,
    next: impl Into<String>,
) -> Finding {
    Finding {
        condition,
        object: object.into(),
        text: text.into(),
        next: next.into(),
    }
}

#[cfg(test)]
mod tests;

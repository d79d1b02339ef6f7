//! Conditions of logical units and portals.

use super::finding;
use crate::condition as of;
use crate::facts::{Facts, Finding};
use model::data_plane::UnitStatus;
use model::hindrance::{Hindrance, HindranceKind};

/// Judges all units and portals.
pub(super) fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    for unit in facts.units.iter() {
        if let Some(fault) = &unit.fault {
            let text = format!("The unit is not served: {fault}.");
            let look = || format!("sandstone lu list {}", unit.name);
            let next = unit.remedy.clone().unwrap_or_else(look);
            found.push(finding(&of::UNIT_FAULTED, &unit.name, text, next));
        }
        hindrances(unit, found);
    }
    for portal in facts.portals.iter() {
        if let Some(error) = &portal.error {
            let object = portal.address.to_string();
            let text = format!("{} cannot be reached there: {error}.", portal.target);
            let next = "sandstone status shows the portals; each is tried again and again";
            found.push(finding(&of::PORTAL_NOT_LISTENING, object, text, next));
        }
    }
}

/// Judges the hindrances. Of several of one kind on a unit, one is told.
fn hindrances(unit: &UnitStatus, found: &mut Vec<Finding>) {
    use HindranceKind::{Full, LostWrites, SanitizeFailed, Threshold};
    let kinds: [(&of::Condition, &[HindranceKind]); 3] = [
        (&of::UNIT_LOST_WRITES, &[LostWrites, SanitizeFailed]),
        (&of::UNIT_FULL, &[Full]),
        (&of::UNIT_THRESHOLD, &[Threshold]),
    ];
    for (condition, kinds) in kinds {
        let mut all = unit.hindrances.iter();
        let Some(hindrance) = all.find(|it| kinds.contains(&it.kind)) else {
            continue;
        };
        let Hindrance {
            finding: what, end, ..
        } = hindrance;
        let look = || format!("sandstone lu list {}", unit.name);
        let next = end.clone().unwrap_or_else(look);
        found.push(finding(condition, &unit.name, format!("{what}."), next));
    }
}

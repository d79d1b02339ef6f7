//! Metrics of logical units: state, size, errors, and what stops their I/O.

use std::collections::BTreeMap;
use std::fmt;

use super::Metrics;
use super::family::{Exposition, Family, Figure, gauge};
use model::data_plane::UnitStatus;
use model::hindrance::HindranceKind;

const STATES: [&str; 3] = ["online", "offline", "faulted"];

const STATE: Family = gauge(
    "sandstone_lu_state",
    &["lu", "state"],
    "Whether the logical unit is in this state: online, offline or faulted.",
);
const HINDRANCES: Family = gauge(
    "sandstone_lu_hindrances",
    &["lu", "kind"],
    "Number of states of this kind that stop or refuse I/O of the logical unit, or soon will.",
);
const SESSIONS: Family = gauge(
    "sandstone_lu_sessions",
    &["lu"],
    "Sessions logged in that have used the logical unit.",
);

const FIGURES: [Figure<UnitStatus>; 3] = [
    Figure {
        family: gauge(
            "sandstone_lu_size_bytes",
            &["lu"],
            "Capacity of the logical unit.",
        ),
        // The size of a unit that is not served is not known.
        of: |unit| Some(unit.size).filter(|size| *size > 0).map(Into::into),
    },
    Figure {
        family: gauge(
            "sandstone_lu_allocated_bytes",
            &["lu"],
            "Space that the backend has allocated for the logical unit.",
        ),
        of: |unit| Some(unit.allocated?.into()),
    },
    Figure {
        family: gauge(
            "sandstone_lu_available_bytes",
            &["lu"],
            "Space that the logical unit can still take from the pool or file system beneath.",
        ),
        of: |unit| Some(unit.available?.into()),
    },
];

pub(super) fn tell(out: &mut Exposition<'_>, metrics: &Metrics) -> fmt::Result {
    let units = &metrics.reading.units;
    out.family(&STATE, &mut |to| {
        units
            .iter()
            .try_for_each(|unit| to.put_states(&[&unit.name], &STATES, state(unit)))
    })?;
    let labelled: Vec<_> = units.iter().map(|unit| (vec![&*unit.name], unit)).collect();
    out.figures(&FIGURES, &labelled)?;
    out.family(&HINDRANCES, &mut |to| {
        for unit in units {
            let mut counts: BTreeMap<HindranceKind, usize> = BTreeMap::new();
            for hindrance in &unit.hindrances {
                *counts.entry(hindrance.kind).or_default() += 1;
            }
            for (kind, count) in counts {
                to.put(&[&unit.name, kind.word()], count)?;
            }
        }
        Ok(())
    })?;
    let mut sessions: BTreeMap<&str, usize> = units.iter().map(|unit| (&*unit.name, 0)).collect();
    for lun in metrics.snapshot.sessions.iter().flat_map(|of| &of.luns) {
        if let Some(count) = sessions.get_mut(&*lun.unit) {
            *count += 1;
        }
    }
    out.family(&SESSIONS, &mut |to| {
        sessions
            .iter()
            .try_for_each(|(unit, count)| to.put(&[unit], *count))
    })
}

/// Returns the state of a unit. A unit that should serve and cannot is faulted, also if nothing
/// was wrong with it when it went away.
fn state(unit: &UnitStatus) -> &'static str {
    match (unit.online, &unit.fault) {
        (_, Some(_)) => "faulted",
        (true, None) => "online",
        (false, None) => "offline",
    }
}

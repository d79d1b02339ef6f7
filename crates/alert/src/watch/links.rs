//! Conditions of the links between initiators and this machine: segments that TCP had to send
//! again, and units that are left with one session of several.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Moment, finding};
use crate::condition as of;
use crate::facts::{Facts, Finding};
use model::data_plane::PortalTcp;
use model::figures::Snapshot;

/// Time over which retransmits are judged, in milliseconds.
const WINDOW_MS: u64 = 60_000;
/// Fewest segments of a window from which retransmits are judged.
const ENOUGH_SEGMENTS: u64 = 600;
/// One retransmit for this many segments is too much.
const SEGMENTS_A_RETRANSMIT: u64 = 1000;
/// Time for which a unit must have had several sessions, in milliseconds. A client that only looks
/// at the unit is gone sooner.
const SEVERAL_FOR_MS: u64 = 60_000;
/// Time after which it is forgotten that a unit had several sessions, in milliseconds.
const FORGOTTEN_AFTER_MS: u64 = 86_400_000;

/// Segments of portals when the window began, and the judgement of the last whole window.
#[derive(Debug, Default)]
pub(super) struct Retransmits {
    began_ms: Option<u64>,
    before: BTreeMap<SocketAddr, PortalTcp>,
    found: Vec<Finding>,
}

impl Retransmits {
    /// Judges all portals.
    pub(super) fn judge(&mut self, facts: &Facts, now: Moment, found: &mut Vec<Finding>) {
        let age_ms = self.began_ms.map(|at| now.run_ms.saturating_sub(at));
        if age_ms.is_none_or(|age| age >= WINDOW_MS) {
            let portals = facts.portal_tcp.iter();
            self.found = portals
                .filter_map(|portal| self.of_portal(portal))
                .collect();
            let portals = facts.portal_tcp.iter();
            self.before = portals.map(|portal| (portal.address, *portal)).collect();
            self.began_ms = Some(now.run_ms);
        }
        found.extend(self.found.iter().cloned());
    }

    fn of_portal(&self, portal: &PortalTcp) -> Option<Finding> {
        let before = self.before.get(&portal.address)?;
        let segments = portal.segments.saturating_sub(before.segments);
        let again = portal.retransmits.saturating_sub(before.retransmits);
        let is_too_much = again.saturating_mul(SEGMENTS_A_RETRANSMIT) > segments;
        (segments >= ENOUGH_SEGMENTS && is_too_much).then(|| {
            let percent = again as f64 * 100.0 / segments as f64;
            let text =
                format!("{percent:.1} % of {segments} segments in a minute were sent again.");
            let next = "check cables, switches, network cards and the MTU of the whole way";
            finding(&of::TCP_RETRANSMITS, portal.address.to_string(), text, next)
        })
    }
}

/// Units that lately had several sessions.
#[derive(Debug, Default)]
pub(super) struct SharedUnits {
    units: BTreeMap<String, Several>,
}

/// Times at which a unit had several sessions, in milliseconds of this run.
#[derive(Clone, Copy, Debug)]
struct Several {
    since_ms: u64,
    last_ms: u64,
}

impl SharedUnits {
    /// Judges all units that have sessions.
    pub(super) fn judge(&mut self, snapshot: &Snapshot, now: Moment, found: &mut Vec<Finding>) {
        let mut sessions: BTreeMap<&str, u64> = BTreeMap::new();
        for lun in snapshot.sessions.iter().flat_map(|session| &session.luns) {
            *sessions.entry(&lun.unit).or_default() += 1;
        }
        for (unit, count) in &sessions {
            if *count > 1 {
                let first = Several {
                    since_ms: now.run_ms,
                    last_ms: now.run_ms,
                };
                let several = self.units.entry((*unit).to_owned()).or_insert(first);
                several.last_ms = now.run_ms;
            }
        }
        self.units.retain(|unit, several| {
            let is_several = several.last_ms == now.run_ms;
            let lasted = several.last_ms - several.since_ms >= SEVERAL_FOR_MS;
            let is_fresh = now.run_ms - several.last_ms < FORGOTTEN_AFTER_MS;
            let is_there = snapshot.units.iter().any(|it| it.name == *unit);
            is_several || (lasted && is_fresh && is_there)
        });
        for unit in self.units.keys() {
            if sessions.get(unit.as_str()) == Some(&1) {
                let text = "One session uses the unit, and several did.";
                let next =
                    "sandstone session list shows which is left; check the links of the host";
                found.push(finding(&of::UNIT_ONE_PATH, unit, text, next));
            }
        }
    }
}

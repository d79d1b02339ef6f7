//! Conditions of initiators that use this machine, and of the disks that this machine uses.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{Moment, finding};
use crate::condition as of;
use crate::facts::{Facts, Finding};
use model::data_plane::SessionInfo;

/// Number of refused logins within ten minutes that is an alert.
const REFUSALS: usize = 5;
/// Time for which damaged data counts, in milliseconds.
const DAMAGE_MS: u64 = 600_000;
/// Time for which a path must have been there to be known, in milliseconds.
const KNOWN_AFTER_MS: u64 = 60_000;
/// Time after which a lost path is forgotten, in milliseconds.
const FORGOTTEN_AFTER_MS: u64 = 86_400_000;
/// Most initiators, and most paths of one, whose paths are known.
const MAX_INITIATORS: usize = 1024;
const MAX_PATHS: usize = 64;

/// Judges logins that were refused.
pub(super) fn refused(facts: &Facts, found: &mut Vec<Finding>) {
    for refused in facts.refused.iter().filter(|it| it.count >= REFUSALS) {
        let text = format!(
            "{} times within 10 minutes: {}.",
            refused.count, refused.text
        );
        let next = refused.next.clone().unwrap_or_default();
        let object = &refused.initiator;
        found.push(finding(&of::LOGIN_REFUSED_REPEATEDLY, object, text, next));
    }
}

/// Judges the paths to disks of other machines.
pub(super) fn devices(facts: &Facts, found: &mut Vec<Finding>) {
    for device in facts.devices.iter() {
        let name = &device.nmp.name;
        let dead = device.ways.iter().filter(|way| way.reason.is_some());
        let dead: Vec<&str> = dead.map(|way| way.portal.as_str()).collect();
        let (all, alive) = (device.ways.len(), device.ways.len() - dead.len());
        let condition = match (alive, all) {
            (_, 0) => continue,
            (0, _) => &of::DEVICE_NO_PATH,
            (1, 2..) => &of::DEVICE_ONE_PATH,
            _ => continue,
        };
        let text = format!(
            "{alive} of {all} paths are alive; dead: {}.",
            dead.join(", ")
        );
        let next = format!("sandstone initiator path list -d {name}");
        found.push(finding(condition, name, text, next));
    }
}

/// Digest errors of sessions at earlier moments.
#[derive(Debug, Default)]
pub(super) struct DigestErrors {
    sessions: HashMap<(u16, String), u64>,
    /// Last time of damage, and number of errors since the alert began, by initiator.
    initiators: BTreeMap<String, (u64, u64)>,
}

impl DigestErrors {
    /// Judges all sessions.
    pub(super) fn judge(&mut self, facts: &Facts, now: Moment, found: &mut Vec<Finding>) {
        let mut sessions = HashMap::with_capacity(facts.sessions.len());
        for session in facts.sessions.iter() {
            let key = (session.tsih, session.isid.clone());
            let before = self.sessions.get(&key).copied().unwrap_or(0);
            let more = session.digest_errors.saturating_sub(before);
            if more > 0 {
                let initiator = session.initiator.clone();
                let (at_ms, count) = self.initiators.entry(initiator).or_default();
                *at_ms = now.run_ms;
                *count += more;
            }
            sessions.insert(key, session.digest_errors);
        }
        self.sessions = sessions;
        self.initiators
            .retain(|_, (at_ms, _)| *at_ms + DAMAGE_MS > now.run_ms);
        for (initiator, (_, count)) in &self.initiators {
            let text = format!("{count} PDUs of its sessions arrived damaged.");
            let next = "sandstone session list -o initiator,peer,portal,digests";
            found.push(finding(&of::DIGEST_ERRORS, initiator, text, next));
        }
    }
}

/// Paths that initiators had, so that lost ones are noticed. They outlive a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPaths {
    initiators: BTreeMap<String, Vec<KnownPath>>,
}

/// A path of an initiator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownPath {
    target: String,
    local: SocketAddr,
    peer: IpAddr,
    /// Time at which the path was last there, in milliseconds since 1970.
    seen_ms: u64,
}

impl KnownPath {
    fn of(session: &SessionInfo, now_ms: u64) -> Vec<Self> {
        let Some(target) = &session.target else {
            return Vec::new();
        };
        let paths = session.connections.iter().map(|connection| Self {
            target: target.clone(),
            local: connection.local,
            peer: connection.peer.ip(),
            seen_ms: now_ms,
        });
        paths.collect()
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.target, self.local, self.peer) == (&other.target, other.local, other.peer)
    }
}

impl KnownPaths {
    /// Judges all sessions: an initiator that has a path to a target, and had others, lost these.
    /// An initiator without any path is off, or was moved: that is no alert.
    pub(super) fn judge(&mut self, facts: &Facts, now: Moment, found: &mut Vec<Finding>) {
        let now_ms = now.wall_ms;
        let mut present: BTreeMap<&str, Vec<(KnownPath, u64)>> = BTreeMap::new();
        for session in facts.sessions.iter() {
            let paths = KnownPath::of(session, now_ms).into_iter();
            let paths = paths.map(|path| (path, session.age_s * 1000));
            let all = present.entry(&session.initiator).or_default();
            all.extend(paths);
        }
        for (initiator, paths) in &present {
            self.note(initiator, paths);
        }
        self.forget(now_ms);
        for (initiator, known) in &self.initiators {
            let Some(paths) = present.get(initiator.as_str()) else {
                continue;
            };
            let is_there = |it: &KnownPath| paths.iter().any(|(path, _)| path.is_same(it));
            let lost = known.iter().filter(|it| !is_there(it));
            let lost: Vec<String> = lost
                .filter(|it| paths.iter().any(|(path, _)| path.target == it.target))
                .map(|it| format!("{} to {}", it.peer, it.local))
                .collect();
            if !lost.is_empty() {
                let text = format!(
                    "{} of {} paths are lost: from {}.",
                    lost.len(),
                    known.len(),
                    lost.join(", from ")
                );
                let next = "check the network between these addresses; sandstone session list shows the paths that \
                            are left";
                found.push(finding(&of::HOST_LOST_PATHS, initiator, text, next));
            }
        }
    }

    /// Reports whether no path is known.
    pub fn is_empty(&self) -> bool {
        self.initiators.is_empty()
    }

    fn note(&mut self, initiator: &str, paths: &[(KnownPath, u64)]) {
        if !self.initiators.contains_key(initiator) && self.initiators.len() >= MAX_INITIATORS {
            return;
        }
        let known = self.initiators.entry(initiator.to_owned()).or_default();
        for (path, age_ms) in paths {
            if let Some(same) = known.iter_mut().find(|it| it.is_same(path)) {
                same.seen_ms = path.seen_ms;
            } else if *age_ms >= KNOWN_AFTER_MS && known.len() < MAX_PATHS {
                known.push(path.clone());
            }
        }
    }

    fn forget(&mut self, now_ms: u64) {
        self.initiators.retain(|_, known| {
            known.retain(|path| path.seen_ms.saturating_add(FORGOTTEN_AFTER_MS) > now_ms);
            !known.is_empty()
        });
    }
}

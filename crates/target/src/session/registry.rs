//! All sessions of the daemon: the loop that owns each, and the logins that may join or reinstate
//! one.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use iscsi::name;
use iscsi::negotiation::SessionParameters;
use iscsi::pdu::Isid;
use iscsi::target::login::LoginIdentity;

use super::view::View;
use model::figures::LunFigures;
use unit::command::operation::SessionKey;
use unit::nexus::MappedUnit;
use unit::timing::tally::{NexusTally, StageSums};

/// Most discovery sessions at once. Nobody needs one for longer than a moment, and everybody gets
/// one who asks, also without proof of who they are. So the oldest makes room, and they take none
/// from other sessions.
const MAX_DISCOVERY_SESSIONS: usize = 256;

/// Name as the initiator spelled it, which equals each other spelling of it.
#[derive(Clone, Debug)]
pub(crate) struct Spelled(Arc<str>);

impl PartialEq for Spelled {
    fn eq(&self, other: &Self) -> bool {
        name::is_same(&self.0, &other.0)
    }
}

impl Eq for Spelled {}

impl Hash for Spelled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        name::folded(&self.0).hash(state);
    }
}

impl Deref for Spelled {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Spelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Spelled {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

/// Name by which a session is recognized after a new login (RFC 7143 §6.3.5): initiator port and
/// target port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionName {
    /// InitiatorName.
    pub initiator: Spelled,
    /// ISID.
    pub isid: Isid,
    /// TargetName; empty for discovery.
    pub target: Spelled,
    /// Target portal group tag.
    pub portal_group_tag: u16,
}

impl SessionName {
    /// Returns the name for a login at a portal group.
    pub(crate) fn of(identity: &LoginIdentity, portal_group_tag: u16) -> Self {
        let target = identity.target_name.as_deref().unwrap_or_default();
        Self {
            initiator: identity.initiator_name.as_str().into(),
            isid: identity.isid,
            target: target.into(),
            portal_group_tag,
        }
    }

    /// Reports whether the session is for discovery.
    pub(crate) fn is_discovery(&self) -> bool {
        self.target.is_empty()
    }
}

/// Session as the other loops know it.
#[derive(Debug)]
pub(crate) struct RegisteredSession {
    /// Handle of the session.
    pub tsih: u16,
    /// Loop that owns the session.
    pub loop_index: usize,
    /// Key of the session in that loop.
    pub key: SessionKey,
    /// Negotiated parameters.
    pub parameters: SessionParameters,
    /// CIDs of its connections, including those about to join. A CID is listed twice while its
    /// connection is being replaced.
    cids: Mutex<Vec<u16>>,
    /// Latest ExpCmdSN that was sent, for the login of further connections.
    pub exp_cmd_sn: AtomicU32,
    /// Latest MaxCmdSN that was sent.
    pub max_cmd_sn: AtomicU32,
    /// Times of the session's commands. Only the session's loop adds to them.
    pub tally: StageSums,
    /// Most commands that the session may have under way.
    queue_depth: AtomicU32,
    /// Units that the session sees.
    nexuses: Mutex<Vec<SeenUnit>>,
}

/// Unit that a session sees, for those who read figures. It does not keep the unit open.
#[derive(Debug)]
struct SeenUnit {
    lun: u16,
    tally: Arc<NexusTally>,
    mapped: Weak<MappedUnit>,
}

/// Numbers of sessions, without those for discovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All sessions.
    pub all: usize,
    /// Sessions at the target.
    pub at_target: usize,
    /// Sessions of the initiator.
    pub of_initiator: usize,
}

/// Sessions by name and by handle.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_name: HashMap<SessionName, Arc<RegisteredSession>>,
    by_tsih: HashMap<u16, SessionName>,
    last_tsih: u16,
    last_key: u64,
}

impl Registry {
    /// Returns the session of this name.
    pub(crate) fn find(&self, name: &SessionName) -> Option<Arc<RegisteredSession>> {
        self.by_name.get(name).cloned()
    }

    /// Returns the session with this handle.
    pub(crate) fn by_tsih(&self, tsih: u16) -> Option<Arc<RegisteredSession>> {
        self.find(self.by_tsih.get(&tsih)?)
    }

    /// Returns all sessions but those for discovery.
    pub(crate) fn normal_sessions(&self) -> Vec<(SessionName, Arc<RegisteredSession>)> {
        let sessions = self.by_name.iter();
        let normal = sessions.filter(|(name, _)| !name.is_discovery());
        normal
            .map(|(name, session)| (name.clone(), Arc::clone(session)))
            .collect()
    }

    /// Returns the number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Counts sessions, without those for discovery.
    pub(crate) fn count(&self, like: &SessionName) -> Counts {
        let mut counts = Counts::default();
        for name in self.by_name.keys().filter(|name| !name.is_discovery()) {
            counts.all += 1;
            counts.at_target += usize::from(name.target == like.target);
            counts.of_initiator += usize::from(name.initiator == like.initiator);
        }
        counts
    }

    /// Forgets the oldest discovery session if their number has reached its limit. Returns that
    /// session, to be ended.
    pub(crate) fn make_room_for_discovery(&mut self) -> Option<Arc<RegisteredSession>> {
        let discovery = || {
            let sessions = self.by_name.iter();
            sessions.filter(|(name, _)| name.is_discovery())
        };
        if discovery().count() < MAX_DISCOVERY_SESSIONS {
            return None;
        }
        // Keys are given in order.
        let (name, session) = discovery().min_by_key(|(_, session)| session.key.0)?;
        let (name, session) = (name.clone(), Arc::clone(session));
        self.remove(&name, &session);
        Some(session)
    }

    /// Registers a session. If it replaces one of its name, returns that one, to be closed. Returns
    /// `None` if all 65,535 handles are taken.
    pub(crate) fn insert(
        &mut self,
        name: SessionName,
        loop_index: usize,
        parameters: SessionParameters,
    ) -> Option<(Arc<RegisteredSession>, Option<Arc<RegisteredSession>>)> {
        let old = self.by_name.remove(&name);
        if let Some(old) = &old {
            self.by_tsih.remove(&old.tsih);
        }
        let tsih = (0..u16::MAX)
            .map(|n| self.last_tsih.wrapping_add(1).wrapping_add(n))
            .find(|tsih| *tsih != 0 && !self.by_tsih.contains_key(tsih))?;
        self.last_tsih = tsih;
        self.last_key += 1;
        let session = Arc::new(RegisteredSession {
            tsih,
            loop_index,
            key: SessionKey(self.last_key),
            parameters,
            cids: Mutex::default(),
            exp_cmd_sn: AtomicU32::new(0),
            max_cmd_sn: AtomicU32::new(0),
            tally: StageSums::default(),
            queue_depth: AtomicU32::new(0),
            nexuses: Mutex::default(),
        });
        self.by_tsih.insert(tsih, name.clone());
        self.by_name.insert(name, session.clone());
        Some((session, old))
    }

    /// Forgets a session, unless its name belongs to a newer one already.
    pub(crate) fn remove(&mut self, name: &SessionName, session: &RegisteredSession) {
        if self
            .by_name
            .get(name)
            .is_some_and(|current| current.tsih == session.tsih)
        {
            self.by_name.remove(name);
            self.by_tsih.remove(&session.tsih);
        }
    }
}

/// Place of a connection in its session, from the end of its login on. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The session.
    pub session: Arc<RegisteredSession>,
    cid: u16,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut cids = self.session.cids();
        if let Some(at) = cids.iter().position(|cid| *cid == self.cid) {
            cids.swap_remove(at);
        }
    }
}

impl RegisteredSession {
    /// Returns the number of its connections, and whether one of them has this CID.
    pub(crate) fn connections(&self, cid: u16) -> (u16, bool) {
        let cids = self.cids();
        (distinct(&cids), cids.contains(&cid))
    }

    /// Takes a place for a connection with this CID: a new one, or that of the connection it
    /// replaces (RFC 7143 §6.3.4). Returns `None` if the session has MaxConnections already.
    pub(crate) fn take_seat(self: &Arc<Self>, cid: u16) -> Option<Seat> {
        let mut cids = self.cids();
        if !cids.contains(&cid) && distinct(&cids) >= self.parameters.max_connections {
            return None;
        }
        cids.push(cid);
        Some(Seat {
            session: self.clone(),
            cid,
        })
    }

    fn cids(&self) -> MutexGuard<'_, Vec<u16>> {
        self.cids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the units that the session sees now.
    pub(crate) fn set_nexuses(&self, view: &View) {
        let nexuses = view.iter().map(|mapped| SeenUnit {
            lun: mapped.lun,
            tally: Arc::clone(&mapped.tally),
            mapped: Arc::downgrade(mapped),
        });
        *self.nexuses() = nexuses.collect();
    }

    /// Notes the number of commands that the session may have under way.
    pub(crate) fn set_queue_depth(&self, depth: u32) {
        self.queue_depth.store(depth, Ordering::Relaxed);
    }

    /// Returns the number of commands that the session may have under way.
    pub(crate) fn queue_depth(&self) -> u32 {
        self.queue_depth.load(Ordering::Relaxed)
    }

    /// Returns the figures of the units that the session sees and has used.
    pub(crate) fn lun_figures(&self) -> Vec<LunFigures> {
        let nexuses = self.nexuses();
        let used = nexuses.iter().filter_map(|seen| {
            // A unit that was never used has no figures, and is not asked.
            let totals = seen.tally.totals()?;
            let under_way = seen.mapped.upgrade().map(|mapped| mapped.under_way());
            Some(LunFigures {
                lun: seen.lun,
                unit: seen.tally.unit.name().to_owned(),
                under_way: under_way.unwrap_or_default(),
                totals,
            })
        });
        used.collect()
    }

    fn nexuses(&self) -> MutexGuard<'_, Vec<SeenUnit>> {
        self.nexuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the command window, for connections that log in later.
    pub(crate) fn note_window(&self, exp_cmd_sn: u32, max_cmd_sn: u32) {
        self.exp_cmd_sn.store(exp_cmd_sn, Ordering::Relaxed);
        self.max_cmd_sn.store(max_cmd_sn, Ordering::Relaxed);
    }
}

fn distinct(cids: &[u16]) -> u16 {
    let first = |at: usize| !cids[..at].contains(&cids[at]);
    (0..cids.len()).filter(|at| first(*at)).count() as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_replaced_counts_once() {
        let parameters = SessionParameters {
            max_connections: 2,
            ..SessionParameters::default()
        };
        let name = SessionName {
            initiator: "i".into(),
            isid: Isid([0; 6]),
            target: "t".into(),
            portal_group_tag: 1,
        };
        let mut registry = Registry::default();
        let (session, _) = registry.insert(name, 0, parameters).expect("room");
        let first = session.take_seat(1).expect("the first");
        let second = session.take_seat(2).expect("the second");
        assert!(session.take_seat(3).is_none());
        let again = session.take_seat(1).expect("replaces the first");
        assert_eq!(session.connections(1), (2, true));
        drop(first);
        assert_eq!(session.connections(1), (2, true), "the newer one stays");
        drop(again);
        assert_eq!(session.connections(1), (1, false));
        drop(second);
        assert_eq!(session.connections(2), (0, false));
    }
}

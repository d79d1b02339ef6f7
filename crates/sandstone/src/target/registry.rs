//! All sessions of the daemon: which loop owns which, who may join, who is reinstated.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use iscsi::negotiation::SessionParameters;
use iscsi::pdu::Isid;
use iscsi::target::login::LoginIdentity;

use super::operation::SessionKey;

/// What makes a session the same one after a new login (RFC 7143 §6.3.5): initiator port and target
/// port. Names are kept in lower case, since they compare without regard to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionName {
    /// InitiatorName.
    pub initiator: Arc<str>,
    /// ISID.
    pub isid: Isid,
    /// TargetName; empty for discovery.
    pub target: Arc<str>,
    /// Target portal group tag.
    pub portal_group_tag: u16,
}

impl SessionName {
    /// Of a login at a portal group.
    pub(super) fn of(identity: &LoginIdentity, portal_group_tag: u16) -> Self {
        let target = identity.target_name.as_deref().unwrap_or_default();
        Self {
            initiator: identity.initiator_name.to_ascii_lowercase().into(),
            isid: identity.isid,
            target: target.to_ascii_lowercase().into(),
            portal_group_tag,
        }
    }
}

/// A session as the other loops know it.
#[derive(Debug)]
pub(super) struct RegisteredSession {
    /// Its handle.
    pub tsih: u16,
    /// The loop that owns it.
    pub loop_index: usize,
    /// Its key in that loop.
    pub key: SessionKey,
    /// What was negotiated.
    pub parameters: SessionParameters,
    /// Connections, those that are about to join included.
    pub connections: AtomicU16,
    /// The ExpCmdSN told last; for the login of further connections.
    pub exp_cmd_sn: AtomicU32,
    /// The MaxCmdSN told last.
    pub max_cmd_sn: AtomicU32,
}

/// Sessions by name and by handle.
#[derive(Debug, Default)]
pub(super) struct Registry {
    by_name: HashMap<SessionName, Arc<RegisteredSession>>,
    by_tsih: HashMap<u16, SessionName>,
    last_tsih: u16,
    last_key: u64,
}

impl Registry {
    /// The session of this name.
    pub(super) fn find(&self, name: &SessionName) -> Option<Arc<RegisteredSession>> {
        self.by_name.get(name).cloned()
    }

    /// The session with this handle.
    pub(super) fn by_tsih(&self, tsih: u16) -> Option<Arc<RegisteredSession>> {
        self.find(self.by_tsih.get(&tsih)?)
    }

    /// How many sessions there are, and at this target.
    pub(super) fn count(&self, target: &str) -> (usize, usize) {
        (
            self.by_name.len(),
            self.by_name
                .keys()
                .filter(|name| &*name.target == target)
                .count(),
        )
    }

    /// Registers a session, replacing one of the same name, which is returned to be closed. `None`
    /// where all 65,535 handles are taken.
    pub(super) fn insert(
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
            connections: AtomicU16::new(1),
            exp_cmd_sn: AtomicU32::new(0),
            max_cmd_sn: AtomicU32::new(0),
        });
        self.by_tsih.insert(tsih, name.clone());
        self.by_name.insert(name, session.clone());
        Some((session, old))
    }

    /// Forgets a session, unless its name belongs to a newer one already.
    pub(super) fn remove(&mut self, name: &SessionName, session: &RegisteredSession) {
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

impl RegisteredSession {
    /// Notes the command window, for connections that log in later.
    pub(super) fn note_window(&self, exp_cmd_sn: u32, max_cmd_sn: u32) {
        self.exp_cmd_sn.store(exp_cmd_sn, Ordering::Relaxed);
        self.max_cmd_sn.store(max_cmd_sn, Ordering::Relaxed);
    }
}

//! Session as its initiator knows it: places in its order, and the requests sent on each
//! connection.

use std::collections::BTreeMap;

use iscsi::negotiation::SessionParameters;
use iscsi::pdu::LogoutReason;

use super::{Session, What};
use crate::mcs::ledger::Place;
use crate::mcs::wire::{Phase, Wire};
use crate::network::ConnectionId;

impl Session {
    pub(super) fn new(start: u32, wanted: usize, wire: Wire) -> Self {
        Self {
            number: None,
            tsih: 0,
            parameters: SessionParameters::default(),
            start,
            next: 0,
            max: -1,
            wanted,
            wires: vec![wire],
            requests: BTreeMap::new(),
            lost: BTreeMap::new(),
            careless: None,
            ending: false,
        }
    }

    /// Reports whether a logout of this connection is under way.
    pub(super) fn logs_out(&self, of: u16) -> bool {
        let requests = self.requests.values();
        let mut logouts = requests.filter(|it| it.wire.is_some());
        logouts.any(|it| match it.what {
            What::Logout { reason, cid } => reason == LogoutReason::CloseConnection && cid == of,
            _ => false,
        })
    }

    pub(super) fn cmd_sn(&self, place: Place) -> u32 {
        self.start.wrapping_add(place as u32)
    }

    pub(super) fn place(&self, cmd_sn: u32) -> Place {
        Place::from(cmd_sn.wrapping_sub(self.start).cast_signed())
    }

    pub(super) fn take_window(&mut self, (exp_cmd_sn, max_cmd_sn): (u32, u32)) {
        let exp = self.place(exp_cmd_sn);
        assert!(exp <= self.next, "ExpCmdSN beyond what was sent");
        self.max = self.max.max(self.place(max_cmd_sn));
    }

    /// Keeps the requests of a lost connection until the target has given that connection up, too.
    pub(super) fn forget_wire(&mut self, id: ConnectionId) {
        let mut again = Vec::new();
        self.requests.retain(|_, request| {
            if request.wire != Some(id) {
                return true;
            }
            request.wire = None;
            // Nobody hears of this immediate logout now.
            match request.what {
                What::Logout { reason, cid } if request.immediate => {
                    if reason == LogoutReason::CloseConnection {
                        again.push(cid);
                    }
                    false
                }
                _ => true,
            }
        });
        for cid in again {
            if let Some(cleaning) = self.lost.get_mut(&cid) {
                *cleaning = false;
            } else if let Some(wire) = self.wires.iter_mut().find(|wire| wire.cid == cid)
                && wire.is_active()
            {
                // The connection may be logged out or not: it is logged out again.
                wire.phase = Phase::LoggingOut;
                self.lost.insert(cid, false);
            }
        }
    }

    /// Reports whether the logout of the session was lost with its connection.
    ///
    /// The target may have heard the logout or not. The answers that came meanwhile were taken for
    /// those of a session that ends.
    pub(super) fn lost_its_end(&self) -> bool {
        let mut requests = self.requests.values();
        self.ending
            && !requests.any(|it| match it.what {
                What::Logout { reason, .. } => reason == LogoutReason::CloseSession,
                _ => false,
            })
    }
}

//! Lost connections, and an initiator's recovery from them at error recovery level 0.

use std::time::Duration;

use iscsi::pdu::{LogoutReason, TaskManagementFunction as Function};

use super::{Initiator, STORMS_END, Want, What};
use crate::mcs::cells::LUNS;
use crate::mcs::ledger::{Ledger, Place};
use crate::mcs::wire::{Phase, Wire};
use crate::network::ConnectionId;

impl Initiator {
    /// Recovers the requests of the connection with this CID, which the target has given up.
    /// Requests that the target had ended with the connection. Requests that it did not have are
    /// sent again on another connection.
    pub(super) fn recover(&mut self, cid: u16, exp_cmd_sn: u32, ledger: &mut Ledger) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.lost.remove(&cid);
        let exp = session.place(exp_cmd_sn);
        let active = session.wires.iter().filter(|wire| wire.is_active());
        let active: Vec<(ConnectionId, u16)> = active.map(|wire| (wire.id, wire.cid)).collect();
        let lost = session.requests.iter();
        let lost = lost.filter(|(_, it)| it.wire.is_none() && it.cid == cid);
        let mut lost: Vec<(Place, u32)> = lost.map(|(itt, it)| (it.place, *itt)).collect();
        lost.sort_unstable();
        if active.is_empty() {
            return self.abandon();
        }
        let (id, new_cid) = self.random.one_of(&active);
        for (place, itt) in lost {
            let Some(session) = &mut self.session else {
                return;
            };
            let Some(request) = session.requests.get_mut(&itt) else {
                continue;
            };
            if !request.immediate && place >= exp {
                (request.wire, request.cid) = (Some(id), new_cid);
                let since = request.since;
                self.sent_again += 1;
                let command = matches!(request.what, What::Command { .. });
                if command && self.random.per_mille(200) {
                    self.abort_task(id, itt, since, ledger);
                } else {
                    self.transmit(itt, ledger);
                }
                continue;
            }
            let since = request.since;
            match self.remove_request(itt).what {
                What::Command { attempt, .. } => {
                    ledger.conclude(attempt);
                    self.ready.push_back(ledger.job_of(attempt));
                }
                What::Function { function, lun, .. } if function != Function::AbortTask => {
                    if function == Function::TargetWarmReset {
                        let function = Function::LogicalUnitReset;
                        (0..LUNS)
                            .for_each(|lun| self.manage(id, function, lun, true, since, ledger));
                    } else {
                        self.manage(id, function, lun, true, since, ledger);
                    }
                }
                What::Logout { cid, .. } => {
                    // The logout may have been heard or not, so it is sent again.
                    let session = self.session.as_mut();
                    if let Some(cleaning) = session.and_then(|it| it.lost.get_mut(&cid)) {
                        *cleaning = false;
                    }
                }
                _ => {}
            }
        }
    }

    /// Abandons the session: it is over for this side. Its commands end when the next session
    /// begins.
    pub(super) fn abandon(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        self.closing.extend(session.wires.iter().map(|it| it.id));
        for request in session.requests.into_values() {
            if let What::Command { attempt, .. } = request.what {
                self.limbo.push(attempt);
            }
        }
        self.over = self.is_done();
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0 && self.ready.is_empty() && self.limbo.is_empty()
    }

    /// Notes that a connection is gone, or given up.
    pub fn lost_wire(&mut self, id: ConnectionId, now: Duration) {
        let Some(session) = &mut self.session else {
            return;
        };
        let Some(at) = session.wires.iter().position(|wire| wire.id == id) else {
            return;
        };
        let wire = session.wires.remove(at);

        self.closing.push(id);
        let took_a_place = session.lost.contains_key(&wire.cid);
        session.forget_wire(id);
        if matches!(wire.phase, Phase::LoggingIn(_)) && !took_a_place {
            // The connection never belonged to the session.
        } else if session.number.is_some() {
            let cleaning = session.logs_out(wire.cid);
            session.lost.insert(wire.cid, cleaning);
        }
        if session.lost_its_end() || !session.wires.iter().any(Wire::is_active) {
            return self.abandon();
        }
        if session.careless.is_none() && self.random.per_mille(self.habits.careless) {
            session.careless = Some(now);
        }
    }

    /// Starts the recovery of lost connections.
    pub(super) fn clean_up(&mut self, now: Duration, ledger: &mut Ledger) {
        let Some(session) = &mut self.session else {
            return;
        };
        if session.careless.is_some() || session.ending {
            return;
        }
        let lost: Vec<u16> = session
            .lost
            .iter()
            .filter(|it| !it.1)
            .map(|it| *it.0)
            .collect();
        for cid in lost {
            let Some(session) = &mut self.session else {
                return;
            };
            let wires = session.wires.iter().filter(|wire| wire.is_active());
            let active: Vec<ConnectionId> = wires.map(|wire| wire.id).collect();
            if active.is_empty() || (now < STORMS_END && self.random.per_mille(50)) {
                return self.abandon();
            }
            session.lost.insert(cid, true);
            let id = self.random.one_of(&active);
            let reason = LogoutReason::CloseConnection;
            if self.random.per_mille(500) {
                self.request(id, What::Logout { reason, cid }, true, now, ledger);
            } else {
                self.wants.push(Want { cid, joins: true });
            }
        }
    }
}

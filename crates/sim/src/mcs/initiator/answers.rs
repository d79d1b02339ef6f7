//! The simulated initiator's reactions to answers.

use std::time::Duration;

use iscsi::pdu::{
    AsyncMessage, BHS_LENGTH, Bhs, DataIn, LogoutReason, LogoutResponse, NopIn, NopOut, Opcode,
    RESERVED_TAG, RawBhs, ReadyToTransfer, ScsiResponse, TaskManagementFunction as Function,
    TaskManagementResponse, TaskManagementResult,
};

use super::{Initiator, Request, What};
use crate::mcs::ledger::{AttemptId, Job, JobKind, Ledger, pattern};
use crate::mcs::wire::Phase;
use crate::network::ConnectionId;

impl Initiator {
    pub(super) fn handle(
        &mut self,
        id: ConnectionId,
        bhs: &RawBhs,
        data: &[u8],
        now: Duration,
        ledger: &mut Ledger,
    ) {
        match Bhs::new(bhs).opcode().expect("a known opcode") {
            Opcode::ScsiResponse => {
                let response = ScsiResponse::parse(bhs).expect("a response");
                if is_unit_attention(response.status, data) {
                    return self.refused(id, response.itt, ledger);
                }
                assert_eq!(response.status, 0, "{response:?} {data:02x?}");
                self.answered(id, response.itt, ledger);
            }
            Opcode::DataIn => {
                let pdu = DataIn::parse(bhs).expect("data");
                let request = self.take_request(id, pdu.itt);
                let What::Command { data_in, .. } = &mut request.what else {
                    panic!("data for {request:?}");
                };
                assert_eq!(data_in.len(), pdu.buffer_offset as usize, "data in order");
                data_in.extend_from_slice(data);
                if pdu.status_present {
                    self.answered(id, pdu.itt, ledger);
                }
            }
            Opcode::ReadyToTransfer => {
                let r2t = ReadyToTransfer::parse(bhs).expect("an R2T");
                self.send_burst(id, &r2t, ledger);
            }
            Opcode::NopIn => self.nop_in(id, &NopIn::parse(bhs).expect("a ping"), ledger),
            Opcode::TaskManagementResponse => {
                let response = TaskManagementResponse::parse(bhs).expect("an answer");
                self.function_answered(id, &response, now, ledger);
            }
            Opcode::LogoutResponse => {
                let response = LogoutResponse::parse(bhs).expect("an answer");
                self.logout_answered(id, &response, ledger);
            }
            Opcode::AsyncMessage => {
                AsyncMessage::parse(bhs).expect("a message");
            }
            _ => panic!("unexpected: {bhs:02x?}"),
        }
    }

    /// Takes the request that an answer on this connection is for.
    pub(super) fn take_request(&mut self, id: ConnectionId, itt: u32) -> &mut Request {
        let session = self.session.as_mut().expect("a session");
        let request = session.requests.get_mut(&itt);
        let request = request.unwrap_or_else(|| panic!("an answer for {itt}, which is over"));
        assert_eq!(request.wire, Some(id), "allegiance of {request:?}");
        request
    }

    pub(super) fn remove_request(&mut self, itt: u32) -> Request {
        let session = self.session.as_mut().expect("a session");
        session.requests.remove(&itt).expect("it was there")
    }

    pub(super) fn answered(&mut self, id: ConnectionId, itt: u32, ledger: &mut Ledger) {
        self.take_request(id, itt);
        let What::Command { attempt, data_in } = self.remove_request(itt).what else {
            panic!("a status for {itt}, which is no command");
        };
        ledger.answered(attempt);
        let job = ledger.job(ledger.job_of(attempt));
        let cell = &mut self.model[job.lun as usize][job.cell];
        match job.kind {
            JobKind::Write => *cell = (attempt, job.length),
            JobKind::Read => check_read(*cell, job, &data_in),
            JobKind::Nothing => {}
        }
        self.job_ended(job.lun, job.cell);
    }

    /// Takes back a command that was told of a unit attention instead of being carried out.
    fn refused(&mut self, id: ConnectionId, itt: u32, ledger: &mut Ledger) {
        self.take_request(id, itt);
        let What::Command { attempt, .. } = self.remove_request(itt).what else {
            panic!("a status for {itt}, which is no command");
        };
        ledger.conclude(attempt);
        self.refusals += 1;
        self.ready.push_back(ledger.job_of(attempt));
    }

    pub(super) fn job_ended(&mut self, lun: u64, cell: usize) {
        self.busy[lun as usize][cell] = false;
        self.ended += 1;
    }

    pub(super) fn aborted(&mut self, attempt: AttemptId, ledger: &mut Ledger) {
        ledger.conclude(attempt);
        let id = ledger.job_of(attempt);
        let job = ledger.job(id);
        if job.kind == JobKind::Write {
            self.unsure.push((job.lun, job.cell, id));
        }
        self.aborted += 1;
        self.job_ended(job.lun, job.cell);
    }

    pub(super) fn nop_in(&mut self, id: ConnectionId, pdu: &NopIn, ledger: &mut Ledger) {
        if pdu.itt != RESERVED_TAG {
            self.take_request(id, pdu.itt);
            let confirmed = matches!(self.remove_request(pdu.itt).what, What::Confirmation);
            let Some(wire) = self.wire(id) else { return };
            wire.pinged = false;
            if confirmed {
                wire.phase = Phase::Active;
                let cid = wire.cid;
                self.recover(cid, pdu.exp_cmd_sn, ledger);
            }
        } else if pdu.ttt != RESERVED_TAG {
            let Some(session) = &self.session else { return };
            let cmd_sn = session.cmd_sn(session.next);
            let Some(wire) = session.wires.iter().find(|wire| wire.id == id) else {
                return;
            };
            if matches!(wire.phase, Phase::LoggingOut) {
                return;
            }
            let mut bhs = [0; BHS_LENGTH];
            NopOut {
                immediate: true,
                data_segment_length: 0,
                lun: 0,
                itt: RESERVED_TAG,
                ttt: pdu.ttt,
                cmd_sn,
                exp_stat_sn: 0,
            }
            .encode(&mut bhs);
            let mut out = Vec::new();
            wire.encode(bhs, &[], &mut out);
            self.out.push((id, out));
        }
    }

    pub(super) fn function_answered(
        &mut self,
        id: ConnectionId,
        response: &TaskManagementResponse,
        now: Duration,
        ledger: &mut Ledger,
    ) {
        self.take_request(id, response.itt);
        let answered = self.remove_request(response.itt);
        let What::Function {
            function, covers, ..
        } = answered.what
        else {
            panic!("{response:?} is not for a function");
        };
        let gone = function == Function::AbortTask
            && response.response == TaskManagementResult::TaskDoesNotExist;
        assert!(
            gone || response.response == TaskManagementResult::Complete,
            "{response:?}"
        );
        for (itt, attempt) in covers {
            if self.session.as_ref().is_some_and(|session| session.ending) {
                return;
            }
            let Some(session) = &mut self.session else {
                return;
            };
            let Some(covered) = session.requests.get(&itt) else {
                continue;
            };
            let same = matches!(covered.what, What::Command { attempt: it, .. } if it == attempt);
            let active = session.wires.iter().filter(|wire| wire.is_active());
            let wire = covered
                .wire
                .filter(|id| active.clone().any(|it| it.id == *id));
            let Some(wire) = wire.filter(|_| same) else {
                // The task has ended, or its connection is lost or logged out. That decides then.
                continue;
            };
            if covered.sent > answered.sent {
                // The task was sent again since. Nobody can tell which of the two came first.
                self.abort_task(wire, itt, now, ledger);
                continue;
            }
            self.remove_request(itt);
            self.aborted(attempt, ledger);
        }
    }

    pub(super) fn logout_answered(
        &mut self,
        id: ConnectionId,
        response: &LogoutResponse,
        ledger: &mut Ledger,
    ) {
        self.take_request(id, response.itt);
        let What::Logout { reason, cid } = self.remove_request(response.itt).what else {
            panic!("{response:?} is not for a logout");
        };
        let Some(session) = &mut self.session else {
            return;
        };
        if reason == LogoutReason::CloseSession {
            self.closing.extend(session.wires.iter().map(|it| it.id));
            return self.abandon();
        }
        for at in (0..session.wires.len()).rev() {
            let wire = &session.wires[at];
            if wire.cid == cid && matches!(wire.phase, Phase::LoggingOut) {
                let wire = session.wires.remove(at);
                session.forget_wire(wire.id);
                self.closing.push(wire.id);
            }
        }
        if session.wires.is_empty() || session.lost_its_end() {
            return self.abandon();
        }
        let took_its_place = session.wires.iter().any(|wire| wire.cid == cid);
        if !took_its_place {
            self.recover(cid, response.exp_cmd_sn, ledger);
        }
    }
}

/// Reports whether a status is CHECK CONDITION, with sense data that tells of a unit attention.
fn is_unit_attention(status: u8, data: &[u8]) -> bool {
    // The length of the sense data comes first. Both formats have the sense key in their place.
    let sense = data.get(2..).unwrap_or_default();
    let key = match sense.first().map(|code| code & 0x7f) {
        Some(0x70) => sense.get(2),
        Some(0x72) => sense.get(1),
        _ => None,
    };
    status == 0x02 && key.is_some_and(|key| key & 0xf == 0x06)
}

/// Checks that a read found the content of its cell: what was written last, and zeros behind it or
/// what an older and longer write left there.
fn check_read((attempt, length): (AttemptId, usize), job: Job, data: &[u8]) {
    let known = length.min(job.length);
    assert_eq!(data.len(), job.length, "{job:?}");
    assert!(
        data[..known] == pattern(attempt, length)[..known],
        "{job:?}: read else"
    );
}

//! The sending side of the simulated initiator: requests, for the first time or again, and their
//! data.

use std::ops::Range;
use std::time::Duration;

use iscsi::negotiation::SessionParameters;
use iscsi::pdu::{
    BHS_LENGTH, DataOut, LogoutRequest, NopOut, RESERVED_TAG, RawBhs, ReadyToTransfer, ScsiCommand,
    TaskAttribute, TaskManagementRequest,
};

use super::{Initiator, Request, What};
use crate::mcs::ledger::{AttemptId, JobKind, Ledger, cdb, pattern};
use crate::mcs::wire::Wire;
use crate::network::ConnectionId;
use crate::random::Random;

impl Initiator {
    /// Sends a new request on a connection.
    pub(super) fn request(
        &mut self,
        id: ConnectionId,
        what: What,
        immediate: bool,
        now: Duration,
        ledger: &mut Ledger,
    ) {
        let Some(session) = &mut self.session else {
            return;
        };
        let place = session.next;
        if !immediate {
            session.next += 1;
            if !matches!(what, What::Command { .. }) {
                ledger.add_request(session.number.expect("established"), place);
            }
        }
        let cid = session.wires.iter().find(|wire| wire.id == id);
        let request = Request {
            what,
            place,
            immediate,
            wire: Some(id),
            cid: cid.expect("a wire in use").cid,
            sent: 0,
            since: now,
        };
        let mut tags = 0..u32::MAX;
        // The smallest free tag is taken, so a tag that ended just now is used again at once.
        let itt = tags.find(|itt| !session.requests.contains_key(itt));
        let itt = itt.expect("a free tag");
        session.requests.insert(itt, request);
        self.transmit(itt, ledger);
    }

    /// Sends a request, for the first time or again.
    pub(super) fn transmit(&mut self, itt: u32, ledger: &mut Ledger) {
        let Some(session) = &mut self.session else {
            return;
        };
        let Some(request) = session.requests.get_mut(&itt) else {
            return;
        };
        self.sends += 1;
        request.sent = self.sends;
        let id = request.wire.expect("it has a connection");
        let wire = session.wires.iter().find(|wire| wire.id == id);
        let wire = wire.expect("a wire in use");
        let mut out = Vec::new();
        if let What::Command { attempt, data_in } = &mut request.what {
            data_in.clear();
            let job = ledger.job(ledger.job_of(*attempt));
            let bytes = match job.kind {
                JobKind::Write => pattern(*attempt, job.length),
                _ => Vec::new(),
            };
            let attempt = *attempt;
            let command = command(attempt, itt, request, session.start, ledger);
            let parameters = &session.parameters;
            send_command(
                wire,
                command,
                &bytes,
                parameters,
                &mut self.random,
                &mut out,
            );
        } else {
            wire.encode(header(itt, request, session.start), &[], &mut out);
        }
        self.out.push((id, out));
    }

    pub(super) fn send_burst(&mut self, id: ConnectionId, r2t: &ReadyToTransfer, ledger: &Ledger) {
        let request = self.take_request(id, r2t.itt);
        let What::Command { attempt, .. } = request.what else {
            panic!("an R2T for {request:?}");
        };
        let bytes = pattern(attempt, ledger.job(ledger.job_of(attempt)).length);
        let from = r2t.buffer_offset as usize;
        let range = from..from + r2t.desired_data_transfer_length as usize;
        let Some(wire) = self.wire(id) else { return };
        let mut out = Vec::new();
        send_data(wire, r2t.itt, r2t.ttt, &bytes, range, &mut out);
        self.out.push((id, out));
    }
}

/// Makes a command without its data.
fn command(
    attempt: AttemptId,
    itt: u32,
    request: &Request,
    start: u32,
    ledger: &Ledger,
) -> ScsiCommand {
    let job = ledger.job(ledger.job_of(attempt));
    ScsiCommand {
        immediate: request.immediate,
        is_final: true,
        read: job.kind == JobKind::Read,
        write: job.kind == JobKind::Write,
        attribute: TaskAttribute::Simple,
        total_ahs_length: 0,
        data_segment_length: 0,
        lun: job.lun << 48,
        itt,
        expected_data_transfer_length: job.length as u32,
        cmd_sn: start.wrapping_add(request.place as u32),
        exp_stat_sn: 0,
        cdb: cdb(&job),
    }
}

/// Makes the header of a request that is not a command.
fn header(itt: u32, request: &Request, start: u32) -> RawBhs {
    let cmd_sn = start.wrapping_add(request.place as u32);
    let immediate = request.immediate;
    let mut bhs = [0; BHS_LENGTH];
    match &request.what {
        What::Command { .. } => panic!("a command has a CDB"),
        What::Ping | What::Confirmation => NopOut {
            immediate,
            data_segment_length: 0,
            lun: 0,
            itt,
            ttt: RESERVED_TAG,
            cmd_sn,
            exp_stat_sn: 0,
        }
        .encode(&mut bhs),
        What::Function {
            function,
            lun,
            referenced,
            ..
        } => {
            let (tag, place) = referenced.unwrap_or((RESERVED_TAG, 0));
            TaskManagementRequest {
                immediate,
                function: *function,
                total_ahs_length: 0,
                data_segment_length: 0,
                lun: *lun << 48,
                itt,
                referenced_task_tag: tag,
                cmd_sn,
                exp_stat_sn: 0,
                ref_cmd_sn: start.wrapping_add(place as u32),
                exp_data_sn: 0,
            }
            .encode(&mut bhs);
        }
        What::Logout { reason, cid } => LogoutRequest {
            immediate,
            reason: *reason,
            itt,
            cid: *cid,
            cmd_sn,
            exp_stat_sn: 0,
        }
        .encode(&mut bhs),
    }
    bhs
}

fn send_command(
    wire: &Wire,
    mut command: ScsiCommand,
    bytes: &[u8],
    parameters: &SessionParameters,
    random: &mut Random,
    out: &mut Vec<u8>,
) {
    let burst = bytes.len().min(parameters.first_burst_length as usize);
    let immediate = match parameters.immediate_data {
        true => random
            .one_of(&[0, burst / 2, burst])
            .min(wire.max_data_segment),
        false => 0,
    };
    let unsolicited = !parameters.initial_r2t && immediate < burst && random.per_mille(800);
    command.is_final = !unsolicited;
    command.data_segment_length = immediate as u32;
    let mut bhs = [0; BHS_LENGTH];
    command.encode(&mut bhs);
    wire.encode(bhs, &bytes[..immediate], out);
    if unsolicited {
        send_data(
            wire,
            command.itt,
            RESERVED_TAG,
            bytes,
            immediate..burst,
            out,
        );
    }
}

/// Sends one sequence of Data-Outs.
fn send_data(
    wire: &Wire,
    itt: u32,
    ttt: u32,
    bytes: &[u8],
    range: Range<usize>,
    out: &mut Vec<u8>,
) {
    let mut at = range.start;
    let mut data_sn = 0;
    while at < range.end {
        let end = range.end.min(at + wire.max_data_segment);
        let pdu = DataOut {
            is_final: end == range.end,
            data_segment_length: (end - at) as u32,
            lun: 0,
            itt,
            ttt,
            exp_stat_sn: 0,
            data_sn,
            buffer_offset: at as u32,
        };
        let mut bhs = [0; BHS_LENGTH];
        pdu.encode(&mut bhs);
        wire.encode(bhs, &bytes[at..end], out);
        data_sn += 1;
        at = end;
    }
}

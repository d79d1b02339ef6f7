//! Turns requests into commands on paths, and the ends of commands into the ends of requests.

use std::time::Instant;

use iscsi::initiator::{CommandEnd, Residual, SessionEvent, SessionUser};
use scsi::application_client::sense::{Reaction, SenseCode};
use slab::Slab;

use super::super::device::LOST_WRITES;
use super::super::requests::{After, Finished};
use super::{Device, ERRAND, Ending, Errand, Fabric, Way, us_since};
use block::fence::FenceState;
use block::lane::{self, Remote};
use block::{BlockError, BlockErrorKind, Done, Request, Ticket};
use multipath::{self, Action, Ended, Failure, IoId, Outcome, PathId};

/// Source and sink of a session's data while bytes are processed.
pub(super) struct Exchange<'a> {
    pub(super) devices: &'a mut [Device],
    pub(super) errands: &'a mut Slab<Errand>,
    pub(super) endings: &'a mut Vec<Ending>,
    pub(super) news: Vec<SessionEvent>,
    /// Start of the fabric's clock.
    pub(super) start: Instant,
}

/// Returns the cookie by which a session knows an I/O.
#[inline]
pub(super) fn cookie(device: usize, path: PathId, io: IoId) -> u64 {
    (device as u64) << 48 | u64::from(path.0 as u16) << 32 | u64::from(io.0)
}

#[inline]
pub(super) fn device_and_io(cookie: u64) -> (usize, IoId) {
    ((cookie >> 48) as usize, IoId(cookie as u32))
}

#[inline]
pub(super) fn path_of(cookie: u64) -> PathId {
    PathId(u32::from((cookie >> 32) as u16))
}

impl SessionUser for Exchange<'_> {
    #[inline]
    fn data_out(&mut self, cookie: u64, offset: u32, length: u32, out: &mut Vec<u8>) {
        if cookie & ERRAND != 0 {
            let end = out.len() + length as usize;
            if let Some(errand) = self.errands.get((cookie & !ERRAND) as usize) {
                let bytes = errand
                    .data_out
                    .get(offset as usize..(offset + length) as usize);
                out.extend_from_slice(bytes.unwrap_or_default());
            }
            return out.resize(end, 0);
        }
        let (device, io) = device_and_io(cookie);
        self.devices[device]
            .requests
            .data_out(io, offset, length, out);
    }

    #[inline]
    fn data_in(&mut self, cookie: u64, offset: u32, bytes: &[u8]) {
        if cookie & ERRAND != 0 {
            if let Some(errand) = self.errands.get_mut((cookie & !ERRAND) as usize) {
                let end = offset as usize + bytes.len();
                if errand.data_in.len() < end {
                    errand.data_in.resize(end, 0);
                }
                errand.data_in[offset as usize..end].copy_from_slice(bytes);
            }
            return;
        }
        let (device, io) = device_and_io(cookie);
        self.devices[device].requests.data_in(io, offset, bytes);
    }

    fn sent_late(&mut self, cookie: u64) {
        if cookie & ERRAND == 0 {
            let (device, io) = device_and_io(cookie);
            let now_us = us_since(self.start);
            let policy = &mut self.devices[device].policy;
            policy.sent_late(io, path_of(cookie), now_us);
        }
    }

    #[inline]
    fn ended(&mut self, cookie: u64, end: CommandEnd<'_>) {
        let (status, sense) = match end {
            CommandEnd::Status {
                status,
                sense,
                residual,
            } => {
                let is_short = status == 0 && matches!(residual, Residual::Underflow(_));
                if is_short && cookie & ERRAND == 0 {
                    let (device, io) = device_and_io(cookie);
                    self.devices[device].requests.mark_short(io);
                }
                (Some(status), sense.to_vec())
            }
            CommandEnd::TargetFailure(_) | CommandEnd::Rejected(_) => (None, Vec::new()),
        };
        self.endings.push(Ending {
            cookie,
            status,
            sense,
        });
    }

    fn event(&mut self, event: SessionEvent) {
        self.news.push(event);
    }
}

impl Fabric {
    /// Answers a request that needs no command.
    #[inline]
    pub(in super::super) fn answer_at_once(
        &self,
        device: usize,
        request: &Request,
    ) -> Option<lane::Outcome> {
        if let Err(error) = self.geometry(device).check(request) {
            return Some(Err(error));
        }
        if self.fence_state(device) == FenceState::Lost {
            return Some(Err(BlockError::new(
                BlockErrorKind::Reserved,
                "another host has taken the device from this one",
            )));
        }
        match request {
            Request::Flush if self.devices[device].has_lost_writes => {
                Some(Err(BlockError::new(BlockErrorKind::Write, LOST_WRITES)))
            }
            // A unit that does not tell which blocks are zeros has data everywhere.
            Request::Extents { len, .. } if !self.devices[device].limits.lba_status => {
                Some(Ok(Done::Extents(vec![(*len, true)])))
            }
            _ => None,
        }
    }

    /// Takes a request whose range was checked.
    #[inline]
    pub(in super::super) fn submit(
        &mut self,
        device: usize,
        request: Request,
        ticket: Ticket,
        origin: Option<Remote>,
    ) {
        let now = self.now_us();
        if self.is_over {
            return self.finished.push(Finished {
                ticket,
                origin,
                outcome: Err(ended()),
            });
        }
        let Device {
            policy,
            requests,
            limits,
            ..
        } = &mut self.devices[device];
        let actions = &mut self.actions;
        requests.begin(request, ticket, origin, limits, |io, shape| {
            policy.submit(io, shape, now, actions);
        });
        self.carry_out(device, now);
    }

    /// Carries out the actions of a device's policy, and their consequences.
    pub(super) fn carry_out(&mut self, device: usize, now: u64) {
        // The consequences of an action are appended, and carried out in this loop.
        let mut actions = std::mem::take(&mut self.actions);
        let mut next = 0;
        while next < actions.len() {
            match actions[next] {
                Action::Send { io, path } => self.send(device, io, path),
                Action::Finish { io, outcome } => {
                    self.finish(device, io, outcome, now, &mut actions)
                }
                Action::Probe { path } => self.probe_path(device, path),
                Action::Fence { path } => {
                    // A lost session handles its own fence. A session that lives on after one of
                    // its paths was removed may still perform that path's commands.
                    if !self.may_still_perform(device, path) {
                        let policy = &mut self.devices[device].policy;
                        policy.path_fenced(path, now, &mut actions);
                    }
                }
                Action::ActivateGroup { path } => self.activate_group(device, path),
                Action::Refresh { path, what } => self.refresh(device, path, what),
            }
            next += 1;
        }
        actions.clear();
        self.actions = actions;
    }

    #[inline]
    fn send(&mut self, device: usize, io: IoId, path: PathId) {
        let Way { nexus: at, lun, .. } = self.devices[device].paths[path.0 as usize];
        let Some(command) = self.devices[device].requests.command(io) else {
            return;
        };
        let mut command = *command;
        command.lun = lun;
        let mut exchange = Exchange {
            devices: &mut self.devices,
            errands: &mut self.errands,
            endings: &mut self.endings,
            news: Vec::new(),
            start: self.start,
        };
        if let Some(link) = self.nexuses[at].link() {
            if let Some((session, out)) = link.session() {
                session.command(cookie(device, path, io), &command, &mut exchange, out);
            }
            link.command_queued();
        }
        self.mark_dirty(at);
    }

    fn finish(
        &mut self,
        device: usize,
        io: IoId,
        outcome: Outcome,
        now: u64,
        actions: &mut Vec<Action>,
    ) {
        let Device {
            policy,
            requests,
            limits,
            has_lost_writes,
            ..
        } = &mut self.devices[device];
        let outcome = match outcome {
            // This is a durable write that began after the loss, which nobody has acknowledged yet.
            Outcome::Good if *has_lost_writes && requests.is_flush(io) => {
                Outcome::Failed(Failure::Sense(Reaction::MediumError))
            }
            outcome => outcome,
        };
        match requests.ended(io, outcome, limits) {
            After::Nothing => {}
            After::Submit(more) => {
                for (io, shape) in more {
                    policy.submit(io, shape, now, actions);
                }
            }
            After::WithoutWriteSame => {
                limits.write_same = 0;
                for (io, shape) in requests.plan_plainly(io, limits) {
                    policy.submit(io, shape, now, actions);
                }
            }
            After::Finished(finished) => self.finished.push(*finished),
        }
    }

    /// Answers all requests; nothing is sent any more.
    pub(in super::super) fn abandon(&mut self, why: &'static str) {
        self.is_over = true;
        for device in &mut self.devices {
            self.finished.extend(device.requests.abandon(why));
        }
    }

    /// Processes commands that ended.
    pub(super) fn settle(&mut self, at: usize, now: u64) {
        let mut endings = std::mem::take(&mut self.endings);
        for Ending {
            cookie,
            status,
            sense,
        } in endings.drain(..)
        {
            if !self.nexuses[at].is_up() {
                // An earlier answer has ended the session, so its commands go elsewhere.
                break;
            }
            if cookie & ERRAND != 0 {
                let key = (cookie & !ERRAND) as usize;
                let is_ours = self
                    .errands
                    .get(key)
                    .is_some_and(|errand| errand.nexus == at);
                if is_ours && let Some(errand) = self.errands.try_remove(key) {
                    self.forget_abort(at, cookie);
                    if status == Some(0x02) {
                        self.heed_cleared_commands(at, errand.lun, cookie, &sense, now);
                    }
                    self.errand_ended(errand, status, &sense, now);
                }
                continue;
            }
            self.forget_abort(at, cookie);
            self.nexuses[at].has_served |= status == Some(0);
            let (device, io) = device_and_io(cookie);
            self.note_lost_writes(device, io, status, &sense);
            if status == Some(0x02) {
                let lun = self.devices[device].paths[path_of(cookie).0 as usize].lun;
                self.heed_cleared_commands(at, lun, cookie, &sense, now);
            }
            let how = how_it_ended(status, &sense);
            let policy = &mut self.devices[device].policy;
            policy.ended(io, path_of(cookie), how, now, &mut self.actions);
            self.carry_out(device, now);
        }
        self.endings = endings;
    }

    /// Notes a flush that fails, or sense data about an earlier command: writes that were reported
    /// as done are lost. No later flush may report success (the target may report the loss only
    /// once), nor may one that is under way.
    #[inline]
    fn note_lost_writes(&mut self, device: usize, io: IoId, status: Option<u8>, sense: &[u8]) {
        if status != Some(0x02) {
            return;
        }
        let Some(code) = SenseCode::decode(sense) else {
            return;
        };
        let device = &mut self.devices[device];
        let is_flush = device.requests.is_flush(io);
        if code.tells_of_lost_writes(is_flush) {
            tracing::error!(device = device.policy.name(), sense = %code, "the target has lost writes");
            device.has_lost_writes = true;
            device.requests.doom_flushes();
        }
    }

    /// Reports whether a life of a path's session may still have commands at the target.
    fn may_still_perform(&self, device: usize, path: PathId) -> bool {
        let at = self.devices[device].paths[path.0 as usize].nexus;
        self.nexuses[at].needs_fence() || self.nexuses[at].is_up()
    }
}

#[cold]
fn ended() -> BlockError {
    BlockError::new(BlockErrorKind::Gone, "the initiator has ended")
}

#[inline]
pub(super) fn how_it_ended(status: Option<u8>, sense: &[u8]) -> Ended {
    match status {
        Some(0x00 | 0x04) => Ended::Good,
        Some(0x02) => {
            let code = SenseCode::decode(sense);
            Ended::Sense(code.map_or(Reaction::Aborted, |code| code.reaction()))
        }
        Some(0x08) => Ended::Busy,
        Some(0x18) => Ended::ReservationConflict,
        Some(0x28) => Ended::TaskSetFull,
        Some(0x40) => Ended::TaskAborted,
        Some(_) => Ended::Sense(Reaction::Other),
        None => Ended::Sense(Reaction::Aborted),
    }
}

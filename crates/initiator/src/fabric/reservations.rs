//! Reservations of devices for this host. Each path takes part in the reservation before it carries
//! I/O.
//!
//! The errand of one path stands in `scsi::application_client::reserving`, with the reason why a
//! host that lost the device writes no more. This file decides which path goes on its errand when.
//! A path registers only while no command of the device is under way on it. Otherwise a target
//! might perform the registration first, and then older commands of a host that has lost the
//! device.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use scsi::application_client::reserving::{Progress, Reserving};

use super::super::nexus::PathOf;
use super::{Device, Fabric, Purpose, Way};
use block::fence::{End, Fence, FenceOrder, FenceState, Goal};
use multipath::{Hold, PathId};

/// Time for which a busy target is left alone.
const LATER_US: u64 = 100_000;
/// Pause after which a path that could not take part is tried again.
const AGAIN_US: u64 = 1_000_000;
/// Interval of the check whether nothing is under way on a path.
const IDLE_US: u64 = 2_000;

/// Reservation of a device, and the work on it.
#[derive(Debug)]
pub(super) struct Reservation {
    fence: Fence,
    stage: ReservationStage,
    errands: BTreeMap<PathId, Errand>,
    job: Option<Job>,
    /// Order that follows the job.
    next: Option<(FenceOrder, Sender<End>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReservationStage {
    /// The paths are registered; another host may hold the reservation.
    Registered,
    /// One path takes the reservation; the others wait for it.
    Taking,
    Held,
    Unsupported,
    Lost,
    /// The reservation is given up.
    Leaving,
}

/// Errand of a path.
#[derive(Debug)]
struct Errand {
    number: u64,
    reserving: Reserving,
    /// Time at which the next command is due; `None` while it is under way.
    due_us: Option<u64>,
}

/// Job that a caller waits for.
#[derive(Debug)]
struct Job {
    goal: Goal,
    reply: Sender<End>,
    end: Option<End>,
}

impl Fabric {
    /// Begins to carry out an order, and reports its end through `reply`.
    pub(in super::super) fn fence(&mut self, device: usize, order: FenceOrder, reply: Sender<End>) {
        let now = self.now_us();
        let reservation = &mut self.devices[device].reservation;
        match reservation {
            Some(before) if before.job.is_some() => before.next = Some((order, reply)),
            _ => self.begin_job(device, order, reply, now),
        }
    }

    fn begin_job(&mut self, device: usize, order: FenceOrder, reply: Sender<End>, now: u64) {
        let FenceOrder { fence, goal } = order;
        let before = self.devices[device].reservation.take();
        let stage = match (goal, before.as_ref().map(|of| of.stage)) {
            (
                Goal::Release,
                None
                | Some(
                    ReservationStage::Unsupported
                    | ReservationStage::Lost
                    | ReservationStage::Leaving,
                ),
            ) => {
                self.let_all_through(device, now);
                // The caller may have stopped waiting.
                return drop(reply.send(End::Done));
            }
            (Goal::Release, Some(_)) => ReservationStage::Leaving,
            (Goal::Take { .. }, _) => ReservationStage::Taking,
            _ => ReservationStage::Registered,
        };
        let held = before.filter(|_| goal == Goal::Release);
        let goal = match held.as_ref().map(|of| of.stage) {
            // The reservation belongs to another host.
            Some(ReservationStage::Registered) => Goal::Leave,
            _ => goal,
        };
        self.devices[device].reservation = Some(Reservation {
            // The order uses the key of the registration.
            fence: held.map_or(fence, |of| of.fence),
            stage,
            errands: BTreeMap::new(),
            job: Some(Job {
                goal,
                reply,
                end: None,
            }),
            next: None,
        });
        self.set_hold(device, Hold::None, now);
        let known = self.paths_of(device, |of| of.is_known || of.waits_to_take_part);
        match goal {
            Goal::Take { .. } | Goal::Release => {
                if let Some((_, path)) = known.first() {
                    self.begin_errand(device, path.path, goal, None, now);
                }
            }
            _ => {
                for (_, path) in known {
                    self.begin_errand(device, path.path, goal, None, now);
                }
            }
        }
        self.job_goes_on(device, now);
    }

    /// Lists the paths of a device through sessions that are up, each with its session.
    fn paths_of(&self, device: usize, wanted: impl Fn(&PathOf) -> bool) -> Vec<(usize, PathOf)> {
        let up = self.nexuses.iter().enumerate().filter(|(_, of)| of.is_up());
        let paths = up.flat_map(|(at, nexus)| nexus.paths.iter().map(move |path| (at, *path)));
        paths
            .filter(|(_, path)| path.device == device && wanted(path))
            .collect()
    }

    fn path_of_mut(&mut self, device: usize, path: PathId) -> Option<&mut PathOf> {
        let at = self.devices[device].paths.get(path.0 as usize)?.nexus;
        let mut paths = self.nexuses[at].paths.iter_mut();
        paths.find(|of| of.device == device && of.path == path)
    }

    fn set_hold(&mut self, device: usize, hold: Hold, now: u64) {
        let policy = &mut self.devices[device].policy;
        policy.set_hold(hold, now, &mut self.actions);
        self.carry_out(device, now);
    }

    fn begin_errand(
        &mut self,
        device: usize,
        path: PathId,
        goal: Goal,
        due_us: Option<u64>,
        now: u64,
    ) {
        let Some(reservation) = &mut self.devices[device].reservation else {
            return;
        };
        self.reservings += 1;
        let errand = Errand {
            number: self.reservings,
            reserving: Reserving::new(reservation.fence.key, goal),
            due_us: Some(due_us.unwrap_or(now)),
        };
        reservation.errands.insert(path, errand);
        if due_us.is_none() {
            self.send_reserving(device, path);
        }
    }

    fn send_reserving(&mut self, device: usize, path: PathId) {
        let Some(&Way { nexus: at, lun, .. }) = self.devices[device].paths.get(path.0 as usize)
        else {
            return;
        };
        let reservation = self.devices[device].reservation.as_mut();
        let Some(errand) = reservation.and_then(|of| of.errands.get_mut(&path)) else {
            return;
        };
        errand.due_us = None;
        let command = errand.reserving.command();
        let purpose = Purpose::Reserve {
            device,
            path,
            number: errand.number,
        };
        match command.data_out.is_empty() {
            true => self.ask(at, lun, purpose, command.cdb, command.data_in),
            false => self.tell(at, lun, purpose, command.cdb, command.data_out),
        }
    }

    /// Handles a unit that has identified itself. Reports whether the path carries I/O at once;
    /// otherwise it does so once it takes part in the reservation.
    pub(super) fn admit(&mut self, device: usize, path: PathId, now: u64) -> bool {
        let Some(reservation) = &self.devices[device].reservation else {
            return true;
        };
        if reservation.errands.contains_key(&path) {
            return false;
        }
        let is_taking = |of: &Errand| matches!(of.reserving.goal(), Goal::Take { .. });
        let goal = match (reservation.stage, reservation.job.as_ref()) {
            (ReservationStage::Unsupported | ReservationStage::Leaving, _) => return true,
            (ReservationStage::Lost, _) => return false,
            (ReservationStage::Registered, _) => Goal::Register,
            (ReservationStage::Held, _) => Goal::Join,
            (ReservationStage::Taking, Some(job))
                if !reservation.errands.values().any(is_taking) =>
            {
                job.goal
            }
            // The path joins when another path has taken the device.
            (ReservationStage::Taking, _) => return false,
        };
        self.begin_errand(device, path, goal, Some(now), now);
        false
    }

    /// Handles a path that may not take part in the reservation any more. It carries no I/O before
    /// its state is known.
    pub(super) fn doubt_reservation(&mut self, device: usize, path: PathId, now: u64) {
        let Some(reservation) = &self.devices[device].reservation else {
            return;
        };
        if reservation.stage != ReservationStage::Held || reservation.errands.contains_key(&path) {
            return;
        }
        let Some(of) = self.path_of_mut(device, path).filter(|of| of.is_known) else {
            return;
        };
        (of.is_known, of.waits_to_take_part) = (false, true);
        self.devices[device]
            .policy
            .path_suspect(path, now, &mut self.actions);
        self.carry_out(device, now);
        self.begin_errand(device, path, Goal::Join, Some(now), now);
        // A host that preempts may have had the commands aborted without an answer, and the errand
        // waits for their end.
        let Way { nexus: at, lun, .. } = self.devices[device].paths[path.0 as usize];
        self.abort_what_is_under_way(at, lun, None, now);
    }

    /// Handles the doubt for all of a device's paths through a session, after a command of the
    /// adapter itself was refused.
    pub(super) fn doubt_reservations(&mut self, at: usize, purpose: Purpose, now: u64) {
        let device = match purpose {
            Purpose::Groups { device }
            | Purpose::Ready { device, .. }
            | Purpose::Activate { device, .. }
            | Purpose::Capacity { device } => device,
            // The unit identifies itself, and then the path takes part; or it is being asked
            // already.
            Purpose::Scan | Purpose::Reserve { .. } => return,
        };
        for (nexus, path) in self.paths_of(device, |path| path.is_known) {
            if nexus == at {
                self.doubt_reservation(device, path.path, now);
            }
        }
    }

    /// Handles the answer to a command of an errand.
    pub(super) fn reserving_answered(
        &mut self,
        device: usize,
        path: PathId,
        number: u64,
        (status, sense, data): (u8, &[u8], &[u8]),
        now: u64,
    ) {
        let Some(reservation) = &mut self.devices[device].reservation else {
            return;
        };
        let is_owner = (reservation.fence.is_owner)();
        let errand = reservation.errands.get_mut(&path);
        let Some(errand) = errand.filter(|errand| errand.number == number) else {
            return;
        };
        match errand.reserving.answer(status, sense, data, is_owner) {
            Progress::Go { later: false } => self.send_reserving(device, path),
            Progress::Go { later: true } => errand.due_us = Some(now + LATER_US),
            Progress::Over(end) => {
                let goal = errand.reserving.goal();
                reservation.errands.remove(&path);
                self.reserving_ended(device, path, goal, end, now);
                self.job_goes_on(device, now);
            }
        }
    }

    fn reserving_ended(&mut self, device: usize, path: PathId, goal: Goal, end: End, now: u64) {
        let name = self.devices[device].policy.name().to_owned();
        let Some(reservation) = &mut self.devices[device].reservation else {
            return;
        };
        let is_of_job = reservation.job.as_ref().is_some_and(|job| job.goal == goal);
        match (goal, &end) {
            (_, End::Unsupported) => {
                reservation.stage = ReservationStage::Unsupported;
                reservation.errands.clear();
            }
            (Goal::Take { .. }, End::Done) => reservation.stage = ReservationStage::Held,
            (Goal::Join, End::Others(by)) => {
                tracing::error!(
                    device = name,
                    key = format!("{by:#018x}"),
                    "another host has reserved the device"
                );
                reservation.stage = ReservationStage::Lost;
                reservation.errands.clear();
                if let Some(job) = &mut reservation.job {
                    job.end = Some(end.clone());
                }
                return self.set_hold(device, Hold::Lost, now);
            }
            (Goal::Join | Goal::Register, End::Failed(why)) => {
                tracing::warn!(
                    device = name,
                    why,
                    "a path cannot take part in the reservation yet"
                );
            }
            _ => {}
        }
        if let Some(job) = reservation.job.as_mut().filter(|_| is_of_job) {
            // One of several paths is enough.
            match &job.end {
                Some(End::Done) => {}
                _ => job.end = Some(end.clone()),
            }
        }
        match (goal, end) {
            (Goal::Take { .. }, End::Done) => {
                self.set_hold(device, Hold::Held, now);
                self.take_part(device, path, now);
                self.others_join(device, path, now);
            }
            (_, End::Unsupported) => self.let_all_through(device, now),
            (Goal::Join | Goal::Register, End::Done) => self.take_part(device, path, now),
            (Goal::Join | Goal::Register, End::Failed(_)) => {
                if let Some(of) = self.path_of_mut(device, path) {
                    (of.is_known, of.waits_to_take_part) = (false, true);
                }
                self.devices[device]
                    .policy
                    .path_suspect(path, now, &mut self.actions);
                self.carry_out(device, now);
                self.begin_errand(device, path, goal, Some(now + AGAIN_US), now);
            }
            _ => {}
        }
    }

    /// Registers all other paths after one path took the device. Until then they carry no I/O.
    fn others_join(&mut self, device: usize, taker: PathId, now: u64) {
        let others = self.paths_of(device, |of| {
            of.path != taker && (of.is_known || of.waits_to_take_part)
        });
        for (_, other) in others {
            if let Some(of) = self.path_of_mut(device, other.path) {
                (of.is_known, of.waits_to_take_part) = (false, true);
            }
            let policy = &mut self.devices[device].policy;
            policy.path_suspect(other.path, now, &mut self.actions);
            self.begin_errand(device, other.path, Goal::Join, Some(now), now);
        }
        self.carry_out(device, now);
        self.reservations_due(now);
    }

    /// Lets all paths carry I/O, because there is no reservation to take part in.
    fn let_all_through(&mut self, device: usize, now: u64) {
        self.set_hold(device, Hold::None, now);
        for (_, path) in self.paths_of(device, |path| path.waits_to_take_part) {
            self.take_part(device, path.path, now);
        }
    }

    /// Lets a path carry I/O from now on.
    fn take_part(&mut self, device: usize, path: PathId, now: u64) {
        let Some(of) = self
            .path_of_mut(device, path)
            .filter(|of| of.waits_to_take_part)
        else {
            return;
        };
        (of.is_known, of.waits_to_take_part) = (true, false);
        let policy = &mut self.devices[device].policy;
        policy.path_up(path, now, &mut self.actions);
        self.carry_out(device, now);
        self.count_change();
    }

    /// Ends the job if it has no work left.
    fn job_goes_on(&mut self, device: usize, now: u64) {
        let Some(reservation) = &mut self.devices[device].reservation else {
            return;
        };
        let Some(job) = &reservation.job else { return };
        // A path that failed goes on trying, but the caller does not wait for it.
        let is_waited_for =
            |errand: &Errand| errand.due_us.is_none_or(|due| due < now + AGAIN_US / 2);
        if reservation.errands.values().any(is_waited_for) {
            return;
        }
        let is_release = matches!(job.goal, Goal::Release | Goal::Leave);
        let end = match (&job.end, is_release) {
            (Some(end), _) => end.clone(),
            (None, true) => End::Failed("no path leads to the device".to_owned()),
            // The job begins when a path comes.
            (None, false) => return,
        };
        let is_taken = reservation.stage == ReservationStage::Held
            || reservation.stage == ReservationStage::Unsupported;
        let is_over = match job.goal {
            Goal::Release | Goal::Leave => true,
            Goal::Take { .. } => !is_taken,
            _ => false,
        };
        let (job, next) = (reservation.job.take(), reservation.next.take());
        if is_over {
            self.devices[device].reservation = None;
            self.let_all_through(device, now);
        }
        if let Some(job) = job {
            // The caller may have stopped waiting.
            let _ = job.reply.send(end);
        }
        if let Some((order, reply)) = next {
            self.begin_job(device, order, reply, now);
        }
    }

    /// Ends the errands of a lost session's paths. Another path goes on with work that is done
    /// once.
    pub(super) fn drop_reserving(&mut self, at: usize) {
        let now = self.now_us();
        for device in 0..self.devices.len() {
            let Device {
                paths, reservation, ..
            } = &mut self.devices[device];
            let Some(reservation) = reservation else {
                continue;
            };
            let before = reservation.errands.len();
            reservation.errands.retain(|path, _| {
                paths
                    .get(path.0 as usize)
                    .is_some_and(|way| way.nexus != at)
            });
            if before == reservation.errands.len() {
                continue;
            }
            let once = reservation.job.as_ref().map(|job| job.goal);
            let once = once.filter(|goal| matches!(goal, Goal::Take { .. } | Goal::Release));
            let is_needed = matches!(
                reservation.stage,
                ReservationStage::Taking | ReservationStage::Leaving
            );
            if let Some(goal) = once.filter(|_| is_needed && reservation.errands.is_empty()) {
                let others = self.paths_of(device, |of| of.is_known || of.waits_to_take_part);
                let other = others.iter().find(|(nexus, _)| *nexus != at);
                if let Some((_, path)) = other {
                    self.begin_errand(device, path.path, goal, Some(now), now);
                }
            }
            self.job_goes_on(device, now);
        }
    }

    /// Forgets a path that leads to the device no more.
    pub(super) fn forget_path(&mut self, device: usize, path: PathId, now: u64) {
        if let Some(reservation) = &mut self.devices[device].reservation
            && reservation.errands.remove(&path).is_some()
        {
            self.job_goes_on(device, now);
        }
    }

    /// Returns the time at which the next command of an errand is due.
    pub(super) fn reservations_deadline_us(&self) -> Option<u64> {
        let reservations = self.devices.iter().filter_map(|of| of.reservation.as_ref());
        let errands = reservations.flat_map(|of| of.errands.values());
        errands.filter_map(|errand| errand.due_us).min()
    }

    /// Sends the commands that are due.
    pub(super) fn reservations_due(&mut self, now: u64) {
        for device in 0..self.devices.len() {
            let Some(reservation) = &self.devices[device].reservation else {
                continue;
            };
            let is_due = |errand: &Errand| errand.due_us.is_some_and(|due| due <= now);
            let errands = reservation.errands.iter();
            let due = errands.filter(|(_, errand)| is_due(errand));
            let due: Vec<(PathId, Goal)> = due
                .map(|(path, errand)| (*path, errand.reserving.goal()))
                .collect();
            for (path, goal) in due {
                let is_idle = self.devices[device].policy.is_path_idle(path);
                if is_idle || !matches!(goal, Goal::Join) {
                    self.send_reserving(device, path);
                } else if let Some(errand) = (self.devices[device].reservation.as_mut())
                    .and_then(|of| of.errands.get_mut(&path))
                {
                    errand.due_us = Some(now + IDLE_US);
                }
            }
        }
    }

    /// Releases the reservation of a former user, as far as a path leads to the device.
    pub(in super::super) fn drop_fence(&mut self, device: usize) {
        let Some(fence) = self.devices[device]
            .reservation
            .as_ref()
            .map(|of| of.fence.clone())
        else {
            return;
        };
        let goal = Goal::Release;
        let (reply, _) = std::sync::mpsc::channel();
        self.fence(device, FenceOrder { fence, goal }, reply);
    }

    /// Returns the state of a device's fence.
    pub(in super::super) fn fence_state(&self, device: usize) -> FenceState {
        match self.devices[device].reservation.as_ref().map(|of| of.stage) {
            Some(ReservationStage::Held) => FenceState::Held,
            Some(ReservationStage::Unsupported) => FenceState::Unsupported,
            Some(ReservationStage::Lost) => FenceState::Lost,
            _ => FenceState::Open,
        }
    }
}

//! The simulated initiator's ideas: commands, functions, logouts, further connections.

use std::time::Duration;

use iscsi::pdu::{LogoutReason, TaskManagementFunction as Function};

use super::{FUNCTIONS, Habits, Initiator, STORMS_END, Want, What};
use crate::drive::BLOCK;
use crate::mcs::cells::{CELLS, LENGTHS, LUNS};
use crate::mcs::ledger::{Job, JobId, JobKind, Ledger};
use crate::mcs::wire::Phase;
use crate::network::ConnectionId;

impl Initiator {
    /// Chooses the next actions.
    pub fn wake(&mut self, now: Duration, ledger: &mut Ledger) {
        if self.over {
            return;
        }
        let Some(session) = &self.session else {
            if self.wants.is_empty() {
                let cid = self.random.within(0..3) as u16;
                self.wants.push(Want { cid, joins: false });
            }
            return;
        };
        if session.number.is_none() || session.ending {
            return;
        }
        self.clean_up(now, ledger);
        if now > STORMS_END {
            self.habits = Habits::default();
        }
        self.add_connections();
        self.ask_for_a_function(now, ledger);
        self.log_out(now, ledger);
        self.burst(now, ledger);
    }

    pub(super) fn add_connections(&mut self) {
        let Some(session) = &self.session else { return };
        let quiet = session.lost.is_empty() && session.careless.is_none();
        if !quiet || session.wires.len() >= session.wanted || self.random.per_mille(500) {
            return;
        }
        let mut cids = 0..;
        let taken =
            |cid: &u16| session.wires.iter().any(|wire| wire.cid == *cid) || session.logs_out(*cid);
        let cid = cids.find(|cid| !taken(cid)).expect("a free CID");
        self.wants.push(Want { cid, joins: true });
    }

    pub(super) fn active_wire(&mut self) -> Option<(ConnectionId, u16)> {
        let session = self.session.as_ref()?;
        let wires = session.wires.iter().filter(|wire| wire.is_active());
        let active: Vec<(ConnectionId, u16)> = wires.map(|wire| (wire.id, wire.cid)).collect();
        (!active.is_empty()).then(|| self.random.one_of(&active))
    }

    pub(super) fn ask_for_a_function(&mut self, now: Duration, ledger: &mut Ledger) {
        if !self.random.per_mille(self.habits.functions) {
            return;
        }
        let Some((id, _)) = self.active_wire() else {
            return;
        };
        let Some(session) = &self.session else { return };
        let requests = session.requests.values();
        let functions = requests.clone();
        let functions = functions.filter(|it| matches!(it.what, What::Function { .. }));
        // Nobody can tell where immediate commands stand relative to a function.
        let immediate = requests.filter(|it| it.immediate);
        let immediate = immediate.filter(|it| matches!(it.what, What::Command { .. }));
        if functions.count() >= FUNCTIONS || immediate.count() > 0 || !session.lost.is_empty() {
            return;
        }
        // A target reset counts everything before it as received: pings and functions would not be
        // answered.
        let mut others = session.requests.values().filter(|it| !it.immediate);
        let no_reset = others.any(|it| !matches!(it.what, What::Command { .. }));
        let immediate = session.next > session.max || self.random.per_mille(600);
        let function = self.random.one_of(&[
            Function::AbortTask,
            Function::AbortTask,
            Function::AbortTaskSet,
            Function::ClearTaskSet,
            Function::LogicalUnitReset,
            Function::TargetWarmReset,
        ]);
        if no_reset && function == Function::TargetWarmReset {
            return;
        }
        if function != Function::AbortTask {
            let lun = self.random.within(0..LUNS);
            return self.manage(id, function, lun, immediate, now, ledger);
        }
        let Some(session) = &self.session else { return };
        let commands = session.requests.iter();
        let commands = commands.filter(|(_, it)| matches!(it.what, What::Command { .. }));
        let commands = commands.filter_map(|(itt, it)| Some((it.wire?, *itt)));
        let commands: Vec<(ConnectionId, u32)> = commands.collect();
        if !commands.is_empty() {
            let (id, itt) = self.random.one_of(&commands);
            self.abort_task(id, itt, now, ledger);
        }
    }

    /// Sends ABORT TASK, on the connection of its task.
    pub(super) fn abort_task(
        &mut self,
        id: ConnectionId,
        itt: u32,
        now: Duration,
        ledger: &mut Ledger,
    ) {
        let Some(session) = &self.session else { return };
        let usable = session.wires.iter().any(|it| it.id == id && it.is_active());
        let Some(request) = session.requests.get(&itt).filter(|_| usable) else {
            return;
        };
        let What::Command { attempt, .. } = request.what else {
            return;
        };
        let what = What::Function {
            function: Function::AbortTask,
            lun: ledger.job(ledger.job_of(attempt)).lun,
            referenced: Some((itt, request.place)),
            covers: vec![(itt, attempt)],
        };
        self.request(id, what, true, now, ledger);
    }

    /// Sends a function for many tasks.
    pub(super) fn manage(
        &mut self,
        id: ConnectionId,
        function: Function,
        lun: u64,
        immediate: bool,
        now: Duration,
        ledger: &mut Ledger,
    ) {
        let Some(session) = &self.session else { return };
        let mut covers = Vec::new();
        for (itt, request) in &session.requests {
            let What::Command { attempt, .. } = request.what else {
                continue;
            };
            let all = function == Function::TargetWarmReset;
            if all || ledger.job(ledger.job_of(attempt)).lun == lun {
                covers.push((*itt, attempt));
            }
        }
        let what = What::Function {
            function,
            lun,
            referenced: None,
            covers,
        };
        self.request(id, what, immediate, now, ledger);
    }

    pub(super) fn log_out(&mut self, now: Duration, ledger: &mut Ledger) {
        let Some((id, _)) = self.active_wire() else {
            return;
        };
        let Some(session) = &mut self.session else {
            return;
        };
        let done = self.left == 0 && self.ready.is_empty() && session.requests.is_empty();
        let at_once = self.random.per_mille(self.habits.session_logouts);
        if (done && session.lost.is_empty()) || (at_once && session.careless.is_none()) {
            session.ending = true;
            let (reason, cid) = (LogoutReason::CloseSession, 0);
            return self.request(id, What::Logout { reason, cid }, true, now, ledger);
        }
        let active = session.wires.iter().filter(|wire| wire.is_active());
        let all = active.clone().count() == session.wires.len();
        let quiet = all && session.lost.is_empty() && session.careless.is_none();
        if !quiet || session.wires.len() < 2 || !self.random.per_mille(self.habits.logouts) {
            return;
        }
        let others: Vec<u16> = active.map(|wire| wire.cid).collect();
        let cid = self.random.one_of(&others);
        let immediate = session.next > session.max || self.random.per_mille(500);
        let reason = LogoutReason::CloseConnection;
        self.request(id, What::Logout { reason, cid }, immediate, now, ledger);
        if let Some(session) = &mut self.session {
            let mut wires = session.wires.iter_mut();
            let wire = wires.find(|wire| wire.cid == cid).expect("chosen");
            wire.phase = Phase::LoggingOut;
        }
    }

    /// Sends a burst of commands, each on any connection.
    pub(super) fn burst(&mut self, now: Duration, ledger: &mut Ledger) {
        for _ in 0..self.random.within(1..8) {
            let Some((id, _)) = self.active_wire() else {
                return;
            };
            let Some(session) = &self.session else { return };
            if session.ending {
                return;
            }
            let open = session.next <= session.max;
            let functions = session.requests.values();
            let mut functions = functions.filter(|it| matches!(it.what, What::Function { .. }));
            let immediates = session.requests.values().filter(|it| it.immediate).count();
            let may = functions.next().is_none() && immediates < 4;
            let immediate = may && self.random.per_mille(50);
            if !open && !immediate {
                return;
            }
            if self.random.per_mille(40) {
                self.request(id, What::Ping, immediate, now, ledger);
                continue;
            }
            let Some(job) = self.next_job(ledger) else {
                return;
            };
            let Some(session) = &self.session else { return };
            let number = session.number.expect("established");
            let attempt = ledger.add_attempt(job, number, session.next, immediate);
            let data_in = Vec::new();
            self.request(
                id,
                What::Command { attempt, data_in },
                immediate,
                now,
                ledger,
            );
        }
    }

    pub(super) fn next_job(&mut self, ledger: &mut Ledger) -> Option<JobId> {
        if let Some(job) = self.ready.pop_front() {
            return Some(job);
        }
        if self.left == 0 {
            return None;
        }
        let (lun, cell) = (
            self.random.within(0..LUNS),
            self.random.within(0..CELLS as u64),
        );
        if std::mem::replace(&mut self.busy[lun as usize][cell as usize], true) {
            return None;
        }
        self.left -= 1;
        let kind = self.random.one_of(&[
            JobKind::Write,
            JobKind::Write,
            JobKind::Read,
            JobKind::Nothing,
        ]);
        let length = match kind {
            JobKind::Nothing => 0,
            _ => self.random.one_of(&LENGTHS) * BLOCK,
        };
        let cell = cell as usize;
        Some(ledger.add_job(Job {
            kind,
            lun,
            cell,
            length,
        }))
    }
}

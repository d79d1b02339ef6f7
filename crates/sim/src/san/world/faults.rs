//! Faults of a world.

use super::{AluaState, Duration, Event, World, within};
use crate::vault::End;

/// Longest faults, in intervals between two faults. A long one lets hosts give up connections, log
/// in elsewhere and come back.
const FAULTS: [f64; 4] = [0.025, 0.4, 1.0, 6.0];

impl World {
    pub(super) fn schedule_fault(&mut self) {
        if self.plan.fault_every_ms > 0 {
            let pause_ms = self.random.within(0..2 * self.plan.fault_every_ms);
            let at = self.schedule.now() + Duration::from_millis(pause_ms);
            self.schedule.add(at, Event::Fault);
        }
    }

    /// Lets something go wrong.
    pub(super) fn fault(&mut self, now: Duration) {
        self.report.faults += 1;
        let path = self.random.within(0..self.open_at.len() as u64) as usize;
        let intervals = self.random.one_of(&FAULTS);
        let longest = Duration::from_millis(self.plan.fault_every_ms).mul_f64(intervals);
        let lasts = within(longest, &mut self.random);
        let kind = self.random.within(0..100);
        if self.tells {
            println!("{now:?} fault {kind} of path {path} for {lasts:?}");
        }
        match kind {
            // A late disk goes on behind a crash, so its worlds have many crashes.
            _ if self.climate.late_disk && self.random.per_mille(300) => self.restart(now, lasts),
            0..35 => self.open_at[path] = self.open_at[path].max(now + lasts),
            35..60 => self.cut(path, now),
            60..68 => {
                let (host, portal) = (self.host_of(path), self.portal_of(path));
                self.hosts[host].set_reachable(portal, false);
                self.schedule
                    .add(now + lasts, Event::Reachable(host, portal));
                self.cut(path, now);
            }
            68..76 => self.runs_at = self.runs_at.max(now + lasts.min(self.plan.longest_stop)),
            76..82 => self.restart(now, lasts),
            _ => self.change_access(self.portal_of(path), now, lasts),
        }
    }

    /// Cuts the connections of a path. The hosts see it at once, the target later or never.
    fn cut(&mut self, path: usize, now: Duration) {
        for id in self.wires.on_path(path) {
            let pulled = self.wires.pull(id, now, &mut self.random);
            self.pulled(id, pulled);
            let ended = self.wires.end(id, now, &mut self.random);
            self.pulled(id, ended);
        }
        self.step(self.host_of(path));
    }

    /// Ends the target's process. It comes back after a while. Hosts are told of the end of their
    /// connections, or the machine is silent until it is back.
    fn restart(&mut self, now: Duration, lasts: Duration) {
        let end = self.random.one_of(&[End::Process, End::Power]);
        self.served.restart(end, self.climate.late_disk, now);
        self.life += 1;
        self.runs_at = now;
        let is_back_at = now + lasts;
        self.is_back_at = is_back_at;
        if self.random.per_mille(500) {
            let paths = self.open_at.iter_mut();
            paths.for_each(|open_at| *open_at = is_back_at.max(*open_at));
        }
        for id in self.wires.served() {
            self.target_closes(id, now);
        }
        self.take(now);
    }

    fn change_access(&mut self, portal: usize, now: Duration, lasts: Duration) {
        let state = self.random.one_of(&[
            AluaState::ActiveNonOptimized,
            AluaState::Standby,
            AluaState::Unavailable,
            AluaState::Transitioning,
        ]);
        self.want(portal, state, now);
        self.schedule.add(now + lasts, Event::Access(portal));
    }

    /// Ends all faults, also those that only time would end.
    pub(super) fn calm_down(&mut self) {
        let now = self.schedule.now();
        self.open_at.fill(now);
        self.runs_at = now;
        self.is_back_at = now;
    }
}

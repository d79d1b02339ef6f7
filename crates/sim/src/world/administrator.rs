//! The administrator: sets access states, deletes and makes a unit, ends sessions, while hosts
//! work.

use std::time::Duration;

use model::config::AluaState;

use super::{SCRATCH, World};

/// Change that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Leaving(usize),
    Returning,
    Deleting,
    Creating,
}

/// The administrator.
#[derive(Debug, Default)]
pub(super) struct Administrator {
    doing: Option<Doing>,
    /// Portal that is out of service.
    out: Option<usize>,
    is_deleted: bool,
    /// Whether the disk of the scratch unit still works for one that was deleted before.
    is_haunted: bool,
}

impl World {
    /// Does what the administrator has in mind this second.
    pub(super) fn administer(&mut self) {
        let now = self.schedule.now();
        if self.random.per_mille(self.climate.dismissals_per_mille) && self.is_busy() {
            let sessions = self.target.sessions();
            if !sessions.is_empty() {
                // Nobody knows whose it is.
                self.ports
                    .iter_mut()
                    .for_each(|port| port.is_disturbed = true);
                self.landings.forget_holder();
                self.target.dismiss(self.random.one_of(&sessions), now);
                self.report.dismissed += 1;
            }
        }
        if self.administrator.doing.is_some() || self.target.is_changing() {
            return;
        }
        let begins = self.random.per_mille(self.climate.changes_per_mille);
        let (out, is_deleted) = (self.administrator.out, self.administrator.is_deleted);
        if !self.is_busy() && (out.is_some() || is_deleted) || begins && self.random.per_mille(700)
        {
            match out {
                Some(portal) => self.come_back(portal, now),
                None if is_deleted => self.create(now),
                None => self.begin_a_change(now),
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.left.iter().any(|left| *left > 0)
    }

    fn begin_a_change(&mut self, now: Duration) {
        if self.climate.paths > 1 && self.random.per_mille(600) {
            let portal = self.random.within(0..self.climate.paths as u64) as usize;
            let state = self
                .random
                .one_of(&[AluaState::Standby, AluaState::Unavailable]);
            self.administrator.doing = Some(Doing::Leaving(portal));
            self.target.set_access(portal, state, now);
        } else if self.climate.scratch_per_mille > 0 {
            self.landings.forget_holder();
            self.administrator.doing = Some(Doing::Deleting);
            self.target.delete(usize::from(SCRATCH), now);
        }
    }

    fn come_back(&mut self, portal: usize, now: Duration) {
        self.landings.returns();
        self.administrator.doing = Some(Doing::Returning);
        self.target
            .set_access(portal, AluaState::ActiveOptimized, now);
    }

    fn create(&mut self, now: Duration) {
        self.landings.is_scratch_gone = false;
        self.administrator.is_haunted = self.target.drives[usize::from(SCRATCH)].waiting() > 0;
        self.landings.forget_holder();
        self.administrator.doing = Some(Doing::Creating);
        self.target.create(usize::from(SCRATCH), now);
    }

    /// Judges the end of a change. `Ok` tells whether the disks of units that left service were
    /// quiet.
    pub(super) fn changed(&mut self, end: Result<bool, String>) {
        let doing = self.administrator.doing.take();
        let Ok(is_quiet) = end else {
            // Disks were too slow. All is as before.
            assert!(
                matches!(doing, Some(Doing::Leaving(_) | Doing::Deleting)),
                "{end:?}"
            );
            self.report.changes_refused += 1;
            return;
        };
        match doing {
            Some(Doing::Leaving(portal)) => {
                self.administrator.out = Some(portal);
                let paths = self.climate.paths;
                self.landings.left_service(|port| port % paths == portal);
                self.report.left_service += 1;
            }
            Some(Doing::Returning) => self.administrator.out = None,
            Some(Doing::Deleting) => {
                self.administrator.is_deleted = true;
                if is_quiet && !self.administrator.is_haunted {
                    let waiting = self.target.drives[usize::from(SCRATCH)].waiting();
                    assert_eq!(waiting, 0, "the disk of a deleted unit is at work");
                    self.landings.is_scratch_gone = true;
                }
                self.report.left_service += 1;
            }
            Some(Doing::Creating) => self.administrator.is_deleted = false,
            // The first configuration.
            None => {}
        }
    }
}

//! Units that leave service: a change of the configuration deletes them or points them to other
//! data, or their device was taken away. Their data and their stored state may be served anew at
//! once, so nothing may write to either any more.
//!
//! # Order
//! 1. The stored state changes no more: commands that would change it are answered with BUSY. A
//!    SANITIZE that is under way refuses the change. It would go on for hours (SBC-4 4.11.2), on a
//!    disk that nobody guards any more.
//! 2. Saves that commands asked for before are waited for. The state is final then: it may be
//!    removed, or another unit takes it over. Saves of both units would replace each other's, and
//!    one that was acknowledged would be lost.
//! 3. The units leave all views: their commands are aborted, and no new ones come.
//! 4. Requests that devices still carry out for those are waited for.
//! 5. Clients of protocols without views lose their nexus, and their requests are waited for.
//!
//! The administrator changes stored state only while no unit retires
//! (`crates/target/src/service/data_plane.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::command::peers::Peers;
use super::transition::{self, EarlierWork};
use super::unit::Unit;
use model::data_plane::ApplyError;

/// Units that are about to leave service. If this is dropped before [`Retirement::complete`], the
/// units serve as before.
#[derive(Debug)]
pub struct Retirement(Vec<Arc<Unit>>);

impl Retirement {
    /// Makes the stored state of these units final. May block.
    ///
    /// # Errors
    /// SANITIZE is under way on one of them, or a save does not end. All is as before.
    pub fn begin(peers: &impl Peers, units: Vec<Arc<Unit>>) -> Result<Self, ApplyError> {
        let (begun, mut saves) = Self::ask(peers, units)?;
        saves.sit_out();
        begun.confirm(&saves)
    }

    /// Begins as [`Self::begin`] does, and returns the wait that has to be over for
    /// [`Self::confirm`].
    ///
    /// # Errors
    /// SANITIZE is under way on one of the units. All is as before.
    pub fn ask(
        peers: &impl Peers,
        units: Vec<Arc<Unit>>,
    ) -> Result<(Self, EarlierWork), ApplyError> {
        let mut begun = Self(Vec::new());
        for unit in units {
            if !unit.logical.retire() {
                return Err(ApplyError {
                    object: format!("lu {}", unit.name),
                    message: "SANITIZE is overwriting the unit, and cannot be stopped".into(),
                    next: "repeat the command when SANITIZE has ended; until then TEST UNIT READY returns \
                           02/04/1B, and REQUEST SENSE returns the progress"
                        .into(),
                });
            }
            begun.0.push(unit);
        }
        let saves = transition::saves(peers, &begun.0);
        Ok((begun, saves))
    }

    /// Returns the retirement once the saves are over for which it had to wait.
    ///
    /// # Errors
    /// A save did not end. All is as before.
    pub fn confirm(self, saves: &EarlierWork) -> Result<Self, ApplyError> {
        if saves.ended().iter().all(|ended| *ended) {
            return Ok(self);
        }
        Err(ApplyError {
            object: format!("lu {}", self.names()),
            message: "its state (reservations, mode pages) is still being stored for a command of an initiator".into(),
            next: "check the state folder (sandstone status names it), then repeat the command".into(),
        })
    }

    /// [`Self::begin`] for each of these units by itself: those for which it is refused serve on.
    /// All are waited for at once, so that one whose save hangs costs the others no more time. May
    /// block.
    pub fn begin_where_possible(peers: &impl Peers, mut units: Vec<Arc<Unit>>) -> Self {
        units.retain(|unit| unit.logical.retire());
        let ended = transition::saves(peers, &units).wait();
        let (final_ones, others): (Vec<_>, Vec<_>) =
            units.into_iter().zip(ended).partition(|(_, ended)| *ended);
        // These units serve as before.
        drop(Self(others.into_iter().map(|(unit, _)| unit).collect()));
        Self(final_ones.into_iter().map(|(unit, _)| unit).collect())
    }

    /// Returns the units.
    pub fn units(&self) -> &[Arc<Unit>] {
        &self.0
    }

    /// Gives the stored state of each unit to the one among `units` that takes its place.
    ///
    /// # Errors
    /// A stored state cannot be read.
    pub fn hand_over(&self, units: &BTreeMap<String, Arc<Unit>>) -> Result<(), ApplyError> {
        for old in &self.0 {
            let new = units.get(&old.name);
            let Some(new) = new.filter(|new| new.state_file == old.state_file) else {
                continue;
            };
            // The generation goes with it: the next save of the new unit replaces the last save of
            // the old one.
            let image = old.logical.image_to_save();
            new.logical.restore(&image).map_err(|error| ApplyError {
                object: format!("lu {}", old.name),
                message: format!("its state (reservations, mode pages) cannot be taken over: {error}"),
                next: format!(
                    "sandstone lu list {} shows the states that initiators set; end them with sandstone lu \
                     clear, then repeat the command",
                    old.name
                ),
            })?;
        }
        Ok(())
    }

    /// Lets the units go for good: they have left all views.
    pub fn complete(mut self) -> Vec<Arc<Unit>> {
        std::mem::take(&mut self.0)
    }

    /// [`Self::complete`], and waits for what devices still do for their commands. May block.
    pub fn settle(self, peers: &impl Peers) {
        if let Some(mut settling) = self.begin_to_settle(peers) {
            while !settling.go_on(peers) {
                settling.requests.sit_out();
            }
        }
    }

    /// [`Self::complete`], and returns the wait for what devices still do for their commands, if
    /// there are units.
    pub fn begin_to_settle(self, peers: &impl Peers) -> Option<Settling> {
        let units = self.complete();
        if units.is_empty() {
            return None;
        }
        Some(Settling {
            requests: transition::earlier_work(peers, &units),
            units,
            is_last: false,
            is_quiet: true,
        })
    }

    fn names(&self) -> String {
        names(&self.0)
    }
}

fn names(units: &[Arc<Unit>]) -> String {
    let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
    names.join(", ")
}

/// Units that have left all views, and whose devices may still carry out requests for them.
#[derive(Debug)]
pub struct Settling {
    units: Vec<Arc<Unit>>,
    requests: EarlierWork,
    /// Whether nobody but devices has a part in the units any more.
    is_last: bool,
    is_quiet: bool,
}

impl Settling {
    /// Takes the next step if the wait of this one is over. Returns whether that was the last.
    pub fn go_on(&mut self, peers: &impl Peers) -> bool {
        while self.requests.is_over() {
            self.is_quiet &= self.requests.ended() == [true];
            // No session has a map to the units now: the nexuses that are left have no views.
            let left = self.units.iter().filter(|unit| unit.logical.detach_all());
            if self.is_last || left.count() == 0 {
                self.tell();
                return true;
            }
            self.is_last = true;
            self.requests = transition::earlier_work(peers, &self.units);
        }
        false
    }

    /// Reports whether no device had a request left when the time was up.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    fn tell(&self) {
        if !self.is_quiet {
            tracing::error!(
                units = names(&self.units),
                "out of service, but its device has not answered all commands yet: do not serve the device \
                 elsewhere before it works again"
            );
        }
    }
}

impl Drop for Retirement {
    fn drop(&mut self) {
        self.0.iter().for_each(|unit| unit.logical.serve_on());
    }
}

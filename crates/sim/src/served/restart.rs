//! The end of the target's process, and its next start over the same disks and files.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Served, limits};
use crate::cable::Cables;
use crate::vault::End;
use model::config::Config;
use model::event::Teller;
use target::simulation::{Stage, Units};

impl Served {
    /// Returns the time of the clock at which the simulation began.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Ends the process, and starts it anew. All connections are gone without a word. Disks have
    /// carried out what they have not answered, or never will; those that `go_on` still do. A store
    /// is opened again from what its own disks have kept. Of the events that were announced before,
    /// only answers of disks may happen.
    ///
    /// # Panics
    /// The kernel refuses a poller, or a unit does not open.
    pub fn restart(&mut self, end: End, go_on: bool, now: Duration) {
        self.set_time(now);
        self.drives.iter().for_each(|drive| drive.abandon(go_on));
        if let Some(vault) = &mut self.vault {
            vault.restart(end, now);
            self.vault_wake = None;
        }
        self.cables = Cables::default();
        self.congested.clear();
        self.stirred.fill(false);
        self.windows.clear();
        self.actions.clear();
        self.change = None;
        self.units = Units::new();
        self.in_force = (Config::default(), Units::new());
        let (loops, limits) = (self.shape.loops, limits(&self.shape));
        self.stage = Stage::new(loops, limits, Teller::default()).expect("a poller");
        for (lun, spec) in self.config.units.iter().enumerate() {
            let states: &Path = self.states.path();
            let unit = self.stage.open(spec, self.device(lun), states);
            let unit = unit.expect("a unit that was there before");
            self.units.insert(spec.name.clone(), unit);
        }
        self.begin_change();
        self.stir(now);
    }
}

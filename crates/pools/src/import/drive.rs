//! Pool on devices that are only read, for callers that only inspect it.

use std::sync::Arc;

use store::cache::Cache;
use store::catalog::Catalog;
use store::engine::{Back, Examined, OpenError, OpenErrorKind, Pool, Rewound};
use store::vdev::{DeviceOutcome, DeviceRequest, IoId};

use super::opening::begin;
use crate::clock::{Clock, wall_clock_s};
use crate::import::opened_devices::Devices;
use block::BlockDevice;

/// Devices that are read and never written.
pub(crate) struct Drive {
    devices: Devices,
    clock: Clock,
    answers: Vec<(IoId, DeviceOutcome)>,
}

/// Outcome of an opening.
pub(crate) struct Opened {
    /// Pool, and the part of it that was given up.
    pub(crate) pool: Result<(Pool, Option<Rewound>), OpenError>,
    /// Volumes and snapshots, as far as the opening came. `None` if it learned of none.
    pub(crate) names: Option<Vec<String>>,
}

/// Returns the names of volumes and snapshots in the order of the catalogue.
fn names_of(catalog: &Catalog) -> Vec<String> {
    let datasets = catalog.datasets();
    let blocks = datasets.filter(|dataset| dataset.geometry().is_some());
    let mut names: Vec<String> = blocks
        .map(|dataset| catalog.full_name(dataset.id))
        .collect();
    names.sort();
    names
}

impl Drive {
    /// # Errors
    /// The system lacks the means to read devices.
    pub(crate) fn new() -> Result<Self, String> {
        let mut devices = Devices::new(true)
            .map_err(|error| format!("reading the devices could not be prepared: {error}"))?;
        devices.write_nothing();
        Ok(Self {
            devices,
            clock: Clock::start(),
            answers: Vec::new(),
        })
    }

    /// Opens a pool at its newest checkpoint or an older one, without a write to its devices.
    pub(crate) fn open(
        &mut self,
        examined: &Examined,
        leaves: &[(u64, Arc<dyn BlockDevice>)],
        back: Option<Back>,
    ) -> Opened {
        let mut names = None;
        let pool = self.try_to_open(examined, leaves, back, &mut names);
        Opened { pool, names }
    }

    fn try_to_open(
        &mut self,
        examined: &Examined,
        leaves: &[(u64, Arc<dyn BlockDevice>)],
        back: Option<Back>,
        names: &mut Option<Vec<String>>,
    ) -> Result<(Pool, Option<Rewound>), OpenError> {
        let cache = Arc::new(Cache::new(16 << 20, crate::random_u64()));
        let mut examined = examined.clone();
        examined.only_read();
        let mut opening = begin(&examined, back, cache, self.now_us())?;
        for (guid, device) in leaves {
            if let Some(leaf) = opening.leaf(*guid) {
                self.devices.attach(leaf, Arc::clone(device));
            }
        }
        while !opening.is_done() {
            opening
                .take_requests()
                .into_iter()
                .for_each(|request| self.submit(request));
            let answers = self
                .wait(opening.deadline_us())
                .map_err(|reason| OpenError::new(OpenErrorKind::Missing, reason))?;
            let now_us = self.now_us();
            for (io, outcome) in answers {
                opening.completed(io, outcome, now_us);
            }
            if opening.deadline_us().is_some_and(|at| at <= now_us) {
                opening.tick(now_us, wall_clock_s());
            }
        }
        *names = opening.catalog().map(names_of);
        let rewound = opening.rewound();
        Ok((opening.finish()?, rewound))
    }

    /// Returns the time for the pool.
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    pub(crate) fn submit(&mut self, request: DeviceRequest) {
        self.devices.submit(request);
    }

    /// Returns the answers that are there, or else those that come before `until`.
    pub(crate) fn wait(
        &mut self,
        until: Option<u64>,
    ) -> Result<Vec<(IoId, DeviceOutcome)>, String> {
        self.devices.start_batch();
        self.devices.take(&mut self.answers);
        if self.answers.is_empty() {
            if self.devices.is_idle() && until.is_none() {
                return Err("the check waits for nothing: this is a defect, report it".to_owned());
            }
            let until = until.and_then(|at| self.clock.at(at));
            self.devices
                .wait(until)
                .map_err(|error| format!("waiting for the devices failed: {error}"))?;
            self.devices.take(&mut self.answers);
        }
        Ok(std::mem::take(&mut self.answers))
    }
}

//! A pool on devices that nothing is written to: for those who only look.
//!
//! Opening may want to bring the end of the log onto all leaves, and repair what it finds damaged; that is kept in memory
//! here, and what is read comes from there.

use std::collections::HashMap;
use std::sync::Arc;

use pages::Pages;
use store::cache::Cache;
use store::format::SECTOR_SIZE;
use store::pool::{Examined, OpenError, OpenErrorKind, Pool, Rewound};
use store::vdev::{DeviceOp, DeviceOutcome, DeviceRequest, IoId, LeafId};

use super::devices::Devices;
use super::opening::{Clock, begin, wall_clock_s};
use crate::block::BlockDevice;

/// Devices that are read, and never written.
pub(super) struct Drive {
    devices: Devices,
    clock: Clock,
    answers: Vec<(IoId, DeviceOutcome)>,
}

/// Sectors that are kept at most: 128 MiB. What opening writes is far less. Beyond it what is written is forgotten: a
/// block of a cache vdev, which is verified when it is read there.
const MOST: usize = 32 << 10;

/// What was to be written to devices.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// By leaf and sector.
    written: HashMap<(LeafId, u64), Vec<u8>>,
    /// Reads under way: from which sector on.
    reading: HashMap<IoId, (LeafId, u64)>,
}

impl Overlay {
    /// Takes what is not for the device, and answers it; what is read from the device is noted and given back.
    pub(super) fn take(&mut self, request: DeviceRequest) -> Result<DeviceRequest, DeviceOutcome> {
        let sector = |byte: u64| byte / SECTOR_SIZE as u64;
        match &request.op {
            DeviceOp::Read { offset, .. } => {
                let from = (request.leaf, sector(*offset));
                self.reading.insert(request.io, from);
                Ok(request)
            }
            DeviceOp::Write { offset, data, .. } => {
                let bytes = data.to_vec();
                for (at, bytes) in (sector(*offset)..).zip(bytes.chunks(SECTOR_SIZE)) {
                    let place = (request.leaf, at);
                    if self.written.len() < MOST || self.written.contains_key(&place) {
                        self.written.insert(place, bytes.to_vec());
                    }
                }
                Err(Ok(Pages::new()))
            }
            DeviceOp::Flush | DeviceOp::Trim { .. } => Err(Ok(Pages::new())),
        }
    }

    /// A read with what was to be written in its place.
    pub(super) fn overlaid(&mut self, io: IoId, outcome: DeviceOutcome) -> DeviceOutcome {
        let (Some((leaf, first)), Ok(data)) = (self.reading.remove(&io), &outcome) else {
            return outcome;
        };
        let sectors = (data.len() / SECTOR_SIZE) as u64;
        let is_written = |at| self.written.contains_key(&(leaf, at));
        if self.written.is_empty() || !(first..first + sectors).any(is_written) {
            return outcome;
        }
        let mut bytes = data.to_vec();
        for (at, part) in (first..).zip(bytes.chunks_mut(SECTOR_SIZE)) {
            if let Some(written) = self.written.get(&(leaf, at)) {
                part.copy_from_slice(written);
            }
        }
        Ok(Pages::from_bytes(&bytes))
    }
}

impl Drive {
    /// # Errors
    /// The system lacks something that it takes to read devices.
    pub(super) fn new() -> Result<Self, String> {
        let mut devices =
            Devices::new(true).map_err(|error| format!("prepare to read devices: {error}"))?;
        devices.write_nothing();
        Ok(Self {
            devices,
            clock: Clock::start(),
            answers: Vec::new(),
        })
    }

    /// Opens a pool as it would be opened, whole or `back` checkpoints behind the newest.
    ///
    /// # Errors
    /// It cannot be opened so.
    pub(super) fn open(
        &mut self,
        examined: &Examined,
        leaves: &[(u64, Arc<dyn BlockDevice>)],
        back: Option<usize>,
    ) -> Result<(Pool, Option<Rewound>), OpenError> {
        let cache = Arc::new(Cache::new(16 << 20, super::random_u64()));
        let mut opening = begin(examined, back, cache, self.now_us())?;
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
        let rewound = opening.rewound();
        Ok((opening.finish()?, rewound))
    }

    /// What the pool takes for the time.
    pub(super) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    pub(super) fn submit(&mut self, request: DeviceRequest) {
        self.devices.submit(request);
    }

    /// The answers that are there, or those that come before `until`.
    pub(super) fn wait(
        &mut self,
        until: Option<u64>,
    ) -> Result<Vec<(IoId, DeviceOutcome)>, String> {
        self.devices.start_batch();
        self.devices.take(&mut self.answers);
        if self.answers.is_empty() {
            if self.devices.is_idle() && until.is_none() {
                return Err("it waits for nothing: this is a defect, report it".to_owned());
            }
            let until = until.and_then(|at| self.clock.at(at));
            self.devices
                .wait(until)
                .map_err(|error| format!("wait for the devices: {error}"))?;
            self.devices.take(&mut self.answers);
        }
        Ok(std::mem::take(&mut self.answers))
    }
}

//! What an administrator does with an adapter that runs: logging out, other settings, looking.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::adapter::{Adapter, AdapterError, addresses};
use super::device::MultipathDevice;
use block::fence::{FenceOrder, Fencing};
use model::initiator::settings::{DeviceSettings, SessionSettings, TargetSettings};
use model::initiator::view::{InitiatorDevice, InitiatorSession};

impl Adapter {
    /// Gives a target other ways and settings. With `renew`, sessions that stay are made anew, one
    /// after another. Looks up names, which may block.
    ///
    /// # Errors
    /// A portal's name cannot be looked up; nothing was changed.
    pub fn modify(
        &self,
        target: usize,
        settings: TargetSettings,
        renew: bool,
    ) -> Result<(), AdapterError> {
        let addresses = addresses(&settings)?;
        self.fabric()
            .set_target(target, settings, &addresses, renew);
        self.ring();
        Ok(())
    }

    /// Puts other settings of a target's sessions in force that need neither new ways nor new
    /// logins.
    pub fn set_session(&self, target: usize, settings: SessionSettings) {
        self.fabric().set_session(target, settings);
        self.ring();
    }

    /// Logs out of a target, after what is under way there; nothing is waited for.
    pub fn log_out(&self, target: usize) {
        self.fabric().drop_target(target);
        self.ring();
    }

    /// Looks again at the units of a target, or of all.
    pub fn rescan(&self, target: Option<usize>) {
        self.fabric().rescan(target);
        self.ring();
    }

    /// Puts other settings of devices in force, for I/Os from now on.
    pub fn set_devices(&self, settings: DeviceSettings) {
        self.fabric().set_devices(settings);
        self.ring();
    }

    /// Lets I/O of a device wait no longer than this while all paths are down; `None`: as long as
    /// is set.
    pub(super) fn set_patience(&self, device: usize, patience: Option<Duration>) {
        let us = patience.map(|limit| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX));
        self.fabric().set_patience(device, us);
        self.ring();
    }

    /// Somebody else has a device from now on: what was lost before is not what he wrote.
    pub(super) fn begin_anew(&self, device: usize) {
        self.fabric().devices[device].has_lost_writes = false;
    }

    /// An administrator knows of lost writes: flushes are carried out again. Those that were to
    /// save what was lost fail nevertheless (`requests.rs`).
    pub(super) fn acknowledge_lost_writes(&self, device: usize) {
        self.fabric().devices[device].has_lost_writes = false;
    }

    /// Has other hosts kept from writing to a device, or lets them.
    pub(super) fn fence(&self, device: usize, order: FenceOrder) -> Fencing {
        let (reply, fencing) = channel();
        self.fabric().fence(device, order, reply);
        self.ring();
        fencing
    }

    /// Nobody needs the device to be kept from other hosts any more. Nothing is waited for.
    pub(super) fn drop_fence(&self, device: usize) {
        self.fabric().drop_fence(device);
        self.ring();
    }

    /// Lets I/O of all devices that have no patience of their own wait no longer than this.
    pub(super) fn hurry(&self, limit: Duration) {
        let count = self.fabric().devices.len();
        let is_patient = |at: &usize| self.fabric().devices[*at].patience_us.is_none();
        let patient: Vec<usize> = (0..count).filter(is_patient).collect();
        for device in patient {
            self.set_patience(device, Some(limit));
        }
    }

    /// The sessions now.
    pub fn sessions(&self) -> Vec<InitiatorSession> {
        self.fabric().sessions()
    }

    /// The devices now.
    pub fn devices(&self) -> Vec<InitiatorDevice> {
        self.fabric().devices()
    }

    /// The device of that name, if a session has shown it.
    pub fn device_called(self: &Arc<Self>, name: &str) -> Option<MultipathDevice> {
        let device = self.fabric().device_called(name)?;
        Some(MultipathDevice::new(Arc::clone(self), device))
    }

    /// The names of the devices that no other target than these leads to.
    pub fn devices_only_behind(&self, targets: &[usize]) -> Vec<String> {
        self.fabric().devices_only_behind(targets)
    }

    /// Raised by one whenever a device came, grew, or lost a session.
    pub(super) fn changes(&self) -> u64 {
        self.fabric().changes()
    }
}

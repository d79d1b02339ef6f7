//! Administrative operations on a running adapter: logging out, changing settings, looking.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::adapter::{Adapter, AdapterError, addresses};
use super::device::MultipathDevice;
use block::fence::{FenceOrder, Fencing};
use model::figures::initiator::DeviceFigures;
use model::initiator::settings::{DeviceSettings, SessionSettings, TargetSettings};
use model::initiator::view::{InitiatorDevice, InitiatorSession};

impl Adapter {
    /// Replaces a target's routes and settings. With `renew`, sessions that stay are made anew, one
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

    /// Changes settings of a target's sessions that need neither new routes nor new logins.
    pub fn set_session(&self, target: usize, settings: SessionSettings) {
        self.fabric().set_session(target, settings);
        self.ring();
    }

    /// Logs out of a target when the commands there have ended. Does not wait.
    pub fn log_out(&self, target: usize) {
        self.fabric().drop_target(target);
        self.ring();
    }

    /// Looks again at the units of one target, or of all targets.
    pub fn rescan(&self, target: Option<usize>) {
        self.fabric().rescan(target);
        self.ring();
    }

    /// Changes the settings of devices, for I/Os from now on.
    pub fn set_devices(&self, settings: DeviceSettings) {
        self.fabric().set_devices(settings);
        self.ring();
    }

    /// Limits the time for which I/O of a device waits while all paths are down. `None`: as long as
    /// the settings say.
    pub(super) fn set_patience(&self, device: usize, patience: Option<Duration>) {
        let us = patience.map(|limit| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX));
        self.fabric().set_patience(device, us);
        self.ring();
    }

    /// Gives a device to a new owner, whose writes earlier losses do not concern.
    pub(super) fn begin_anew(&self, device: usize) {
        self.fabric().devices[device].has_lost_writes = false;
    }

    /// Notes that an administrator knows of lost writes: flushes are carried out again. Flushes
    /// that were to save the lost writes fail nevertheless (`requests.rs`).
    pub(super) fn acknowledge_lost_writes(&self, device: usize) {
        self.fabric().devices[device].has_lost_writes = false;
    }

    /// Keeps other hosts from writing to a device, or lets them.
    pub(super) fn fence(&self, device: usize, order: FenceOrder) -> Fencing {
        let (reply, fencing) = channel();
        self.fabric().fence(device, order, reply);
        self.ring();
        fencing
    }

    /// Gives up the fence of a device. Does not wait.
    pub(super) fn drop_fence(&self, device: usize) {
        self.fabric().drop_fence(device);
        self.ring();
    }

    /// Limits the time for which I/O waits, for all devices that have no limit of their own.
    pub(super) fn hurry(&self, limit: Duration) {
        let count = self.fabric().devices.len();
        let is_patient = |at: &usize| self.fabric().devices[*at].patience_us.is_none();
        let patient: Vec<usize> = (0..count).filter(is_patient).collect();
        for device in patient {
            self.set_patience(device, Some(limit));
        }
    }

    /// Returns the present sessions.
    pub fn sessions(&self) -> Vec<InitiatorSession> {
        self.fabric().sessions()
    }

    /// Returns the present devices.
    pub fn devices(&self) -> Vec<InitiatorDevice> {
        self.fabric().devices()
    }

    /// Returns the figures of the present devices.
    pub fn figures(&self) -> Vec<DeviceFigures> {
        self.fabric().figures()
    }

    /// Returns the device of this name, if a session has shown it.
    pub fn device_called(self: &Arc<Self>, name: &str) -> Option<MultipathDevice> {
        let device = self.fabric().device_called(name)?;
        Some(MultipathDevice::new(Arc::clone(self), device))
    }

    /// Returns the names of the devices to which no targets but these lead.
    pub fn devices_only_behind(&self, targets: &[usize]) -> Vec<String> {
        self.fabric().devices_only_behind(targets)
    }

    /// Returns a counter that grows whenever a device comes, grows, or loses a session.
    pub(super) fn changes(&self) -> u64 {
        self.fabric().changes()
    }
}

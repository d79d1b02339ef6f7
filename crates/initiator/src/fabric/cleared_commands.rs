//! Commands that the target may have aborted without an answer, on behalf of another initiator or
//! after a reset. The target says so by a unit attention, and the adapter does not wait for the
//! command timeout: it aborts them itself, and so learns that they are over.
//!
//! A path waits for the end of its commands before it registers with a reservation again. So a host
//! whose disk was taken by PREEMPT AND ABORT learns at once which host has it.

use scsi::application_client::sense::SenseCode;

use super::traffic::cookie;
use super::{ERRAND, Fabric};

impl Fabric {
    /// Aborts what is under way on a logical unit if the sense data of a CHECK CONDITION tells of
    /// aborted commands. `ended` is the cookie of the command that ended with it.
    #[cold]
    pub(super) fn heed_cleared_commands(
        &mut self,
        at: usize,
        lun: u64,
        ended: u64,
        sense: &[u8],
        now: u64,
    ) {
        if SenseCode::decode(sense).is_some_and(|code| code.tells_of_aborted_commands()) {
            self.abort_what_is_under_way(at, lun, Some(ended), now);
        }
    }

    /// Aborts all commands of a session on a logical unit, except `spared`. The policy repeats
    /// them, like every command whose abort was confirmed.
    pub(super) fn abort_what_is_under_way(
        &mut self,
        at: usize,
        lun: u64,
        spared: Option<u64>,
        now: u64,
    ) {
        let mut cookies: Vec<u64> = Vec::new();
        for (number, device) in self.devices.iter().enumerate() {
            for (io, path, _) in device.policy.on_paths() {
                let way = device.paths[path.0 as usize];
                if (way.nexus, way.lun) == (at, lun) {
                    cookies.push(cookie(number, path, io));
                }
            }
        }
        let errands = self.errands.iter();
        let errands = errands.filter(|(_, errand)| (errand.nexus, errand.lun) == (at, lun));
        cookies.extend(errands.map(|(key, _)| ERRAND | key as u64));
        cookies.retain(|cookie| Some(*cookie) != spared);
        let asked = cookies
            .into_iter()
            // A command that waits for the command window has not reached the target.
            .filter(|cookie| self.abort(at, lun, *cookie, now))
            .count();
        if asked > 0 {
            let portal = self.nexuses[at].portal;
            tracing::info!(%portal, commands = asked, "the target may have aborted commands without an answer; they are repeated");
        }
    }
}

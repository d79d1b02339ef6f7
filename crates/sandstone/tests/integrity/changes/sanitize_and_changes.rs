//! SANITIZE goes on until its end, so a change that needs quiet disks is refused while it runs.
//!
//! These are target port groups that go out of service, and units that are deleted.

use std::fs::File;
use std::sync::Arc;

use model::config::{AluaState, BackendSpec, UnitSpec};
use model::data_plane::ApplyError;
use testing::wait;

use crate::losses::kill::settings;
use crate::losses::late_write::{BLOCK, FirstWriteWaits};
use crate::rig::process::{file_unit, free_portal};
use crate::rig::served::{Served, limits};
use crate::rig::session::PipelinedSession;

const IN_PROGRESS: Option<(u8, u8)> = Some((0x04, 0x1b));

/// Target with two portal groups whose unit is being overwritten, which the device holds up.
///
/// The first of two sessions asked for the overwrite through the first group.
struct Sanitized {
    device: Arc<FirstWriteWaits>,
    served: Served,
    sessions: [PipelinedSession; 2],
    _disk: tempfile::TempDir,
}

impl Sanitized {
    fn start() -> Self {
        let portals = [free_portal(), free_portal()];
        let disk = tempfile::tempdir().unwrap();
        let path = disk.path().join("disk.img");
        let size = 8 * BLOCK as u64;
        File::create(&path).unwrap().set_len(size).unwrap();
        let (unit, map) = file_unit(0, 8, BLOCK as u32, true);
        // The place of the bytes is known: so SANITIZE is offered.
        let unit = UnitSpec {
            thin: false,
            backend: BackendSpec::File {
                path,
                size,
                preallocate: true,
            },
            ..unit
        };
        let device = Arc::new(FirstWriteWaits::new());
        let served = Served::start(&portals, vec![(unit, map)], vec![device.clone()], limits());
        let mut sessions = [0, 1].map(|port: u8| {
            let mut session = PipelinedSession::new(portals[usize::from(port)], settings(port));
            session.log_in();
            session.wait_until_ready(0);
            session
        });
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[8]) = (0x48, 0x01, 5);
        sessions[0].write(1, 0, cdb, vec![1, 0, 0, 1, b's']);
        sessions[0].pump(&mut Vec::new()).unwrap();
        device.wait_until_held();
        Self {
            device,
            served,
            sessions,
            _disk: disk,
        }
    }

    /// Puts a target port group in this state.
    fn set(&mut self, group: usize, state: AluaState) -> Result<(), ApplyError> {
        let change = |config: &mut model::Config| {
            config.targets[0].portal_groups[group].alua_state = state;
        };
        self.served.try_change(change)
    }

    fn delete(&mut self) -> Result<(), ApplyError> {
        self.served.try_change(|config| {
            config.units.clear();
            config.maps.clear();
        })
    }

    /// Returns the sense of TEST UNIT READY in the other session.
    fn told(&mut self) -> Option<(u8, u8)> {
        self.sessions[1].run(0, [0; 16], 0, Vec::new()).asc()
    }

    /// Lets the overwrite go on to its end.
    fn finish(&mut self) {
        self.device.let_go();
        wait::until_seen("SANITIZE ends", || self.told(), |told| told.is_none());
    }
}

#[test]
fn a_group_stays_in_service_while_what_was_asked_for_through_it_is_overwritten() {
    let mut sanitized = Sanitized::start();
    let refused = sanitized.set(0, AluaState::Standby).unwrap_err();
    assert_eq!(refused.object, "target port group 1");
    assert!(refused.message.contains("SANITIZE"), "{refused}");
    assert!(refused.message.contains("lu unit-0"), "{refused}");
    // Nobody was disturbed.
    assert_eq!(sanitized.told(), IN_PROGRESS);
    // The other group may go: the unit is served here all the same.
    sanitized.set(1, AluaState::Standby).unwrap();
    assert_eq!(sanitized.told(), Some((0x2a, 0x06)));
    assert_eq!(sanitized.told(), Some((0x04, 0x0b)));
    sanitized.set(1, AluaState::ActiveOptimized).unwrap();
    assert_eq!(sanitized.told(), Some((0x2a, 0x06)));
    // The overwrite outlives its session, and holds the group as before.
    sanitized.sessions[0].cut();
    wait::until("the session ends", || sanitized.served.sessions() == 1);
    let refused = sanitized.set(0, AluaState::Unavailable).unwrap_err();
    assert!(refused.message.contains("SANITIZE"), "{refused}");
    // It also goes on if that group no longer exists.
    let gone = sanitized.served.try_change(|config| {
        config.targets[0].portal_groups.remove(0);
        config.targets[0].portal_groups[0].alua_state = AluaState::Standby;
    });
    assert!(gone.unwrap_err().message.contains("SANITIZE"));
    sanitized.finish();
    sanitized.set(0, AluaState::Standby).unwrap();
    sanitized.served.stop();
}

#[test]
fn a_unit_that_is_overwritten_is_not_deleted() {
    let mut sanitized = Sanitized::start();
    let refused = sanitized.delete().unwrap_err();
    assert_eq!(refused.object, "lu unit-0");
    assert!(refused.message.contains("SANITIZE"), "{refused}");
    assert_eq!(sanitized.told(), IN_PROGRESS);
    sanitized.finish();
    sanitized.delete().unwrap();
    sanitized.served.stop();
}

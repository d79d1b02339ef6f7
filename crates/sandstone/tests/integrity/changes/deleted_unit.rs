//! The deletion of a unit is answered when nothing is under way on it any more.
//!
//! From then on another unit may serve its storage, and a late write would overwrite that unit's
//! data.

use std::sync::Arc;

use testing::wait;

use crate::losses::kill::settings;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::PipelinedSession;

const LOGICAL_UNIT_NOT_SUPPORTED: Option<(u8, u8)> = Some((0x25, 0x00));

#[test]
fn a_deletion_is_answered_when_the_units_last_write_is_over() {
    let portal = free_portal();
    let device = Arc::new(FirstWriteWaits::new());
    // The other one keeps the sessions.
    let units = [0, 1].map(|lun| unit(lun, 8, BLOCK as u32, true)).into();
    let mut served = Served::start(&[portal], units, vec![device.clone()], limits());
    let [mut writer, mut other] = [0, 1].map(|port| {
        let mut session = PipelinedSession::new(portal, settings(port));
        session.log_in();
        session.wait_until_ready(0);
        session
    });
    writer.write(1, 0, write_cdb(), vec![b'a'; BLOCK]);
    writer.pump(&mut Vec::new()).unwrap();
    device.wait_until_held();
    std::thread::scope(|scope| {
        let deletion = scope.spawn(|| {
            served.change(|config| {
                config.units.remove(0);
                config.maps.remove(0);
            });
        });
        // The other unit reports REPORTED LUNS DATA HAS CHANGED.
        let told = || other.run(0, [0; 16], 0, Vec::new()).asc();
        wait::until_seen("the unit is gone", told, |asc| {
            *asc == LOGICAL_UNIT_NOT_SUPPORTED
        });
        for _ in 0..100 {
            let told = other.run(0, [0; 16], 0, Vec::new()).asc();
            assert_eq!(told, LOGICAL_UNIT_NOT_SUPPORTED);
        }
        assert!(!deletion.is_finished(), "its write is still under way");
        device.let_go();
        deletion.join().unwrap();
    });
    served.stop();
}

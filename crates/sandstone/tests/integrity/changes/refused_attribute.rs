//! Task with the ACA attribute (SAM-5 8.6.5): NormACA is 0, so there is never an ACA condition for
//! it.

use std::sync::Arc;

use crate::losses::kill::settings;
use crate::losses::late_write::{BLOCK, FirstWriteWaits};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{Ended, PipelinedSession, wait_for_traffic};

const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;

fn test_unit_ready_with_aca(session: &mut PipelinedSession, lun: u8) -> Ended {
    session.test_with_aca(1, lun);
    let mut ended = Vec::new();
    loop {
        session.pump(&mut ended).unwrap();
        if let Some(end) = ended.pop() {
            return end;
        }
        wait_for_traffic(std::slice::from_ref(session));
    }
}

/// Sets D_SENSE of the control mode page, for this moment only.
fn ask_for_descriptors(session: &mut PipelinedSession) {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x1a, 0x08, 0x0a, 0, 255, 0]);
    let mut list = session.run(0, cdb, 255, Vec::new()).data_in;
    list[0] = 0;
    list[4] &= 0x3f;
    list[4 + 2] |= 0x04;
    cdb[..6].copy_from_slice(&[0x15, 0x10, 0, 0, list.len() as u8, 0]);
    assert_eq!(session.run(0, cdb, 0, list).status, GOOD);
}

#[test]
fn a_task_for_an_aca_condition_is_refused_in_the_format_of_its_unit() {
    let portal = free_portal();
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let device = Arc::new(FirstWriteWaits::new());
    let served = Served::start(&[portal], units, vec![device], limits());
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);

    let refused = test_unit_ready_with_aca(&mut session, 0);
    assert_eq!(refused.status, CHECK_CONDITION);
    assert_eq!((refused.sense[0], refused.sense[2]), (0x70, 0x05));
    assert_eq!(refused.asc(), Some((0x49, 0x00)));

    ask_for_descriptors(&mut session);
    let refused = test_unit_ready_with_aca(&mut session, 0);
    assert_eq!(refused.status, CHECK_CONDITION);
    assert_eq!(refused.sense[..4], [0x72, 0x05, 0x49, 0x00]);

    // There is no unit whose format could be asked.
    let refused = test_unit_ready_with_aca(&mut session, 9);
    assert_eq!((refused.sense[0], refused.sense[2]), (0x70, 0x05));

    session.cut();
    served.stop();
}

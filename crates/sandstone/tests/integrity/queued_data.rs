//! A command that waits for its turn collects its data meanwhile.
//!
//! Its initiator may offer as much as four gigabytes. Data that no command of the unit can use is
//! neither asked for nor kept.

use std::sync::Arc;
use std::time::Duration;

use iscsi::initiator::Residual;
use testing::wait;

use crate::losses::fencing::logged_in;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::wait_for_traffic;

/// Largest transfer that VPD page B0h reports.
const MAX_TRANSFER: u64 = 8 << 20;
const OFFERED: usize = 32 << 20;

#[test]
fn a_queued_command_collects_no_more_than_a_command_can_use() {
    let portal = free_portal();
    let device = Arc::new(FirstWriteWaits::new());
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![device.clone()], limits());
    let mut session = logged_in(portal, 1);
    session.write_ordered(1, 0, write_cdb(), vec![b'a'; BLOCK]);
    let mut two_blocks = write_cdb();
    two_blocks[13] = 2;
    let mut data = vec![b'c'; OFFERED];
    data[..2 * BLOCK].fill(b'b');
    session.write(2, 0, two_blocks, data);
    let mut ended = Vec::new();
    // Long enough for all data that it offers.
    wait::throughout(Duration::from_secs(1), || {
        session.pump(&mut ended).unwrap();
        assert!(ended.is_empty(), "the first is held up: {ended:?}");
    });
    assert!(session.sent() > BLOCK as u64, "the second collects");
    device.let_go();
    while ended.len() < 2 {
        wait_for_traffic(std::slice::from_ref(&session));
        session.pump(&mut ended).unwrap();
    }
    assert_eq!((ended[0].cookie, ended[0].status), (1, 0));
    assert_eq!((ended[1].cookie, ended[1].status), (2, 0));
    let left = (OFFERED - 2 * BLOCK) as u32;
    assert_eq!(ended[1].residual, Residual::Underflow(left));
    let sent = session.sent();
    assert!(
        sent <= BLOCK as u64 + MAX_TRANSFER,
        "{sent} bytes were asked for"
    );
    let mut read = write_cdb();
    (read[0], read[13]) = (0x88, 3);
    let found = session.run(0, read, 3 * BLOCK, Vec::new());
    assert!(found.data_in == [[b'b'; 2 * BLOCK].as_slice(), &[0; BLOCK]].concat());
    session.cut();
    served.stop();
}

//! An initiator that begins a write and never sends its data keeps a place in the task set.
//!
//! ORDERED commands of others wait behind it, but not for ever. A session does not wait for ever
//! either for a command that was lost with a connection.

use std::time::Duration;

use testing::wait;

use crate::losses::fencing::{logged_in, one_block};
use crate::losses::kill::settings;
use crate::rig::process::free_portal;
use crate::rig::served::{self, Served};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const BLOCK: usize = 512;
const GOOD: u8 = 0x00;
/// Time far below that in which a ping finds a silent initiator dead.
const SOON: Duration = Duration::from_secs(10);

/// Begins a write, and stays silent once the target asks for the data.
fn begin_write(session: &mut PipelinedSession) {
    session.write(1, 0, one_block(0x8a), vec![1; BLOCK]);
    session.send_only();
    wait_for_traffic(std::slice::from_ref(session));
}

#[test]
fn ordered_commands_go_on_where_others_never_send_their_data() {
    let portal = free_portal();
    let limits = target::DaemonLimits {
        stall_timeout: Duration::from_secs(1),
        ..served::limits()
    };
    let units = vec![served::unit(0, 2048, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, Vec::new(), limits);
    let mut good = logged_in(portal, 0);
    let mut begun = logged_in(portal, 1);
    let mut queued = logged_in(portal, 2);
    // One has begun; the other is queued behind an ORDERED command, and another one waits behind
    // it.
    begin_write(&mut begun);
    good.write_ordered(1, 0, one_block(0x8a), vec![2; BLOCK]);
    let mut ended = Vec::new();
    good.pump(&mut ended).unwrap();
    wait_for_traffic(std::slice::from_ref(&good));
    good.pump(&mut ended).unwrap();
    begin_write(&mut queued);
    good.write_ordered(2, 0, one_block(0x8a), vec![3; BLOCK]);
    wait::at_most(SOON).until("both end", || {
        good.pump(&mut ended).unwrap();
        ended.len() >= 2
    });
    assert!(ended.iter().all(|ended| ended.status == GOOD), "{ended:?}");
    let read = good.run(0, one_block(0x88), BLOCK, Vec::new());
    assert!(read.data_in == [3; BLOCK], "in their order");
    drop((begun, queued));
    good.cut();
    served.stop();
}

#[test]
fn a_session_that_waits_for_a_command_lost_with_its_connection_is_ended() {
    let portal = free_portal();
    let limits = target::DaemonLimits {
        stall_timeout: Duration::from_secs(1),
        ..served::limits()
    };
    let units = vec![served::unit(0, 2048, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, Vec::new(), limits);
    let mut first = PipelinedSession::new(portal, settings(0));
    first.settings.limits.max_connections = 2;
    first.log_in();
    first.wait_until_ready(0);
    // The command before this one was to come on the first connection.
    let mut second = first.second_connection(1);
    second.log_in();
    second.write(1, 0, one_block(0x8a), vec![1; BLOCK]);
    let mut ended = Vec::new();
    second.pump(&mut ended).unwrap();
    first.cut();
    wait::at_most(SOON).until("it ends", || second.pump(&mut ended).is_err());
    assert!(ended.is_empty(), "{ended:?}");
    second.cut();
    let mut again = logged_in(portal, 0);
    let read = again.run(0, one_block(0x88), BLOCK, Vec::new());
    assert!(read.data_in == [0; BLOCK], "it never began");
    again.cut();
    served.stop();
}

//! A connection that closes together with its last bytes is noticed at once.
//!
//! Nobody answers those bytes, but the resources of the session must not wait for a ping.

use std::time::Duration;

use block::memory::MemoryDevice;
use iscsi::pdu::{BHS_LENGTH, NopOut, RESERVED_TAG};
use testing::wait;

use crate::losses::kill::settings;
use crate::rig::process::free_portal;
use crate::rig::served::{self, Served, limits};
use crate::rig::session::PipelinedSession;

#[test]
fn a_close_behind_bytes_that_need_no_answer_is_seen() {
    let portal = free_portal();
    let disk = std::sync::Arc::new(MemoryDevice::new(64 * 512, 512, 1 << 20).unwrap());
    let units = vec![served::unit(0, 64, 512, true)];
    let served = Served::start(&[portal], units, vec![disk], limits());
    let mut bytes = [0; BHS_LENGTH];
    NopOut {
        immediate: true,
        data_segment_length: 0,
        lun: 0,
        itt: RESERVED_TAG,
        ttt: RESERVED_TAG,
        cmd_sn: 1,
        exp_stat_sn: 1,
    }
    .encode(&mut bytes);
    for number in 0..40 {
        let mut session = PipelinedSession::new(portal, settings(number));
        session.log_in();
        session.send_raw(&bytes);
        session.cut();
    }
    let left = || served.sessions();
    wait::at_most(Duration::from_secs(3)).until_seen("none is left", left, |left| *left == 0);
    served.stop();
}

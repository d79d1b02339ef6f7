//! Device whose flush failed: it refuses durable writes until the administrator has seen and ended
//! the state.

use std::sync::Arc;

use block::BlockErrorKind;
use block::fault::{Fault, FaultDevice, Rule, When};
use block::memory::MemoryDevice;
use block::statistics::RequestKind;
use model::data_plane::DataPlane as _;
use model::hindrance::{Clearing, HindranceKind, Stops};

use super::kill::settings;
use super::late_write::{BLOCK, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{self, Served, limits};
use crate::rig::session::PipelinedSession;

#[test]
fn lost_writes_are_seen_and_flushes_go_on_when_they_were_acknowledged() {
    let portal = free_portal();
    let memory = MemoryDevice::new(8 * BLOCK as u64, BLOCK as u32, 1 << 20).unwrap();
    let device = Arc::new(FaultDevice::new(Arc::new(memory), 7));
    device.add(Rule {
        kind: Some(RequestKind::Flush),
        range: None,
        when: When::Nth(1),
        fault: Fault::Fail(BlockErrorKind::Write),
    });
    let units = vec![served::unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![device], limits());
    let service = served.service();
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    let mut synchronize_cache = [0; 16];
    synchronize_cache[0] = 0x91;
    let mut flush = || {
        let written = session.run(0, write_cdb(), 0, vec![b'a'; BLOCK]);
        assert_eq!(written.status, 0, "{written:?}");
        session.run(0, synchronize_cache, 0, Vec::new()).asc()
    };
    // WRITE ERROR, and from then on, though the device itself would report success.
    assert_eq!([flush(), flush()], [Some((0x0c, 0)); 2]);
    let [found] = &service.unit("unit-0").unwrap().hindrances[..] else {
        panic!("{:?}", service.unit("unit-0"));
    };
    assert_eq!(
        (found.kind, found.stops),
        (HindranceKind::LostWrites, Stops::Writes)
    );
    let end = "sandstone lu clear unit-0 lost-writes";
    assert_eq!(found.end.as_deref(), Some(end));
    let ended = service.clear("unit-0", Clearing::LostWrites).unwrap();
    assert_eq!(ended, std::slice::from_ref(found));
    assert_eq!(service.unit("unit-0").unwrap().hindrances, []);
    assert_eq!(flush(), None);
    let ended = service.clear("unit-0", Clearing::LostWrites).unwrap();
    assert_eq!(ended, []);
    session.cut();
    served.stop();
}

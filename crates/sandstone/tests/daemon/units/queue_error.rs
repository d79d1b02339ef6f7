//! QERR of the control mode page over real sessions.
//!
//! A command that ends with CHECK CONDITION takes others of its task set with it, or does not. TST
//! says which commands belong to that task set (SPC-4 7.5.8).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::served::{self, Served, free_portal, log_in, sense, settings, test_unit_ready, unit};
use block::delay::DelayDevice;
use initiator::connection::{Connection, Outcome};
use model::config::{BackendSpec, Config};
use model::data_plane::DataPlane as _;
use target::{DaemonLimits, DeviceLayer, Service, ServiceOptions};
use testing::wait;

/// Time that the device takes for everything.
const LATENCY: Duration = Duration::from_millis(1500);
const TASK_ABORTED: Option<u8> = Some(0x40);

struct Slow {
    service: Arc<Service>,
    portal: SocketAddr,
    _state: tempfile::TempDir,
}

impl Slow {
    fn start() -> Self {
        let portal = free_portal();
        let mut config = Config::default();
        let unit = unit("unit", 1, BackendSpec::Memory { size: 1 << 20 });
        served::fill(&mut config, portal, vec![unit]);
        let layer = DeviceLayer::new(|_, device| Arc::new(DelayDevice::new(device, LATENCY, None)));
        let state = tempfile::tempdir().unwrap();
        let options = ServiceOptions {
            state: state.path().to_owned(),
            threads: 2,
            io_uring: false,
            limits: DaemonLimits {
                max_sessions: 16,
                max_logins: 16,
                login_timeout: Duration::from_secs(15),
                stall_timeout: Duration::from_secs(60),
                memory: 64 << 20,
            },
            layer: Some(layer),
            pools: pools::Pools::none(state.path()),
            initiator: std::sync::Arc::default(),
            events: Default::default(),
        };
        Self {
            service: Service::start(options, Arc::new(config)).unwrap(),
            portal,
            _state: state,
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.service.shutdown();
        self.service.join();
    }
}

/// Sets QERR and TAS in the control page.
fn control(session: &mut Connection, queue_error: u8, task_aborted_status: bool) {
    change(session, false, |page| {
        page[3] = page[3] & !0x06 | queue_error << 1;
        page[5] = u8::from(task_aborted_status) << 6;
    });
}

/// Returns the present control page, with the header of its parameter list.
fn control_page(session: &mut Connection) -> Vec<u8> {
    let asked = session
        .read(0, &[0x1a, 0x08, 0x0a, 0, 255, 0], 255)
        .unwrap();
    assert_eq!(sense(&asked), None);
    asked.data_in
}

/// Changes the control page, and saves it if asked to.
fn change(session: &mut Connection, save: bool, change: impl FnOnce(&mut [u8])) {
    let mut list = control_page(session);
    list[0] = 0;
    list[4] &= 0x3f;
    change(&mut list[4..]);
    let cdb = [0x15, 0x10 | u8::from(save), 0, 0, list.len() as u8, 0];
    assert_eq!(sense(&session.write(0, &cdb, list).unwrap()), None);
}

/// Starts a read that the device holds up, in a thread of its own. Returns once it is under way.
fn slow_read(slow: &Slow, mut session: Connection) -> Receiver<(Outcome, Connection)> {
    let unit = slow.service.unit_at_work("unit").unwrap();
    let before = unit.under_way().active;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // A connection that ends first has no outcome.
        if let Ok(outcome) = session.read(0, &served::cdb(0x88, 0, 1), 512) {
            let _ = sender.send((outcome, session));
        }
    });
    wait::until("the read is under way", || unit.under_way().active > before);
    receiver
}

fn fail(session: &mut Connection) {
    let refused = session.read(0, &[0xff; 6], 0).unwrap();
    assert_eq!(sense(&refused), Some([5, 0x20, 0x00]));
}

fn outcome(read: &Receiver<(Outcome, Connection)>) -> (Outcome, Connection) {
    read.recv_timeout(LATENCY * 10).unwrap()
}

#[test]
fn queue_error_01b_aborts_the_commands_of_all_nexuses() {
    let slow = Slow::start();
    let (mut one, mut two) = (
        log_in(slow.portal, settings(1)),
        log_in(slow.portal, settings(2)),
    );
    control(&mut one, 0b00, true);
    assert_eq!(test_unit_ready(&mut two), Some([6, 0x2a, 0x01]));
    let read = slow_read(&slow, two);
    fail(&mut one);
    let (untouched, mut two) = outcome(&read);
    assert_eq!(untouched.status, Some(0), "QERR is 00b");
    control(&mut one, 0b01, true);
    assert_eq!(test_unit_ready(&mut two), Some([6, 0x2a, 0x01]));
    // Another nexus, on any loop, and a third that had nothing to lose.
    let mut three = log_in(slow.portal, settings(3));
    let read = slow_read(&slow, two);
    fail(&mut one);
    let (aborted, mut two) = outcome(&read);
    assert_eq!(aborted.status, TASK_ABORTED);
    for session in [&mut one, &mut two, &mut three] {
        assert_eq!(test_unit_ready(session), None, "the status has told");
    }
    // Without TASK ABORTED status, a unit attention tells of it.
    control(&mut one, 0b01, false);
    assert_eq!(test_unit_ready(&mut two), Some([6, 0x2a, 0x01]));
    assert_eq!(test_unit_ready(&mut three), Some([6, 0x2a, 0x01]));
    let tsih = slow.service.sessions()[1].tsih;
    let mut join = settings(2);
    // It sent eight commands, the read below included.
    (join.tsih, join.cid, join.cmd_sn) = (tsih, 0, 9);
    let read = slow_read(&slow, two);
    fail(&mut one);
    let silence = read.recv_timeout(LATENCY * 2).map(|(outcome, _)| outcome);
    assert_eq!(
        silence,
        Err(RecvTimeoutError::Timeout),
        "no response is due"
    );
    let mut two = Connection::open(slow.portal, join).unwrap();
    assert_eq!(test_unit_ready(&mut two), Some([6, 0x2f, 0x00]));
    assert_eq!(test_unit_ready(&mut three), None);
}

/// Checks that with these values of QERR and TST a failed command aborts only commands of its own
/// nexus.
fn aborts_the_commands_of_the_same_nexus_only(queue_error: u8, task_set_type: u8) {
    let slow = Slow::start();
    let mut own = settings(1);
    own.limits.max_connections = 2;
    let (mut one, mut two) = (
        log_in(slow.portal, own.clone()),
        log_in(slow.portal, settings(2)),
    );
    change(&mut one, false, |page| {
        page[2] |= task_set_type << 5;
        page[3] |= queue_error << 1;
        page[5] = 1 << 6;
    });
    assert_eq!(test_unit_ready(&mut two), Some([6, 0x2a, 0x01]));
    let other = slow_read(&slow, two);
    let same = slow_read(&slow, one);
    // A further connection of the first session: its nexus is the first one. Four commands were
    // sent.
    (own.tsih, own.cid, own.cmd_sn) = (slow.service.sessions()[0].tsih, 1, 5);
    let mut joined = Connection::open(slow.portal, own).unwrap();
    fail(&mut joined);
    assert_eq!(outcome(&other).0.status, Some(0), "another nexus");
    let silence = same.recv_timeout(LATENCY * 2).map(|(outcome, _)| outcome);
    assert_eq!(
        silence,
        Err(RecvTimeoutError::Timeout),
        "no response is due"
    );
    assert_eq!(test_unit_ready(&mut joined), None);
}

#[test]
fn queue_error_11b_aborts_the_commands_of_the_same_nexus_only() {
    aborts_the_commands_of_the_same_nexus_only(0b11, 0b000);
}

#[test]
fn queue_error_01b_aborts_the_task_set_of_the_same_nexus_where_each_has_its_own() {
    aborts_the_commands_of_the_same_nexus_only(0b01, 0b001);
}

#[test]
fn the_task_set_type_outlives_a_restart_where_it_was_saved() {
    let backend = BackendSpec::Memory { size: 1 << 20 };
    let mut served = Served::start(vec![unit("unit", 1, backend)]);
    let mut session = served.log_in(1);
    change(&mut session, false, |page| page[2] |= 0b001 << 5);
    drop(session);
    served.restart();
    let mut session = served.log_in(1);
    assert_eq!(control_page(&mut session)[4 + 2] >> 5, 0b000);
    change(&mut session, true, |page| page[2] |= 0b001 << 5);
    drop(session);
    served.restart();
    assert_eq!(control_page(&mut served.log_in(1))[4 + 2] >> 5, 0b001);
}

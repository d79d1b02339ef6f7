//! The watchdog of the service manager: it is fed while every thread has its turn, and no longer
//! when one hangs.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::served::{self, cdb, free_portal, log_in, settings, unit};
use block::layer::Layer;
use block::{BlockDevice, Lane, Request, Submitted, Ticket};
use model::config::{BackendSpec, Config};
use model::data_plane::DataPlane as _;
use process::watchdog::Round;
use target::{DaemonLimits, DeviceLayer, Service, ServiceOptions};
use testing::wait;

/// Time after which a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Device that breaks the rule that nothing blocks an event loop: a read keeps its thread until the
/// test lets it go.
#[derive(Debug)]
struct Blocking {
    inner: Arc<dyn BlockDevice>,
    begun: Sender<()>,
    go: Arc<Mutex<Receiver<()>>>,
}

impl Layer for Blocking {
    fn beneath(&self) -> &dyn BlockDevice {
        &*self.inner
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if matches!(request, Request::Read { .. }) {
            self.begun.send(()).unwrap();
            self.go.lock().unwrap().recv().unwrap();
        }
        self.inner.submit(request, ticket, lane)
    }
}

struct Hanging {
    service: Arc<Service>,
    portal: SocketAddr,
    begun: Receiver<()>,
    go: Sender<()>,
    _state: tempfile::TempDir,
}

impl Hanging {
    fn start() -> Self {
        let portal = free_portal();
        let mut config = Config::default();
        let disk = unit("unit", 1, BackendSpec::Memory { size: 1 << 20 });
        served::fill(&mut config, portal, vec![disk]);
        let ((begin, begun), (go, wait)) = (channel(), channel());
        let wait = Arc::new(Mutex::new(wait));
        let layer = DeviceLayer::new(move |_, inner| {
            Arc::new(Blocking {
                inner,
                begun: begin.clone(),
                go: Arc::clone(&wait),
            })
        });
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
            initiator: Arc::default(),
            events: Default::default(),
        };
        Self {
            service: Service::start(options, Arc::new(config)).unwrap(),
            portal,
            begun,
            go,
            _state: state,
        }
    }

    fn round(&self) -> Round {
        let mut round = Round::default();
        self.service.ask_for_turns(&mut round);
        round
    }
}

/// Waits until this many threads have not answered.
fn wait_for(round: &Round, unanswered: usize) {
    let what = format!("{unanswered} have not answered");
    wait::until_seen(
        &what,
        || round.unanswered(),
        |told| told.len() == unanswered,
    );
}

#[test]
fn a_loop_that_hangs_does_not_answer_and_the_others_do() {
    let hanging = Hanging::start();
    // Loops that rest are woken by the question.
    wait_for(&hanging.round(), 0);
    let mut session = log_in(hanging.portal, settings(1));
    let reader = std::thread::spawn(move || session.read(0, &cdb(0x88, 0, 1), 512).unwrap());
    hanging.begun.recv_timeout(PATIENCE).unwrap();
    let round = hanging.round();
    wait_for(&round, 1);
    let late = round.unanswered()[0].to_owned();
    assert!(late.starts_with("loop"), "{late}");
    hanging.go.send(()).unwrap();
    assert_eq!(reader.join().unwrap().status, Some(0));
    wait_for(&round, 0);
    hanging.service.shutdown();
    hanging.service.join();
    // Threads that have ended are not waited for.
    assert!(hanging.round().unanswered().is_empty());
}

//! A daemon without a data path: a state folder, transactions, the control server, and a data plane
//! that only records its calls.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cli::{Program, Terminal, run_client};
use config::store::Store;
use control::{ControlAddress, ControlServer, Plane, Snapshots, Transactions};
use history::{Clock, History};
use model::config::BackendSpec;
use model::data_plane::{
    ApplyError, ConnectionInfo, DataPlane, PortalStatus, SessionInfo, UnitStatus,
};
use model::hindrance::{Clearing, Hindrance};
use model::initiator::view::{InitiatorDevice, InitiatorSession};
use model::{Config, Error};

/// Time at which the clock of the history of figures stands.
pub(crate) const NOW_S: u64 = 1_790_000_460;

#[derive(Default)]
pub(crate) struct FakeDataPlane {
    config: Mutex<Arc<Config>>,
    pub(crate) sessions: Mutex<Vec<SessionInfo>>,
    /// Logical unit whose presence makes the data plane refuse a configuration.
    pub(crate) refuses: Mutex<Option<String>>,
    /// Number of times that the data plane was asked for its units.
    pub(crate) questions: AtomicUsize,
    /// Function to call in the middle of the next change.
    pub(crate) during_a_change: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl DataPlane for FakeDataPlane {
    fn try_again(&self) {}

    fn apply(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        let during = self.during_a_change.lock().unwrap().take();
        if let Some(during) = during {
            during();
        }
        if let Some(name) = self
            .refuses
            .lock()
            .unwrap()
            .as_ref()
            .filter(|name| config.unit(name).is_some())
        {
            return Err(ApplyError {
                object: format!("lu {name}"),
                message: "the disk is on fire".into(),
                next: "put it out".into(),
            });
        }
        *self.config.lock().unwrap() = config;
        Ok(())
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        self.sessions.lock().unwrap().clone()
    }

    fn kill_session(&self, tsih: u16) -> bool {
        let mut sessions = self.sessions.lock().unwrap();
        let before = sessions.len();
        sessions.retain(|session| session.tsih != tsih);
        sessions.len() < before
    }

    fn ask_to_log_out(&self, tsih: u16, _: u16) -> bool {
        self.kill_session(tsih)
    }

    fn units(&self) -> Vec<UnitStatus> {
        self.questions.fetch_add(1, Ordering::SeqCst);
        let config = self.config.lock().unwrap().clone();
        let size = |backend: &BackendSpec| backend.size().unwrap_or(1 << 40);
        let status = |unit: &model::config::UnitSpec| UnitStatus {
            name: unit.name.clone(),
            online: !unit.offline,
            size: size(&unit.backend),
            allocated: Some(size(&unit.backend) / 8),
            write_cache: unit.write_cache,
            ..UnitStatus::default()
        };
        config.units.iter().map(status).collect()
    }

    fn clear(&self, _: &str, _: Clearing) -> Result<Vec<Hindrance>, Error> {
        Ok(Vec::new())
    }

    fn portals(&self) -> Vec<PortalStatus> {
        let config = self.config.lock().unwrap().clone();
        let mut portals = Vec::new();
        for target in &config.targets {
            for group in &target.portal_groups {
                for &address in &group.portals {
                    portals.push(PortalStatus {
                        address,
                        target: target.iqn.clone(),
                        tag: group.tag,
                        error: None,
                    });
                }
            }
        }
        portals
    }

    fn initiator_sessions(&self) -> Vec<InitiatorSession> {
        Vec::new()
    }

    fn initiator_devices(&self) -> Vec<InitiatorDevice> {
        Vec::new()
    }

    fn initiator_rescan(&self, iqn: Option<&str>) -> bool {
        let config = self.config.lock().unwrap().clone();
        iqn.is_none_or(|iqn| config.initiator.target(iqn).is_some())
    }

    fn physical_block_size(&self, _: &BackendSpec) -> Option<u32> {
        None
    }

    fn shutdown(&self) {}
}

pub(crate) struct Daemon {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) data_plane: Arc<FakeDataPlane>,
    servers: Vec<ControlServer>,
}

/// Result of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        let mut daemon = Self {
            folder: tempfile::tempdir().unwrap(),
            data_plane: Arc::default(),
            servers: Vec::new(),
        };
        daemon.restart();
        daemon
    }

    /// Returns a daemon with a logical unit, a target, a host and a map.
    pub(crate) fn with_one_of_each() -> Self {
        let daemon = Self::start();
        for line in [
            "lu create vol1 --file --size 10G",
            "target create iqn.2024-08.internal.sandstone:one",
            "host create esx --initiator iqn.1998-01.com.vmware:*",
            "map add vol1 --host esx",
        ] {
            let ran = daemon.run(line);
            assert_eq!(ran.code, 0, "{line}: {ran:?}");
        }
        daemon
    }

    pub(crate) fn stop(&mut self) {
        self.servers.clear();
    }

    pub(crate) fn restart(&mut self) {
        self.servers.clear();
        let (store, config) = Store::open(self.folder.path()).unwrap();
        let config = Arc::new(config);
        self.data_plane.apply(Arc::clone(&config)).unwrap();
        let data_plane: Arc<dyn DataPlane> = Arc::clone(&self.data_plane) as _;
        let own_uid = rustix::process::geteuid().as_raw();
        let plane = Plane {
            access: Arc::new(access::Access::open(
                self.folder.path(),
                own_uid,
                store.secret_key(),
            )),
            snapshots: Snapshots::start(Arc::clone(&data_plane)).unwrap(),
            history: History::new(self.folder.path(), Clock::of(|| NOW_S)),
            default_portals: Vec::new(),
            transactions: Transactions::new(store, config, data_plane),
            pools: pools::Pools::none(self.folder.path()),
            state_folder: self.folder.path().to_owned(),
            since: Instant::now(),
            console: Default::default(),
            readings: Default::default(),
            journal: Arc::new(alert::Journal::start(self.folder.path()).unwrap()),
            alerts: alert::Alerts::start(self.folder.path(), Default::default()).unwrap(),
            benchmarks: benchmarks::Benchmarks::open(
                self.folder.path(),
                Default::default(),
                |_| None,
            ),
            making: Default::default(),
            disk_health: Default::default(),
        };
        let plane = Arc::new(plane);
        let socket = ControlAddress::Unix(self.folder.path().join("control.sock"));
        let tcp = ControlAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let servers = [socket, tcp].map(|at| ControlServer::start(at, Arc::clone(&plane)).unwrap());
        self.servers = servers.into();
    }

    /// Returns the loopback address at which the daemon also listens.
    pub(crate) fn tcp(&self) -> String {
        self.servers.last().unwrap().address().to_string()
    }

    /// Adds a session of an initiator with this name.
    pub(crate) fn log_in(&self, tsih: u16, initiator: &str, target: &str) {
        self.data_plane.sessions.lock().unwrap().push(SessionInfo {
            tsih,
            initiator: initiator.into(),
            isid: "00023d000001".into(),
            target: Some(target.into()),
            portal_group: 1,
            connections: vec![ConnectionInfo {
                cid: 0,
                local: "10.0.0.1:3260".parse().unwrap(),
                peer: "10.0.0.7:49152".parse().unwrap(),
                header_digest: true,
                data_digest: false,
            }],
            luns: vec![0],
            read_bytes: 3 << 30,
            written_bytes: 5 << 20,
            age_s: 4000,
            ..SessionInfo::default()
        });
    }

    /// Runs a command line without anybody to ask.
    pub(crate) fn run(&self, line: &str) -> Ran {
        run(
            self.folder.path(),
            &line.split_whitespace().collect::<Vec<_>>(),
            None,
        )
    }

    /// Runs a command line at a terminal of a given width.
    pub(crate) fn run_at(&self, width: usize, line: &str) -> Ran {
        let words: Vec<&str> = line.split_whitespace().collect();
        run_at(Some(width), self.folder.path(), &words, None)
    }

    /// Runs a command line whose every question gets this answer.
    pub(crate) fn run_answering(&self, line: &str, answer: &str) -> Ran {
        run(
            self.folder.path(),
            &line.split_whitespace().collect::<Vec<_>>(),
            Some(answer),
        )
    }
}

/// Runs a command line against the daemon of a state folder. Its output goes to a file.
pub(crate) fn run(state: &Path, words: &[&str], answer: Option<&str>) -> Ran {
    run_at(None, state, words, answer)
}

/// Program of these tests: a daemon of its own, which runs in the test, and its clients.
pub(crate) const PROGRAM: Program = Program {
    pool_members: pools::members,
    ..Program::of_clients()
};

/// Runs a command whose output goes to a terminal of a given width.
fn run_at(width: Option<usize>, state: &Path, words: &[&str], answer: Option<&str>) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = ["sandstone", "--state", state.to_str().unwrap()]
        .into_iter()
        .chain(words.iter().copied());
    let mut ask = |_: &str| Ok(answer.unwrap_or_default().to_owned());
    let code = run_client(
        &PROGRAM,
        args.map(OsString::from).collect::<Vec<_>>(),
        Terminal {
            out: &mut out,
            err: &mut err,
            ask: if answer.is_some() {
                Some(&mut ask)
            } else {
                None
            },
            width,
        },
    );
    Ran {
        code,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

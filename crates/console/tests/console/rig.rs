//! A console on a loopback port, over a data plane that only shows what a test puts into it; and a
//! browser that sends what the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use block::BlockDevice;
use block::memory::MemoryDevice;
use config::change::{AddMap, Change, CreateHost, CreateTarget, CreateUnit};
use config::store::Store;
use control::answer::ConsoleStatus;
use control::endpoint::tls::{TlsSource, TlsView};
use control::transaction::Commit;
use control::{Author, ConsoleCertificate, Plane, Snapshots, Transactions};
use model::Error;
use model::access::{AddToken, Role};
use model::config::{AluaMode, BackendSpec, Config, TargetParameters};
use model::data_plane::{
    ApplyError, ConnectionInfo, DataPlane, PortalStatus, SessionInfo, UnitStatus,
};
use model::figures::{CommandsRead, Figures, KindTotals, LunFigures, SessionFigures, UnitFigures};
use model::hindrance::{Clearing, Hindrance};
use model::initiator::view::{InitiatorDevice, InitiatorSession};
use tokio::sync::oneshot;

/// Longest time that a test waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Data plane that shows units of the configuration, and sessions of the test.
#[derive(Default)]
pub(crate) struct Shown {
    config: Mutex<Arc<Config>>,
    pub(crate) sessions: Mutex<Vec<SessionInfo>>,
    /// READ commands that each unit has had.
    pub(crate) reads: Mutex<u64>,
}

impl DataPlane for Shown {
    fn apply(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        *self.config.lock().unwrap() = config;
        Ok(())
    }

    fn try_again(&self) {}

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
        let config = self.config.lock().unwrap().clone();
        let status = |unit: &model::config::UnitSpec| UnitStatus {
            name: unit.name.clone(),
            online: !unit.offline,
            size: unit.backend.size().unwrap_or(1 << 30),
            ..UnitStatus::default()
        };
        config.units.iter().map(status).collect()
    }

    fn figures(&self, _: &CommandsRead) -> Figures {
        let commands = *self.reads.lock().unwrap();
        let reads = KindTotals {
            commands,
            bytes: commands * 4096,
            stages_ns: [0, 0, commands * 1000, 0],
        };
        let totals = [reads, KindTotals::default(), KindTotals::default()];
        let config = self.config.lock().unwrap().clone();
        let units = config.units.iter().map(|unit| UnitFigures {
            name: unit.name.clone(),
            number: 1,
            totals,
            latency: None,
            ..UnitFigures::default()
        });
        let sessions = self.sessions().into_iter().map(|session| SessionFigures {
            tsih: session.tsih,
            number: session.tsih.into(),
            initiator: session.initiator,
            target: session.target.unwrap_or_default(),
            portal_group: 1,
            totals,
            luns: config
                .units
                .first()
                .map(|unit| LunFigures {
                    lun: 0,
                    unit: unit.name.clone(),
                    totals,
                    ..LunFigures::default()
                })
                .into_iter()
                .collect(),
            ..SessionFigures::default()
        });
        Figures {
            units: units.collect(),
            sessions: sessions.collect(),
            port_groups: Vec::new(),
            devices: None,
        }
    }

    fn clear(&self, _: &str, _: Clearing) -> Result<Vec<Hindrance>, Error> {
        Ok(Vec::new())
    }

    fn portals(&self) -> Vec<PortalStatus> {
        Vec::new()
    }

    fn initiator_sessions(&self) -> Vec<InitiatorSession> {
        Vec::new()
    }

    fn initiator_devices(&self) -> Vec<InitiatorDevice> {
        Vec::new()
    }

    fn initiator_rescan(&self, _: Option<&str>) -> bool {
        true
    }

    fn physical_block_size(&self, _: &BackendSpec) -> Option<u32> {
        None
    }

    fn shutdown(&self) {}
}

/// Author of a request.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    Nobody,
    Token(String),
    Cookie(String),
}

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (of, value) = line.split_once(": ")?;
            of.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns the secret of the login that the answer sets.
    pub(crate) fn login(&self) -> String {
        let start = format!("{}=", control::COOKIE_NAME);
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let cookie = lines
            .find_map(|(_, value)| value.strip_prefix(&start))
            .expect("a cookie");
        cookie.split(';').next().expect("a value").to_owned()
    }
}

/// Returns a function that opens units as memory: each name the same memory, whenever it is asked.
fn memory() -> impl Fn(&str) -> Option<Arc<dyn BlockDevice>> + Send + Sync + 'static {
    let device = MemoryDevice::new(1 << 20, 512, 1 << 20).expect("memory");
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    move |_| Some(Arc::clone(&device))
}

/// Console that is served.
pub(crate) struct Site {
    _folder: tempfile::TempDir,
    pub(crate) shown: Arc<Shown>,
    pub(crate) plane: Arc<Plane>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

fn console_status() -> ConsoleStatus {
    let TlsView {
        url,
        fingerprint,
        names,
        ends,
        trouble,
        ..
    } = Certificate.view();
    ConsoleStatus {
        url,
        fingerprint,
        names,
        ends,
        is_own: true,
        first_login: None,
        trouble,
    }
}

/// Certificate of a console that the tests reach without TLS.
struct Certificate;

impl ConsoleCertificate for Certificate {
    fn view(&self) -> TlsView {
        TlsView {
            url: "https://san1:8443".into(),
            fingerprint: "00:11".into(),
            names: vec!["san1".into()],
            ends: 2_000_000_000,
            source: TlsSource::Own,
            trouble: None,
            pem: "-----BEGIN CERTIFICATE-----".into(),
        }
    }

    fn give(&self, _: &str, key: &str) -> Result<TlsView, Error> {
        match key.is_empty() {
            true => Err(Error::invalid("the key cannot be used", "give another one")),
            false => Ok(self.view()),
        }
    }

    fn make(&self) -> Result<TlsView, Error> {
        Ok(self.view())
    }

    fn reload(&self) -> Result<TlsView, Error> {
        Ok(self.view())
    }
}

impl Site {
    /// Serves a console of a daemon with one unit, target, host and map. Its first start is past.
    pub(crate) fn with_one_of_each() -> Self {
        let site = Self::empty();
        site.plane.access.demo_link().expect("a link");
        site.plane.console.set(console_status, Certificate);
        site.change(Change::CreateTarget(CreateTarget {
            iqn: "iqn.2026-01.io.sandstone:one".into(),
            alias: String::new(),
            portals: vec!["127.0.0.1:3260".parse().unwrap()],
            alua: AluaMode::default(),
            parameters: TargetParameters::default(),
        }));
        site.add_unit("db");
        site.change(Change::CreateHost(CreateHost {
            name: "esx".into(),
            initiators: vec!["iqn.1998-01.com.vmware:*".into()],
            except: Vec::new(),
            chap: None,
        }));
        site.change(Change::AddMap(AddMap {
            unit: "db".into(),
            host: Some("esx".into()),
            target: None,
            lun: Some(0),
            read_only: false,
        }));
        site
    }

    /// Serves a console of a daemon that was just installed.
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (store, config) = Store::open(folder.path()).unwrap();
        let shown: Arc<Shown> = Arc::default();
        let config = Arc::new(config);
        shown.apply(Arc::clone(&config)).unwrap();
        let data_plane: Arc<dyn DataPlane> = Arc::clone(&shown) as _;
        let plane = Arc::new(Plane {
            access: Arc::new(access::Access::open(folder.path(), 0, store.secret_key())),
            snapshots: Snapshots::start(Arc::clone(&data_plane)).unwrap(),
            transactions: Transactions::new(store, config, data_plane),
            pools: pools::Pools::none(folder.path()),
            state_folder: folder.path().to_owned(),
            default_portals: Vec::new(),
            since: Instant::now(),
            console: Default::default(),
            history: history::History::new(folder.path(), history::Clock::system()),
            readings: Default::default(),
            journal: Arc::new(alert::Journal::start(folder.path()).unwrap()),
            alerts: alert::Alerts::start(folder.path(), Default::default()).unwrap(),
            benchmarks: benchmarks::Benchmarks::open(folder.path(), Default::default(), memory()),
            making: Default::default(),
            disk_health: Default::default(),
        });
        let door = Arc::new(control::handlers::door(Arc::clone(&plane)));
        let router = console::with_api(door, control::handlers::router(Arc::clone(&plane)));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = axum::serve(listener, router).into_future() => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self {
            _folder: folder,
            shown,
            plane,
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn change(&self, change: Change) {
        let commit = || self.plane.transactions.commit(&change, &Commit::default());
        Arc::new(Author::daemon("test"))
            .works(commit)
            .expect("a change");
    }

    /// Adds a unit in memory.
    pub(crate) fn add_unit(&self, name: &str) {
        self.change(Change::CreateUnit(CreateUnit {
            name: name.into(),
            backend: BackendSpec::memory(1 << 20),
            block_size: 512,
            physical_block_size: None,
            new_volume: None,
            write_cache: false,
            read_only: false,
            thin: None,
            threshold_percent: None,
            naa: None,
            serial: None,
        }));
    }

    /// Adds a session of an initiator.
    pub(crate) fn add_session(&self, tsih: u16, initiator: &str) {
        self.shown.sessions.lock().unwrap().push(SessionInfo {
            tsih,
            initiator: initiator.into(),
            alias: Some(initiator.into()),
            target: Some("iqn.2026-01.io.sandstone:one".into()),
            portal_group: 1,
            connections: vec![ConnectionInfo {
                cid: 0,
                local: "10.0.0.1:3260".parse().unwrap(),
                peer: "10.0.0.7:49152".parse().unwrap(),
                header_digest: false,
                data_digest: false,
            }],
            luns: vec![0],
            ..SessionInfo::default()
        });
    }

    /// Returns a token with a role.
    pub(crate) fn token(&self, role: Role) -> Who {
        let name = format!("t-{role}");
        let _ = self.plane.access.remove_token(&name);
        let request = AddToken {
            name,
            role,
            grant: None,
            days: None,
        };
        let token = self
            .plane
            .access
            .add_token(&request, "test")
            .expect("a token");
        Who::Token(token.token)
    }

    /// Asks for a page.
    pub(crate) fn get(&self, path: &str, who: &Who) -> Reply {
        self.send("GET", path, who, &[("accept", "text/html")], "")
    }

    /// Sends a form from a page of the console.
    pub(crate) fn post(&self, path: &str, who: &Who, form: &str) -> Reply {
        self.send(
            "POST",
            path,
            who,
            &[("sec-fetch-site", "same-origin")],
            form,
        )
    }

    /// Sends a request.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        who: &Who,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut stream = self.open(method, path, who, headers, body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|it| it.parse().ok())
            .expect("a status");
        Reply {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn open(
        &self,
        method: &str,
        path: &str,
        who: &Who,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut head = format!("{method} {path} HTTP/1.0\r\nhost: localhost\r\n");
        match who {
            Who::Nobody => {}
            Who::Token(token) => head += &format!("authorization: Bearer {token}\r\n"),
            Who::Cookie(secret) => {
                head += &format!("cookie: {}={secret}\r\n", control::COOKIE_NAME)
            }
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if method == "POST" {
            head += "content-type: application/x-www-form-urlencoded\r\n";
        }
        head += &format!("content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).expect("a request");
        stream
    }

    /// Opens a stream of live figures.
    pub(crate) fn watch(&self, query: &str, who: &Who) -> Stream {
        let stream = self.open("GET", &format!("/v1/live?{query}"), who, &[], "");
        let mut stream = Stream {
            reader: BufReader::new(stream),
            status: 0,
        };
        let first = stream.line().expect("a status");
        stream.status = first
            .split(' ')
            .nth(1)
            .and_then(|it| it.parse().ok())
            .expect("a status");
        while stream.line().is_some_and(|line| !line.is_empty()) {}
        stream
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Stream of live figures.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
}

impl Stream {
    /// Returns the next line; `None` at the end.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
            Err(error) => panic!("the stream does not go on: {error}"),
        }
    }

    /// Returns the data of the next event of a name; `None` if the stream ends before.
    pub(crate) fn event(&mut self, name: &str) -> Option<String> {
        let wanted = format!("event: {name}");
        loop {
            if self.line()? == wanted {
                let data = self.line()?;
                return Some(data.trim_start_matches("data: ").to_owned());
            }
        }
    }

    /// Reads to the end of the stream.
    pub(crate) fn ends(&mut self) {
        while self.line().is_some() {}
    }
}

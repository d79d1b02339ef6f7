//! The product's target in a simulated world: its event loops turn at times that the seed chooses,
//! on sockets whose other ends the world has, over disks that answer when the world says so.
//!
//! The loops lag behind each other by random times. So messages between them (aborts, fences,
//! waits, ends of sessions) meet the traffic of the other loops at any point.

mod restart;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, clock};
use iscsi::negotiation::{DigestPolicy, Limits};
use iscsi::serial_number::at_or_before;
use model::backend::BackendSpec;
use model::config::{
    AluaMode, AluaState, Config, MapSpec, PortalGroupSpec, TargetParameters, TargetSpec, UnitSpec,
};
use model::event::Teller;
use target::DaemonLimits;
use target::simulation::{Change, Stage, Units};

use crate::cable::Cables;
use crate::drive::{BLOCK, Drive, Journal, News, Temper};
use crate::network::ConnectionId;
use crate::pool::PoolSetup;
use crate::random::Random;
use crate::vault::Vault;

/// The only target.
pub const TARGET: &str = "iqn.2026-01.org.example:simulated";
/// Silence after which an initiator is pinged.
pub const PING_AFTER: Duration = Duration::from_secs(15);
/// Longest time that a ping may stay unanswered.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that a login may take.
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time without progress of data that is owed, while memory is short.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of immediate commands that find room beside a full window.
const BESIDE_WINDOW: usize = 8;

/// Shape of a target.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of event loops.
    pub loops: usize,
    /// Number of portals. Each is a portal group, and a target port group, of its own.
    pub portals: usize,
    /// Limits of the target.
    pub parameters: TargetParameters,
    /// Bytes that may be in flight.
    pub memory: u64,
    /// Most sessions.
    pub max_sessions: usize,
    /// Units, by LUN: blocks, and the habits of the disk.
    pub units: Vec<(u64, Temper)>,
    /// Pool in which the units' data lies, instead of on disks of their own.
    pub pool: Option<PoolSetup>,
    /// Whether units have a write cache.
    pub write_cache: bool,
    /// Bytes that the kernel keeps of what the target sends.
    pub send_buffer: usize,
    /// Longest time, in microseconds, by which a loop lags.
    pub lag_us: u64,
    /// Readings of a thousand that come late, so that a socket may fill.
    pub congestion_per_mille: u64,
}

/// Event of the target that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// A loop turns.
    Turn(usize),
    /// A disk answers a request.
    Answer(usize, u64),
    /// The pool has something due.
    Pool,
    /// The network takes what a connection has to send.
    Collect(ConnectionId),
}

/// Action of the target on the world.
#[derive(Debug)]
pub enum Action {
    /// The target sends these bytes.
    Send(ConnectionId, Vec<u8>),
    /// The target has closed the connection, behind the bytes that were sent before.
    Close(ConnectionId),
    /// A disk tells its news.
    Disk(usize, News),
    /// An event is to come: [`Served::happen`].
    At(Duration, Later),
    /// A change of the configuration has ended. `Ok` tells whether the disks of units that left
    /// service were quiet.
    Changed(Result<bool, String>),
}

/// The target.
#[derive(Debug)]
pub struct Served {
    stage: Stage,
    cables: Cables,
    /// Disks, by LUN.
    pub drives: Vec<Arc<Drive>>,
    /// Store in which their data lies, if not on these.
    vault: Option<Vault>,
    /// Time at which the store was last to go on.
    vault_wake: Option<Duration>,
    journal: Journal,
    shape: Shape,
    /// Configuration that is wanted, and its units.
    config: Config,
    units: Units,
    /// Configuration of the last change that succeeded, and its units.
    in_force: (Config, Units),
    change: Option<Change>,
    start: Instant,
    /// Whether a turn of each loop is to come.
    stirred: Vec<bool>,
    congested: Vec<ConnectionId>,
    actions: Vec<Action>,
    random: Random,
    states: tempfile::TempDir,
    units_made: u64,
    /// Last ExpCmdSN and MaxCmdSN of each session, by loop and number.
    windows: BTreeMap<(usize, u64), (u32, u32)>,
}

impl Served {
    /// Makes a target that serves all its units to everybody.
    ///
    /// # Panics
    /// The kernel refuses a poller.
    pub fn new(shape: Shape, mut random: Random) -> Self {
        let start = Instant::now();
        clock::set(Some(start));
        let stage = Stage::new(shape.loops, limits(&shape), Teller::default()).expect("a poller");
        let journal = Journal::default();
        let units = shape.units.iter().enumerate();
        let drives = units.map(|(lun, (blocks, temper))| {
            Drive::new((lun, &journal), *blocks, *temper, random.fork())
        });
        let drives: Vec<Arc<Drive>> = drives.collect();
        let sizes: Vec<u64> = shape.units.iter().map(|(blocks, _)| *blocks).collect();
        let vault = shape.pool.clone();
        let vault = vault.map(|setup| Vault::new(setup, &sizes, random.fork()));
        let mut served = Self {
            stage,
            vault,
            vault_wake: None,
            cables: Cables::default(),
            config: config(&shape),
            units: Units::new(),
            in_force: (Config::default(), Units::new()),
            change: None,
            start,
            stirred: vec![false; shape.loops],
            congested: Vec::new(),
            actions: Vec::new(),
            random,
            states: tempfile::tempdir().expect("a folder"),
            units_made: 0,
            windows: BTreeMap::new(),
            drives,
            journal,
            shape,
        };
        (0..served.drives.len()).for_each(|lun| served.add_unit(lun));
        served.begin_change();
        served
    }

    fn add_unit(&mut self, lun: usize) {
        self.units_made += 1;
        let spec = UnitSpec {
            name: unit_name(lun),
            naa: format!("6e00000000000001{:016x}", self.units_made),
            serial: self.units_made.to_string(),
            backend: BackendSpec::memory(self.shape.units[lun].0 * BLOCK as u64),
            block_size: BLOCK as u32,
            physical_block_size: BLOCK as u32,
            write_cache: self.shape.write_cache,
            read_only: false,
            thin: true,
            threshold_percent: None,
            offline: false,
        };
        let states: &Path = self.states.path();
        let unit = self.stage.open(&spec, self.device(lun), states);
        let unit = unit.expect("a new unit");
        self.units.insert(spec.name.clone(), unit);
        self.config.units.push(spec);
    }

    /// Returns the device of a unit.
    fn device(&self, lun: usize) -> Arc<dyn BlockDevice> {
        match &self.vault {
            Some(vault) => vault.volume(lun),
            None => Arc::clone(&self.drives[lun]) as Arc<dyn BlockDevice>,
        }
    }

    /// Lets the store go on, as far as it can.
    fn step_vault(&mut self, now: Duration) {
        let Some(vault) = &mut self.vault else {
            return;
        };
        let (has_answered, next) = vault.step(now);
        if has_answered {
            self.stir(now);
        }
        if let Some(at) = next
            && self.vault_wake.is_none_or(|wake| at < wake)
        {
            self.vault_wake = Some(at);
            self.actions.push(Action::At(at, Later::Pool));
        }
    }

    fn begin_change(&mut self) {
        assert!(self.change.is_none(), "one change at a time");
        let (config, units) = (self.config.clone(), self.units.clone());
        match self.stage.change(config, units) {
            Ok(change) => self.change = Some(change),
            Err(error) => self.refused(error.to_string()),
        }
        self.go_on_with_change();
    }

    fn refused(&mut self, error: String) {
        (self.config, self.units) = self.in_force.clone();
        self.actions.push(Action::Changed(Err(error)));
    }

    fn go_on_with_change(&mut self) {
        let Some(mut change) = self.change.take() else {
            return;
        };
        match self.stage.go_on(&mut change) {
            None => self.change = Some(change),
            Some(Ok(())) => {
                self.in_force = (self.config.clone(), self.units.clone());
                self.actions.push(Action::Changed(Ok(change.is_quiet())));
            }
            Some(Err(error)) => self.refused(error.to_string()),
        }
    }

    /// Reports whether a change of the configuration is under way.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Sets the access state of a portal's target port group. [`Action::Changed`] tells the end.
    pub fn set_access(&mut self, portal: usize, state: AluaState, now: Duration) {
        self.set_time(now);
        self.config.targets[0].portal_groups[portal].alua_state = state;
        self.begin_change();
        self.stir(now);
    }

    /// Takes the unit of a LUN out of service. [`Action::Changed`] tells the end.
    pub fn delete(&mut self, lun: usize, now: Duration) {
        self.set_time(now);
        let name = unit_name(lun);
        self.units.remove(&name);
        self.config.units.retain(|unit| unit.name != name);
        self.config.maps.retain(|map| map.unit != name);
        self.begin_change();
        self.stir(now);
    }

    /// Makes a new unit for a LUN, on the disk that the deleted one had.
    pub fn create(&mut self, lun: usize, now: Duration) {
        self.set_time(now);
        self.add_unit(lun);
        self.config.maps.push(map(lun));
        self.begin_change();
        self.stir(now);
    }

    /// Ends the session with this handle, as an administrator does.
    pub fn dismiss(&mut self, tsih: u16, now: Duration) {
        self.set_time(now);
        self.stage.dismiss(tsih);
        self.stir(now);
    }

    /// Returns the handles of all sessions.
    pub fn sessions(&self) -> Vec<u16> {
        self.stage.sessions()
    }

    /// Reports whether nobody is connected and nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.stage.is_at_rest() && self.drives.iter().all(|drive| drive.waiting() == 0)
    }

    /// Reports whether the target has not let go of this connection.
    pub fn serves(&self, id: ConnectionId) -> bool {
        self.cables.is_plugged(id)
    }

    /// Accepts a new connection at a portal.
    ///
    /// # Panics
    /// The kernel refuses sockets.
    pub fn accept(&mut self, id: ConnectionId, portal: usize, now: Duration) {
        self.set_time(now);
        let socket = self.cables.plug(id, self.shape.send_buffer);
        let peer = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 1024 + id.0 as u16));
        let socket = socket.expect("sockets");
        self.stage.accept(socket, peer, portal_address(portal));
        self.stir(now);
    }

    /// Takes bytes that arrived.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Duration) {
        self.set_time(now);
        self.cables.put(id, bytes);
        self.stir(now);
    }

    /// Notes that the other end closed the connection, or that it was cut.
    pub fn closed(&mut self, id: ConnectionId, now: Duration) {
        self.set_time(now);
        self.cables.close(id);
        self.stir(now);
    }

    /// Notes that a second has passed.
    pub fn tick(&mut self, now: Duration) {
        self.set_time(now);
        self.go_on_with_change();
        self.stir(now);
    }

    /// Lets happen what [`Action::At`] announced.
    ///
    /// # Panics
    /// The kernel refuses to poll.
    pub fn happen(&mut self, event: Later, now: Duration) {
        self.set_time(now);
        match event {
            Later::Answer(drive, number) => {
                self.drives[drive].answer(number);
                self.stir(now);
            }
            Later::Turn(index) => {
                self.stirred[index] = false;
                if self.stage.turn(index).expect("a poller") {
                    self.stir(now);
                }
                self.judge_windows(index);
                self.go_on_with_change();
            }
            Later::Pool => self.vault_wake = None,
            Later::Collect(id) => {
                self.congested.retain(|other| *other != id);
                self.stir(now);
            }
        }
    }

    /// Judges the command windows of a loop's sessions (RFC 7143, section 4.2.2.1): they never go
    /// back, and the target takes no more commands than they allow.
    fn judge_windows(&mut self, index: usize) {
        for window in self.stage.command_windows(index) {
            assert!(
                window.in_flight <= window.queue_depth + BESIDE_WINDOW,
                "more commands than the window allows: {window:?}"
            );
            let now = (window.exp_cmd_sn, window.max_cmd_sn);
            let before = self.windows.insert((index, window.session), now);
            let (exp_cmd_sn, max_cmd_sn) = before.unwrap_or(now);
            assert!(
                at_or_before(exp_cmd_sn, now.0) && at_or_before(max_cmd_sn, now.1),
                "the window went back from {before:?}: {window:?}"
            );
        }
    }

    /// Takes the actions that are due.
    pub fn take_actions(&mut self, now: Duration) -> Vec<Action> {
        self.step_vault(now);
        // Requests reached the disks before the other side hears of the ends of commands.
        let news = self.journal.take().into_iter();
        self.actions
            .extend(news.map(|(lun, news)| Action::Disk(lun, news)));
        self.collect(now);
        for (lun, drive) in self.drives.iter().enumerate() {
            for (delay, number) in drive.take_due() {
                let later = Later::Answer(lun, number);
                self.actions.push(Action::At(now + delay, later));
            }
        }
        std::mem::take(&mut self.actions)
    }

    fn collect(&mut self, now: Duration) {
        self.cables.push();
        for id in self.cables.plugged() {
            if self.congested.contains(&id) {
                continue;
            }
            let sent = self.cables.take(id);
            if !sent.bytes.is_empty() {
                self.actions.push(Action::Send(id, sent.bytes));
                // A socket that was full may have room now.
                self.stir(now);
                if self.random.per_mille(self.shape.congestion_per_mille) {
                    self.congested.push(id);
                    let pause = Duration::from_millis(self.random.within(1..400));
                    self.actions
                        .push(Action::At(now + pause, Later::Collect(id)));
                }
            }
            if sent.is_closed {
                self.actions.push(Action::Close(id));
            }
        }
    }

    /// Lets every loop turn soon.
    fn stir(&mut self, now: Duration) {
        for index in 0..self.stirred.len() {
            if !std::mem::replace(&mut self.stirred[index], true) {
                let lag = self.random.within(1..self.shape.lag_us + 2);
                let at = now + Duration::from_micros(lag);
                self.actions.push(Action::At(at, Later::Turn(index)));
            }
        }
    }

    fn set_time(&self, now: Duration) {
        clock::set(Some(self.start + now));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        clock::set(None);
    }
}

fn limits(shape: &Shape) -> DaemonLimits {
    DaemonLimits {
        max_sessions: shape.max_sessions,
        max_logins: 1000,
        login_timeout: LOGIN_TIMEOUT,
        stall_timeout: STALL_TIMEOUT,
        memory: shape.memory,
    }
}

fn unit_name(lun: usize) -> String {
    format!("unit-{lun}")
}

fn map(lun: usize) -> MapSpec {
    MapSpec {
        unit: unit_name(lun),
        host: None,
        target: None,
        lun: lun as u16,
        read_only: false,
    }
}

/// Returns the address of a portal, counted from 0.
pub fn portal_address(portal: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 100 + portal as u8), 3260))
}

fn config(shape: &Shape) -> Config {
    let portal_groups = (0..shape.portals).map(|portal| PortalGroupSpec {
        tag: portal as u16 + 1,
        relative_port_id: portal as u16 + 1,
        target_port_group: portal as u16 + 1,
        portals: vec![portal_address(portal)],
        alua_state: AluaState::ActiveOptimized,
    });
    let target = TargetSpec {
        iqn: TARGET.to_owned(),
        alias: String::new(),
        portal_groups: portal_groups.collect(),
        alua: AluaMode::Both,
        redirect: None,
        mutual_chap: None,
        parameters: shape.parameters.clone(),
        offline: false,
    };
    Config {
        targets: vec![target],
        maps: (0..shape.units.len()).map(map).collect(),
        ..Config::default()
    }
}

/// Draws limits of a target that takes `depth` commands of each session.
pub fn target_limits(random: &mut Random, depth: u16, max_connections: u16) -> TargetParameters {
    let lengths = [512, 4096, 16 << 10, 256 << 10];
    TargetParameters {
        queue_depth: Some(depth),
        max_connections: Some(max_connections),
        max_sessions: None,
        max_outstanding_r2t: Some(random.within(1..6) as u16),
        first_burst_length: Some(random.one_of(&lengths)),
        max_burst_length: Some(random.one_of(&lengths)),
        max_recv_data_segment_length: Some(random.one_of(&lengths)),
        immediate_data: Some(random.per_mille(700)),
        initial_r2t: Some(random.per_mille(500)),
        nop_in_interval_s: Some(PING_AFTER.as_secs() as u32),
        require_header_digest: None,
        require_data_digest: None,
    }
}

/// Draws limits of an initiator.
pub fn initiator_limits(random: &mut Random, max_connections: u16) -> Limits {
    let lengths = [512, 4096, 16 << 10, 256 << 10];
    let digest = |random: &mut Random| random.one_of(&[DigestPolicy::Allow, DigestPolicy::Prefer]);
    Limits {
        max_connections,
        initial_r2t: random.per_mille(500),
        immediate_data: random.per_mille(700),
        max_burst_length: random.one_of(&lengths),
        first_burst_length: random.one_of(&lengths),
        max_outstanding_r2t: random.within(1..6) as u16,
        max_recv_data_segment_length: random.one_of(&lengths),
        header_digest: digest(random),
        data_digest: digest(random),
        ..Limits::default()
    }
}

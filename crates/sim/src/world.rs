//! The whole world: hosts with several paths, the network, the product's target over disks that
//! answer late, an administrator, faults, and the model that judges every answer.
//!
//! | part | file |
//! |---|---|
//! | climates: how often what happens | `climate.rs` |
//! | commands that hosts make | `jobs.rs` |
//! | hosts and their paths | `hosts.rs` |
//! | what ends mean to the model | `ends.rs` |
//! | what disks may do, and when | `landings.rs` |
//! | the administrator: access states, units, sessions | `administrator.rs` |

mod administrator;
mod climate;
mod ends;
mod hosts;
mod jobs;
mod landings;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::drive::{BLOCK, Temper};
use crate::initiator::Initiator;
use crate::network::{ConnectionId, End, Network, Weather};
use crate::random::Random;
use crate::schedule::Schedule;
use crate::served::{
    Action, LOGIN_TIMEOUT, Later, PING_AFTER, PING_TIMEOUT, Served, Shape, initiator_limits,
    target_limits,
};

use administrator::Administrator;
pub use climate::{Climate, Report};
use jobs::Meant;
use landings::Landings;

const TICK: Duration = Duration::from_secs(1);
/// Time that is longer than the longest command takes in the worst weather.
const HANGS: Duration = Duration::from_secs(900);
/// Number of hosts.
const HOSTS: usize = 3;
/// LUN of the unit whose content the model knows.
const OWN: u16 = 0;
/// LUN of the unit that hosts share: counters, and persistent reservations.
const SHARED: u16 = 1;
/// LUN of the unit that is deleted and made anew.
const SCRATCH: u16 = 2;
/// Blocks of the units, by LUN.
const BLOCKS: [u64; 3] = [1024, 128, 128];

#[derive(Debug)]
enum Event {
    Arrival(ConnectionId, End),
    Closed(ConnectionId, End),
    Target(Later),
    /// A port connects, or makes more commands.
    Wake(usize),
    Tick,
}

/// A host's way to the target.
#[derive(Debug)]
struct Port {
    host: usize,
    initiator: Initiator,
    /// Connection that the host closed, until the target has closed it too.
    parting: Option<ConnectionId>,
    /// Whether the target may have noticed that it ends the session.
    is_disturbed: bool,
    /// First command of the session to each unit.
    first_issued: BTreeMap<u16, u64>,
    /// Units whose answer to that was judged.
    first_answers: BTreeSet<u16>,
    /// Units that told this port of its nexus in an earlier session.
    known_to: BTreeSet<u16>,
}

struct World {
    climate: Climate,
    random: Random,
    schedule: Schedule<Event>,
    network: Network,
    target: Served,
    ports: Vec<Port>,
    owners: HashMap<ConnectionId, usize>,
    silenced: BTreeMap<ConnectionId, Duration>,
    cut: BTreeSet<ConnectionId>,
    /// Connections on which a host hears nothing.
    deaf: BTreeSet<ConnectionId>,
    model: Vec<u8>,
    busy: Vec<bool>,
    meant: BTreeMap<u64, Meant>,
    last_command: u64,
    /// Commands that wait for a better moment, and their ports.
    resting: Vec<(usize, u64)>,
    left: Vec<u64>,
    last_end: Duration,
    landings: Landings,
    administrator: Administrator,
    report: Report,
}

/// Runs the world of a seed to its end.
///
/// # Panics
/// A rule is broken.
pub fn run(seed: u64, climate: Climate) -> Report {
    let mut world = World::new(seed, climate);
    for port in 0..world.ports.len() {
        world.schedule.add(Duration::ZERO, Event::Wake(port));
    }
    world.schedule.add(TICK, Event::Tick);
    while !world.is_over() {
        let event = world.schedule.advance().expect("there is always a tick");
        world.report.note(world.schedule.now(), &event);
        world.happen(event);
        let idle = world.schedule.now() - world.last_end;
        assert!(
            idle < HANGS,
            "nothing has ended for {idle:?}; left are {:?}",
            world.meant.keys()
        );
    }
    let medium = world.target.drives[usize::from(OWN)].bytes(0, world.model.len());
    assert!(medium == world.model, "the disk is the model");
    world.report.time = world.schedule.now();
    world.report
}

impl World {
    fn new(seed: u64, climate: Climate) -> Self {
        let mut random = Random::new(seed);
        let (target_random, mut drawn) = (random.fork(), random.fork());
        let depth = drawn.one_of(&[1, 3, 8, 32]);
        let weather = Weather {
            max_delay: Duration::from_millis(drawn.one_of(&[0, 3, 40, 900])),
            max_piece: match climate.single_bytes {
                true => 1,
                false => drawn.one_of(&[60, 1500, 100_000]),
            },
        };
        let temper = Temper {
            usual_ms: drawn.one_of(&[0, 5, 200]),
            slow_per_mille: climate.slow_per_mille,
            slow_ms: drawn.one_of(&[2000, 20_000]),
            failures_per_mille: climate.failures_per_mille,
        };
        let mut parameters = target_limits(&mut drawn, depth, 1);
        if climate.hogs > 0 {
            // Data is sent when it is asked for, and takes memory until then.
            (parameters.initial_r2t, parameters.immediate_data) = (Some(true), Some(false));
            parameters.queue_depth = Some(32);
        }
        let shape = Shape {
            loops: 2,
            portals: climate.paths,
            parameters,
            memory: climate.memory,
            max_sessions: 16,
            units: BLOCKS.iter().map(|blocks| (*blocks, temper)).collect(),
            pool: None,
            write_cache: drawn.per_mille(500),
            send_buffer: drawn.one_of(&[4 << 10, 64 << 10]),
            lag_us: drawn.one_of(&[0, 50, 3000]),
            congestion_per_mille: drawn.one_of(&[0, 100]),
        };
        let target = Served::new(shape, target_random);
        let hosts = HOSTS + climate.hogs;
        let ports = (0..hosts * climate.paths).map(|number| {
            let (host, path) = (number / climate.paths, number % climate.paths);
            let limits = initiator_limits(&mut drawn, 1);
            Port {
                host,
                initiator: Initiator::new(host, path, limits, drawn.fork()),
                parting: None,
                is_disturbed: false,
                first_issued: BTreeMap::new(),
                first_answers: BTreeSet::new(),
                known_to: BTreeSet::new(),
            }
        });
        let ports: Vec<Port> = ports.collect();
        Self {
            climate,
            random,
            schedule: Schedule::default(),
            network: Network::new(weather),
            target,
            ports,
            owners: HashMap::new(),
            silenced: BTreeMap::new(),
            cut: BTreeSet::new(),
            deaf: BTreeSet::new(),
            model: vec![0; BLOCKS[usize::from(OWN)] as usize * BLOCK],
            busy: vec![false; BLOCKS[usize::from(OWN)] as usize],
            meant: BTreeMap::new(),
            last_command: 0,
            resting: Vec::new(),
            left: vec![climate.commands; hosts],
            last_end: Duration::ZERO,
            landings: Landings::default(),
            administrator: Administrator::default(),
            report: Report::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.ports.iter().all(|port| port.initiator.is_over()) && self.target.is_idle()
    }

    fn happen(&mut self, event: Event) {
        let now = self.schedule.now();
        match event {
            Event::Arrival(id, End::Target) => {
                let bytes = self.network.take(id, End::Target, now);
                self.target.receive(id, &bytes, now);
            }
            Event::Arrival(id, End::Initiator) => self.arrived(id),
            Event::Closed(id, End::Target) => self.target.closed(id, now),
            Event::Closed(id, End::Initiator) => self.lost(id),
            Event::Target(later) => self.target.happen(later, now),
            Event::Wake(port) => self.wake(port),
            Event::Tick => self.tick(),
        }
        self.carry_out();
    }

    fn send(&mut self, id: ConnectionId, to: End, bytes: &[u8]) {
        let now = self.schedule.now();
        self.report.note_bytes(bytes);
        for arrival in self.network.send(id, to, bytes, now, &mut self.random) {
            self.schedule.add(arrival, Event::Arrival(id, to));
        }
    }

    fn carry_out(&mut self) {
        for action in self.target.take_actions(self.schedule.now()) {
            match action {
                Action::Send(id, bytes) => self.send(id, End::Initiator, &bytes),
                Action::Close(id) => self.target_closed(id),
                Action::Disk(lun, news) => self.news(lun as u16, news),
                Action::At(at, later) => self.schedule.add(at, Event::Target(later)),
                Action::Changed(end) => self.changed(end),
            }
        }
    }

    /// Handles the end of a connection at the target.
    fn target_closed(&mut self, id: ConnectionId) {
        let port = self.owners[&id];
        let is_used = self.ports[port].initiator.connection() == Some(id);
        if self.network.is_silent(id) || self.deaf.contains(&id) {
            self.report.given_up += 1;
        } else if is_used && !self.ports[port].is_disturbed && !self.cut.contains(&id) {
            panic!("a slow peer was given up: {id:?}");
        }
        if self.ports[port].parting == Some(id) {
            self.parted(port);
        }
        // The close comes after the bytes that were sent before: the close of a socket loses
        // nothing.
        let at = self.network.last_arrival(id, End::Initiator);
        self.schedule.add(at, Event::Closed(id, End::Initiator));
    }

    fn faults(&mut self) {
        let port = self.random.within(0..self.ports.len() as u64) as usize;
        let cut = self.random.per_mille(self.climate.cuts_per_mille);
        let silence = self.random.per_mille(self.climate.silences_per_mille);
        let parting = self.random.per_mille(self.climate.partings_per_mille);
        let Some(id) = self.ports[port].initiator.connection() else {
            return;
        };
        let now = self.schedule.now();
        if cut {
            self.landings.disturb(port);
            self.network.cut(id);
            self.cut.insert(id);
            for end in [End::Initiator, End::Target] {
                let notice = now + Duration::from_millis(self.random.within(0..2000));
                self.schedule.add(notice, Event::Closed(id, end));
            }
        } else if silence {
            self.silence(port, id);
        } else if parting && self.ports[port].initiator.is_logged_in() {
            self.part(port, id);
            self.report.partings += 1;
        }
    }

    fn silence(&mut self, port: usize, id: ConnectionId) {
        if !self.network.is_silent(id) {
            self.landings.disturb(port);
            self.network.silence(id);
            self.silenced.insert(id, self.schedule.now());
        }
    }

    fn tick(&mut self) {
        let now = self.schedule.now();
        self.schedule.add(now + TICK, Event::Tick);
        self.target.tick(now);
        for (id, since) in &self.silenced {
            // Three ticks are added: both spans are checked once a second only, and the loops lag.
            let limit = LOGIN_TIMEOUT.max(PING_AFTER + PING_TIMEOUT) + 3 * TICK;
            assert!(
                !self.target.serves(*id) || now - *since <= limit,
                "{id:?} is silent since {since:?} and still served"
            );
        }
        for port in 0..self.ports.len() {
            self.tick_port(port);
        }
        self.administer();
    }
}

//! The world: hosts, network, target and clock, and everything that happens to them.

mod faults;
mod requests;
mod takeovers;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::time::{Duration, Instant};

use block::lane::Outcome;
use block::{Done, Pages, Request, clock};

use self::takeovers::Possession;
use super::climate::{Climate, Plan};
use super::host::{Host, Owner};
use super::ledger::{BLOCKS, Content, Ledger};
use super::wires::{Arrived, Pulled, Wires, within};
use crate::drive::{BLOCK, News};
use crate::network::{ConnectionId, End};
use crate::random::Random;
use crate::schedule::Schedule;
use crate::served::{Action, Later, Served};
use model::config::AluaState;

/// Blocks that belong to one host at a time.
const REGION: u64 = 6;
/// Number of regions.
const REGIONS: u64 = BLOCKS / REGION;
/// Interval at which the target is told that time passes.
const TICK: Duration = Duration::from_secs(1);
/// Time without an end of a request after which the storm is over: a host that finds no moment
/// between two faults rightly waits for ever.
const LONG: Duration = Duration::from_secs(30);
/// Time without an end of a request after which something hangs. No fault lasts half as long.
const HANGS: Duration = Duration::from_secs(300);

/// Counts of a world's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of worlds.
    pub worlds: u64,
    /// Requests that ended.
    pub requests: u64,
    /// Connections that hosts began to make.
    pub connections: u64,
    /// Logins of sessions, not counting those that only ended an old session.
    pub logins: u64,
    /// Faults.
    pub faults: u64,
    /// Regions that one host handed to another.
    pub handed_over: u64,
    /// Number of times that a host took the device.
    pub takeovers: u64,
    /// Simulated time.
    pub time: Duration,
    /// Digest of everything that happened, with its time.
    pub digest: u64,
}

#[derive(Debug)]
enum Event {
    /// A host's adapter has something due.
    Host(usize),
    /// The target has something due, in the life of this number.
    Target(u64, Later),
    /// A second has passed for the target.
    Tick,
    /// A host makes requests.
    Work(usize),
    /// A host's wish for a connection reaches the target.
    Dialed(ConnectionId),
    /// The target's answer to that reaches the host.
    Connected(ConnectionId),
    ToTarget(ConnectionId),
    ToHost(ConnectionId),
    /// The target hears that the host ended a connection.
    TargetTold(ConnectionId),
    /// The host hears that the target ended a connection.
    HostTold(ConnectionId),
    Fault,
    /// A host takes the device.
    TakeOver(usize),
    /// A portal's target port group serves I/O again.
    Access(usize),
    /// A host has a way to a portal again.
    Reachable(usize, usize),
}

/// Request under way, as the model sees it.
#[derive(Debug)]
enum Meant {
    Read { blocks: Range<u64>, since: u64 },
    Write(u64),
    Flush,
}

#[derive(Debug)]
struct Asked {
    host: usize,
    region: usize,
    meant: Meant,
    /// Whether the region goes to another host when this ends.
    hands_over: bool,
    /// Whether another host has taken the device since.
    is_over: bool,
}

#[derive(Debug)]
struct Region {
    owner: usize,
    under_way: u32,
    /// Host that is to have the region next.
    heir: Option<usize>,
}

struct World {
    climate: Climate,
    plan: Plan,
    random: Random,
    schedule: Schedule<Event>,
    start: Instant,
    hosts: Vec<Host>,
    /// Time of each host's next step, as scheduled.
    wakes: Vec<Option<Duration>>,
    served: Served,
    /// Number of the life of the target's process.
    life: u64,
    /// Access states that wait for the end of another change, by portal.
    wanted: BTreeMap<usize, AluaState>,
    wires: Wires,
    /// Time at which each path carries bytes again.
    open_at: Vec<Duration>,
    /// Time at which the target runs again; it is stopped until then.
    runs_at: Duration,
    /// Time at which the target can be reached again after its end.
    is_back_at: Duration,
    ledger: Ledger,
    regions: Vec<Region>,
    possession: Possession,
    /// Host that owns the data by other proof.
    owner: Owner,
    /// Host of each write, by its number.
    writers: BTreeMap<u64, usize>,
    asked: BTreeMap<u64, Asked>,
    last_token: u64,
    left: Vec<u64>,
    under_way: Vec<usize>,
    /// Whether each host waits for the end of a request before it makes the next.
    is_full: Vec<bool>,
    last_end: Duration,
    digest: DefaultHasher,
    report: Report,
    tells: bool,
}

/// Runs the world of a seed to its end.
///
/// # Panics
/// A rule is broken.
pub fn run(seed: u64, climate: Climate) -> Report {
    World::new(seed, climate, false).live()
}

/// Runs the world of a seed, and prints what happens.
///
/// # Panics
/// A rule is broken.
pub fn trace(seed: u64, climate: Climate) -> Report {
    World::new(seed, climate, true).live()
}

impl Drop for World {
    fn drop(&mut self) {
        // A lane that ends waits for old writes to settle, and a simulated time stands still.
        clock::set(Some(self.start + Duration::from_secs(1 << 30)));
        self.hosts.clear();
        clock::set(None);
    }
}

impl World {
    fn new(seed: u64, climate: Climate, tells: bool) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&climate, &mut random);
        let served = Served::new(plan.shape(&mut random), random.fork());
        let start = served.start();
        let owner = Owner::default();
        let hosts = (0..climate.hosts).map(|host| {
            let session = Plan::session(host, &mut random);
            let devices = plan.devices(&mut random);
            let layout = (plan.portals, plan.sessions);
            Host::new((host, &owner), layout, session, devices, random.fork())
        });
        let hosts: Vec<Host> = hosts.collect();
        let region = |at: u64| Region {
            owner: at as usize % climate.hosts,
            under_way: 0,
            heir: None,
        };
        Self {
            schedule: Schedule::default(),
            start,
            wakes: vec![None; hosts.len()],
            served,
            life: 0,
            wanted: BTreeMap::new(),
            wires: Wires::new(plan.weather),
            open_at: vec![Duration::ZERO; hosts.len() * plan.portals],
            runs_at: Duration::ZERO,
            is_back_at: Duration::ZERO,
            ledger: Ledger::new(BLOCKS),
            regions: (0..REGIONS).map(region).collect(),
            possession: Possession::default(),
            owner,
            writers: BTreeMap::new(),
            asked: BTreeMap::new(),
            last_token: 0,
            left: vec![climate.requests; hosts.len()],
            under_way: vec![0; hosts.len()],
            is_full: vec![false; hosts.len()],
            last_end: Duration::ZERO,
            digest: DefaultHasher::new(),
            report: Report::default(),
            tells,
            hosts,
            climate,
            plan,
            random,
        }
    }

    fn live(mut self) -> Report {
        if self.tells {
            println!("{:?}", self.plan);
        }
        for host in 0..self.hosts.len() {
            self.schedule.add(Duration::ZERO, Event::Host(host));
            self.schedule.add(Duration::ZERO, Event::Work(host));
        }
        self.schedule.add(Duration::ZERO, Event::Tick);
        self.take(Duration::ZERO);
        self.schedule_fault();
        if self.climate.has_reservations {
            self.schedule.add(Duration::ZERO, Event::TakeOver(0));
        }
        while self.is_busy() {
            self.happen_next();
        }
        self.calm_down();
        self.end_requests();
        self.read_everything();
        self.end_requests();
        self.report.worlds = 1;
        self.report.time = self.schedule.now();
        self.report.connections = self.wires.made() as u64;
        self.report.logins = self.hosts.iter().map(Host::logins).sum();
        self.report.digest = self.digest.finish();
        self.report
    }

    fn end_requests(&mut self) {
        while !self.asked.is_empty() || self.possession.is_moving() {
            self.happen_next();
        }
    }

    fn is_busy(&self) -> bool {
        self.left.iter().any(|left| *left > 0)
    }

    fn happen_next(&mut self) {
        let event = self.schedule.advance().expect("the target ticks");
        let now = self.schedule.now();
        clock::set(Some(self.start + now));
        now.hash(&mut self.digest);
        format!("{event:?}").hash(&mut self.digest);
        if self.tells && !matches!(event, Event::Target(..) | Event::Tick | Event::Work(_)) {
            println!("{now:?} {event:?}");
        }
        self.happen(event, now);
        let idle = now.saturating_sub(self.last_end);
        if idle > HANGS {
            let hosts: Vec<String> = self.hosts.iter().map(Host::describe).collect();
            let asked = &self.asked;
            panic!(
                "nothing has ended for {idle:?}: {asked:?}\n{}",
                hosts.join("\n")
            );
        }
    }

    fn happen(&mut self, event: Event, now: Duration) {
        match event {
            Event::Host(host) => {
                self.wakes[host] = None;
                self.step(host);
            }
            Event::Target(life, later) => self.target_event(life, later, now),
            Event::Tick => {
                self.schedule.add(now + TICK, Event::Tick);
                if now >= self.runs_at {
                    self.served.tick(now);
                    self.take(now);
                }
            }
            Event::Work(host) => self.work(host, now),
            Event::Dialed(id) => self.target_dialed(id, now),
            Event::Connected(id) => {
                if let Some(path) = self.wires.path(id) {
                    self.wires.connected(id);
                    self.step(self.host_of(path));
                }
            }
            Event::ToTarget(id) => {
                if !self.postponed(now, Event::ToTarget(id)) {
                    self.arrive_at_target(id, now);
                }
            }
            Event::ToHost(id) => self.arrive_at_host(id, now),
            Event::TargetTold(id) => {
                if self.wires.is_served(id) && !self.postponed(now, Event::TargetTold(id)) {
                    self.served.closed(id, now);
                    self.take(now);
                }
            }
            Event::HostTold(id) => self.host_told(id, now),
            Event::Fault => {
                if self.is_busy() && now.saturating_sub(self.last_end) < LONG {
                    self.fault(now);
                    self.schedule_fault();
                }
            }
            Event::TakeOver(host) => self.take_over(host, now),
            Event::Access(portal) => self.want(portal, AluaState::ActiveOptimized, now),
            Event::Reachable(host, portal) => self.hosts[host].set_reachable(portal, true),
        }
    }

    fn host_of(&self, path: usize) -> usize {
        path / self.plan.portals
    }

    fn portal_of(&self, path: usize) -> usize {
        path % self.plan.portals
    }

    /// Lets a host do what it can do now, and takes what it sent and what ended.
    fn step(&mut self, host: usize) {
        let now = self.schedule.now();
        // The target may have set its own time.
        clock::set(Some(self.start + now));
        self.hosts[host].step(self.start + now);
        for (portal, near) in self.hosts[host].take_dialed() {
            let path = host * self.plan.portals + portal;
            let id = self.wires.dial(path, near);
            let arrival = now + within(self.plan.weather.max_delay, &mut self.random);
            self.schedule.add(arrival, Event::Dialed(id));
        }
        for portal in 0..self.plan.portals {
            for id in self.wires.on_path(host * self.plan.portals + portal) {
                let pulled = self.wires.pull(id, now, &mut self.random);
                self.pulled(id, pulled);
            }
        }
        for (token, outcome) in self.hosts[host].take_completions() {
            self.ended(token, outcome);
        }
        self.look_at_orders(host);
        let due = self.hosts[host].next_deadline();
        if let Some(due) = due.map(|due| due.saturating_duration_since(self.start))
            && self.wakes[host].is_none_or(|wake| due < wake)
        {
            self.wakes[host] = Some(due);
            self.schedule.add(due, Event::Host(host));
        }
    }

    fn pulled(&mut self, id: ConnectionId, pulled: Pulled) {
        let (arrivals, told) = match pulled {
            Pulled::Nothing => return,
            Pulled::Bytes(arrivals) => (arrivals, None),
            Pulled::Closed(arrivals, told) => (arrivals, told),
        };
        for arrival in arrivals {
            self.schedule.add(arrival, Event::ToTarget(id));
        }
        if let Some(told) = told {
            self.schedule.add(told, Event::TargetTold(id));
        }
    }

    /// Reports whether the target is stopped, and if so lets the event happen when it runs again.
    fn postponed(&mut self, now: Duration, event: Event) -> bool {
        let is_stopped = now < self.runs_at;
        if is_stopped {
            self.schedule.add(self.runs_at, event);
        }
        is_stopped
    }

    fn target_dialed(&mut self, id: ConnectionId, now: Duration) {
        let Some(path) = self.wires.path(id).filter(|_| self.wires.is_dialing(id)) else {
            return;
        };
        let open_at = self.open_at[path];
        if open_at > now {
            // TCP asks again.
            let again = open_at + within(Duration::from_secs(1), &mut self.random);
            return self.schedule.add(again, Event::Dialed(id));
        }
        let answered = now + within(self.plan.weather.max_delay, &mut self.random);
        if now < self.is_back_at {
            return self.schedule.add(answered, Event::HostTold(id));
        }
        // A kernel accepts for a program that is stopped.
        self.served.accept(id, self.portal_of(path), now);
        self.wires.accepted(id);
        self.take(now);
        self.schedule.add(answered, Event::Connected(id));
    }

    fn arrive_at_target(&mut self, id: ConnectionId, now: Duration) {
        let Some(path) = self.wires.path(id) else {
            return;
        };
        let open_at = self.open_at[path];
        let (arrived, again) = self
            .wires
            .arrive(id, End::Target, now, open_at, &mut self.random);
        if let Some(again) = again {
            self.schedule.add(again, Event::ToTarget(id));
        }
        if let Arrived::Bytes(bytes) = arrived {
            bytes.hash(&mut self.digest);
            self.served.receive(id, &bytes, now);
            self.take(now);
        }
    }

    fn arrive_at_host(&mut self, id: ConnectionId, now: Duration) {
        let Some(path) = self.wires.path(id) else {
            return;
        };
        let open_at = self.open_at[path];
        let end = End::Initiator;
        let (arrived, again) = self.wires.arrive(id, end, now, open_at, &mut self.random);
        if let Some(again) = again {
            self.schedule.add(again, Event::ToHost(id));
        }
        if let Arrived::Bytes(bytes) = arrived {
            bytes.hash(&mut self.digest);
            self.wires.deliver(id, &bytes);
            self.step(self.host_of(path));
        }
    }

    fn host_told(&mut self, id: ConnectionId, now: Duration) {
        let Some(path) = self.wires.path(id) else {
            return;
        };
        if self.open_at[path] > now {
            let again = self.open_at[path];
            return self.schedule.add(again, Event::HostTold(id));
        }
        self.wires.hang_up(id);
        self.step(self.host_of(path));
    }

    /// Lets the target do what is due. A process that is stopped does nothing, but its disks do.
    fn target_event(&mut self, life: u64, later: Later, now: Duration) {
        let is_disk = matches!(later, Later::Answer(..));
        let is_over = life != self.life && !is_disk;
        if is_over || (!is_disk && self.postponed(now, Event::Target(life, later))) {
            return;
        }
        self.served.happen(later, now);
        self.take(now);
    }

    /// Takes what the target did, and what it is to do later.
    fn take(&mut self, now: Duration) {
        for action in self.served.take_actions(now) {
            match action {
                Action::Send(id, bytes) => {
                    for arrival in self.wires.send_to_host(id, &bytes, now, &mut self.random) {
                        self.schedule.add(arrival, Event::ToHost(id));
                    }
                }
                Action::Close(id) => self.target_closes(id, now),
                Action::Disk(_, News::Landed(touch, _)) => {
                    for (at, bytes) in touch.data.chunks(BLOCK).enumerate() {
                        let block = (touch.offset / BLOCK + at) as u64;
                        self.landed(block, Content::of(bytes));
                    }
                }
                Action::Disk(_, News::Began(_)) => {}
                Action::At(at, later) => self.schedule.add(at, Event::Target(self.life, later)),
                // A portal whose commands do not end in time stays as it is.
                Action::Changed(_) => {}
            }
        }
        if !self.served.is_changing()
            && let Some((portal, state)) = self.wanted.pop_first()
        {
            self.served.set_access(portal, state, now);
            self.take(now);
        }
    }

    /// Changes the access state of a portal's target port group, after other changes.
    fn want(&mut self, portal: usize, state: AluaState, now: Duration) {
        self.wanted.insert(portal, state);
        self.take(now);
    }

    fn target_closes(&mut self, id: ConnectionId, now: Duration) {
        if let Some(last) = self.wires.target_closed(id, now) {
            let told = last + within(self.plan.weather.max_delay, &mut self.random);
            self.schedule.add(told, Event::HostTold(id));
        }
    }

    /// Judges content that the disk takes for a block.
    fn landed(&mut self, block: u64, content: Content) {
        self.judge(block, content);
        if let (Content::Of(number), Some(holder)) = (content, self.possession.holder()) {
            let writer = self.writers.get(&number);
            let is_holder = writer.is_none_or(|writer| *writer == holder);
            let now = self.schedule.now();
            assert!(
                is_holder,
                "{number} of {writer:?} landed at {now:?}: {holder} has the device"
            );
        }
    }

    /// Judges what a block holds on the disk now. What a store holds only reads can tell.
    fn judge_disk(&mut self, block: u64) {
        if !self.climate.has_store {
            let bytes = self.served.drives[0].bytes(block as usize * BLOCK, BLOCK);
            self.judge(block, Content::of(&bytes));
        }
    }

    /// Judges content that a block has on the disk.
    fn judge(&mut self, block: u64, content: Content) {
        let since = self.ledger.now();
        if let Err(why) = self.ledger.check(block, content, since) {
            panic!("on the disk, at {:?}: {why}", self.schedule.now());
        }
    }
}

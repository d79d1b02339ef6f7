//! The whole world: initiators, network, target, faults, and the model with which every read is
//! compared.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use iscsi::negotiation::{DigestPolicy, Limits};

use crate::device::{BLOCK, BLOCKS, Device};
use crate::initiator::{Initiator, Job};
use crate::network::{ConnectionId, End, Network, Weather};
use crate::random::Random;
use crate::schedule::Schedule;
use crate::target::{Action, LOGIN_TIMEOUT, PING_AFTER, PING_TIMEOUT, Reason, Target};

const TICK: Duration = Duration::from_secs(1);
/// Time that is longer than the longest command takes in the worst weather.
const HANGS: Duration = Duration::from_secs(600);
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const UNIT_ATTENTION: u8 = 0x06;

/// Climate of a world. The seed decides most of the rest.
#[derive(Clone, Copy, Debug)]
pub struct Climate {
    /// Number of commands of each initiator.
    pub commands: u64,
    /// Commands of a thousand that come with a cut of some connection.
    pub cuts_per_mille: u64,
    /// Commands of a thousand that come with a connection that goes silent.
    pub silences_per_mille: u64,
    /// Whether every piece is one byte.
    pub single_bytes: bool,
}

/// Counts of a world's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Commands that ended well.
    pub good: u64,
    /// Commands that ended with a unit attention and are repeated.
    pub repeated: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Connections that the target gave up as silent.
    pub given_up: u64,
    /// Simulated time.
    pub time: Duration,
}

#[derive(Debug)]
enum Event {
    Arrival(ConnectionId, End),
    Closed(ConnectionId, End),
    Disk(u64),
    /// An initiator connects, or makes more commands.
    Wake(usize),
    Tick,
}

/// Meaning of a command, for the model.
#[derive(Debug)]
struct Meant {
    initiator: usize,
    blocks: Range<u64>,
    /// Bytes that will be there; `None` for a read.
    bytes: Option<Vec<u8>>,
}

struct World {
    climate: Climate,
    random: Random,
    schedule: Schedule<Event>,
    network: Network,
    target: Target,
    initiators: Vec<Initiator>,
    owners: HashMap<ConnectionId, usize>,
    silenced: HashMap<ConnectionId, Duration>,
    model: Vec<u8>,
    busy: Vec<bool>,
    meant: HashMap<u64, Meant>,
    last_command: u64,
    left: Vec<u64>,
    last_end: Duration,
    report: Report,
}

/// Runs the world of a seed to its end.
///
/// # Panics
/// A rule is broken.
pub fn run(seed: u64, climate: Climate) -> Report {
    let mut world = World::new(seed, climate);
    for initiator in 0..world.initiators.len() {
        world.schedule.add(Duration::ZERO, Event::Wake(initiator));
    }
    world.schedule.add(TICK, Event::Tick);
    while !world.is_over() {
        let event = world.schedule.advance().expect("there is always a tick");
        world.happen(event);
        let idle = world.schedule.now() - world.last_end;
        let left: Vec<&u64> = world.meant.keys().collect();
        assert!(
            idle < HANGS,
            "nothing has ended for {idle:?}; left are {left:?}"
        );
    }
    world.check_order();
    assert!(
        world.target.device.medium() == world.model,
        "the disk is the model"
    );
    world.report.time = world.schedule.now();
    world.report
}

impl World {
    fn new(seed: u64, climate: Climate) -> Self {
        let mut random = Random::new(seed);
        let mut child = || Random::new(seed.wrapping_mul(1000) + random.within(0..1 << 60));
        let (device_random, target_random, mut limits_random) = (child(), child(), child());
        let initiator_randoms = [child(), child(), child()];
        let depth = limits_random.one_of(&[1, 3, 8, 32]);
        let weather = Weather {
            max_delay: Duration::from_millis(limits_random.one_of(&[0, 3, 40, 900])),
            max_piece: if climate.single_bytes {
                1
            } else {
                limits_random.one_of(&[60, 1500, 100_000])
            },
        };
        let disk_ms = limits_random.one_of(&[0, 5, 200]);
        let device = Device::new(device_random, disk_ms);
        let initiators = (0..)
            .zip(initiator_randoms)
            .map(|(number, random)| Initiator::new(number, limits(&mut limits_random), random));
        let initiators: Vec<Initiator> = initiators.collect();
        let target = Target::new(device, limits(&mut limits_random), depth, target_random);
        Self {
            climate,
            random,
            schedule: Schedule::default(),
            network: Network::new(weather),
            target,
            left: vec![climate.commands; initiators.len()],
            initiators,
            owners: HashMap::new(),
            silenced: HashMap::new(),
            model: vec![0; BLOCKS as usize * BLOCK],
            busy: vec![false; BLOCKS as usize],
            meant: HashMap::new(),
            last_command: 0,
            last_end: Duration::ZERO,
            report: Report::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.initiators.iter().all(Initiator::is_over) && self.target.is_idle()
    }

    fn happen(&mut self, event: Event) {
        let now = self.schedule.now();
        match event {
            Event::Arrival(id, End::Target) => {
                let bytes = self.network.take(id, End::Target, now);
                let actions = self.target.receive(id, &bytes, now);
                self.carry_out(actions);
            }
            Event::Arrival(id, End::Initiator) => {
                let bytes = self.network.take(id, End::Initiator, now);
                let owner = self.owners[&id];
                if !bytes.is_empty() && self.initiators[owner].connection() == Some(id) {
                    let out = self.initiators[owner].receive(&bytes, now);
                    self.send(id, End::Target, &out);
                    self.take_ended(owner);
                }
            }
            Event::Closed(id, End::Target) => self.target.closed(id),
            Event::Closed(id, End::Initiator) => self.initiator_lost(id),
            Event::Disk(number) => {
                let actions = self.target.disk(number);
                self.carry_out(actions);
            }
            Event::Wake(initiator) => self.wake(initiator),
            Event::Tick => self.tick(),
        }
        for (at, number) in std::mem::take(&mut self.target.device.due) {
            self.schedule.add(at, Event::Disk(number));
        }
    }

    fn send(&mut self, id: ConnectionId, to: End, bytes: &[u8]) {
        let now = self.schedule.now();
        for arrival in self.network.send(id, to, bytes, now, &mut self.random) {
            self.schedule.add(arrival, Event::Arrival(id, to));
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(id, bytes) => self.send(id, End::Initiator, &bytes),
                Action::Close(id, reason) => {
                    if reason == Reason::Silent {
                        assert!(self.network.is_silent(id), "a slow peer was given up");
                        self.report.given_up += 1;
                    }
                    // The close comes after the bytes that were sent before: the close of a socket
                    // loses nothing.
                    let soon = self.schedule.now() + TICK;
                    self.schedule.add(soon, Event::Closed(id, End::Initiator));
                }
            }
        }
    }

    fn initiator_lost(&mut self, id: ConnectionId) {
        let owner = self.owners[&id];
        if self.initiators[owner].connection() == Some(id) && !self.network.is_silent(id) {
            self.initiators[owner].closed();
            self.reconnect_soon(owner);
        }
    }

    fn reconnect_soon(&mut self, initiator: usize) {
        let pause = Duration::from_millis(self.random.within(0..3000));
        let at = self.schedule.now() + pause;
        self.schedule.add(at, Event::Wake(initiator));
    }

    fn wake(&mut self, initiator: usize) {
        let now = self.schedule.now();
        if self.initiators[initiator].is_over() {
            return;
        }
        if self.initiators[initiator].wants_connection() {
            let id = self.network.connect();
            self.report.connections += 1;
            self.owners.insert(id, initiator);
            self.target.accept(id, now);
            let request = self.initiators[initiator].connect(id, now);
            self.send(id, End::Target, &request);
        }
        let left = self.left[initiator];
        self.think(initiator);
        if self.left[initiator] < left {
            // Faults must come to an end, so there are none while all wait for each other.
            self.faults();
        }
        if self.left[initiator] > 0 {
            let pause = Duration::from_millis(self.random.within(0..60));
            self.schedule.add(now + pause, Event::Wake(initiator));
        }
    }

    /// Makes a burst of commands.
    fn think(&mut self, initiator: usize) {
        let burst = self.random.within(1..8).min(self.left[initiator]);
        for _ in 0..burst {
            let Some(job) = self.new_command(initiator) else {
                break;
            };
            self.left[initiator] -= 1;
            self.initiators[initiator].submit(self.last_command, job);
        }
        self.start_commands(initiator);
    }

    fn start_commands(&mut self, initiator: usize) {
        let now = self.schedule.now();
        let out = self.initiators[initiator].start_commands(now);
        if let Some(id) = self.initiators[initiator].connection() {
            self.send(id, End::Target, &out);
        }
        self.take_ended(initiator);
    }

    /// Makes a command on blocks that no other command uses, so that the model knows its result.
    fn new_command(&mut self, initiator: usize) -> Option<Job> {
        let count = self.random.one_of(&[1, 2, 8, 60]);
        let start = self.random.within(0..BLOCKS - count);
        let blocks = start..start + count;
        if blocks.clone().any(|lba| self.busy[lba as usize]) {
            return None;
        }
        blocks
            .clone()
            .for_each(|lba| self.busy[lba as usize] = true);
        self.last_command += 1;
        let (job, bytes) = command(&mut self.random, self.last_command, &blocks);
        let meant = Meant {
            initiator,
            blocks,
            bytes,
        };
        self.meant.insert(self.last_command, meant);
        Some(job)
    }

    fn take_ended(&mut self, initiator: usize) {
        let mut again = false;
        for ended in std::mem::take(&mut self.initiators[initiator].ended) {
            if ended.status == CHECK_CONDITION && ended.sense.get(2) == Some(&UNIT_ATTENTION) {
                self.report.repeated += 1;
                self.initiators[initiator].repeat(ended.cookie);
                again = true;
                continue;
            }
            assert_eq!(ended.status, GOOD, "{ended:02x?}");
            let job = self.initiators[initiator].jobs.remove(&ended.cookie);
            let job = job.expect("a command ends once");
            let meant = self
                .meant
                .remove(&ended.cookie)
                .expect("a command ends once");
            assert_eq!(meant.initiator, initiator);
            let at = meant.blocks.start as usize * BLOCK..meant.blocks.end as usize * BLOCK;
            match meant.bytes {
                Some(bytes) => self.model[at].copy_from_slice(&bytes),
                None => assert!(job.data_in == self.model[at], "blocks {:?}", meant.blocks),
            }
            meant.blocks.for_each(|lba| self.busy[lba as usize] = false);
            self.report.good += 1;
            self.last_end = self.schedule.now();
        }
        if again {
            self.start_commands(initiator);
        }
    }

    fn faults(&mut self) {
        let victim = self.random.within(0..self.initiators.len() as u64) as usize;
        let cut = self.random.per_mille(self.climate.cuts_per_mille);
        let silence = self.random.per_mille(self.climate.silences_per_mille);
        let Some(id) = self.initiators[victim].connection() else {
            return;
        };
        let now = self.schedule.now();
        if cut {
            self.network.cut(id);
            for end in [End::Initiator, End::Target] {
                let notice = now + Duration::from_millis(self.random.within(0..2000));
                self.schedule.add(notice, Event::Closed(id, end));
            }
        } else if silence && !self.network.is_silent(id) {
            self.network.silence(id);
            self.silenced.insert(id, now);
        }
    }

    fn tick(&mut self) {
        let now = self.schedule.now();
        self.schedule.add(now + TICK, Event::Tick);
        let actions = self.target.tick(now);
        self.carry_out(actions);
        for (id, since) in &self.silenced {
            // Two ticks are added, since both spans are checked once a second only.
            let limit = LOGIN_TIMEOUT.max(PING_AFTER + PING_TIMEOUT) + 2 * TICK;
            assert!(
                !self.target.serves(*id) || now - *since <= limit,
                "{id:?} is silent since {since:?} and still served"
            );
        }
        for initiator in 0..self.initiators.len() {
            let id = self.initiators[initiator].connection();
            match self.initiators[initiator].tick(now) {
                Some(out) => {
                    if let Some(id) = id {
                        self.send(id, End::Target, &out);
                    }
                }
                None => {
                    let id = id.expect("only a connection is given up");
                    assert!(self.network.is_silent(id), "a slow target was given up");
                    self.initiators[initiator].closed();
                    self.reconnect_soon(initiator);
                }
            }
            self.log_out_at_the_end(initiator);
        }
    }

    fn log_out_at_the_end(&mut self, initiator: usize) {
        let idle = self.left[initiator] == 0 && self.initiators[initiator].jobs.is_empty();
        if idle && let Some(id) = self.initiators[initiator].connection() {
            let out = self.initiators[initiator].log_out(self.schedule.now());
            self.send(id, End::Target, &out);
        }
    }

    /// Checks that on each connection the target saw commands in the order in which they were
    /// issued.
    fn check_order(&self) {
        for (id, seen) in &self.target.seen {
            let issued = self.initiators[self.owners[id]].issued.get(id);
            let issued = issued.map_or(&[][..], Vec::as_slice);
            assert!(issued.starts_with(seen), "commands out of order on {id:?}");
        }
    }
}

/// Makes a command on `blocks`. If it changes anything, also returns the bytes that are there after
/// it.
fn command(random: &mut Random, number: u64, blocks: &Range<u64>) -> (Job, Option<Vec<u8>>) {
    let count = (blocks.end - blocks.start) as usize;
    let mut cdb = [0; 16];
    cdb[2..10].copy_from_slice(&blocks.start.to_be_bytes());
    cdb[10..14].copy_from_slice(&(count as u32).to_be_bytes());
    let content = |len: usize| -> Vec<u8> {
        (0..len as u64)
            .map(|at| (number * 37 + at / 5) as u8)
            .collect()
    };
    let zeros = vec![0; count * BLOCK];
    let (data_out, length_in, after) = match random.within(0..10) {
        0..4 => {
            cdb[0] = 0x88;
            (Vec::new(), count * BLOCK, None)
        }
        4..8 => {
            cdb[0] = 0x8a;
            let data = content(count * BLOCK);
            (data.clone(), 0, Some(data))
        }
        8 => {
            cdb[0] = 0x93;
            let block = content(BLOCK);
            (block.clone(), 0, Some(block.repeat(count)))
        }
        _ => {
            let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
            list.extend_from_slice(&cdb[2..14]);
            list.extend_from_slice(&[0; 4]);
            cdb = [0; 16];
            (cdb[0], cdb[8]) = (0x42, 24);
            (list, 0, Some(zeros))
        }
    };
    let job = Job {
        cdb,
        data_out,
        length_in,
        data_in: Vec::new(),
    };
    (job, after)
}

fn limits(random: &mut Random) -> Limits {
    let lengths = [512, 4096, 16 << 10, 256 << 10];
    let digest = |random: &mut Random| random.one_of(&[DigestPolicy::Allow, DigestPolicy::Prefer]);
    Limits {
        max_connections: 1,
        initial_r2t: random.per_mille(500),
        immediate_data: random.per_mille(500),
        max_burst_length: random.one_of(&lengths),
        first_burst_length: random.one_of(&lengths),
        max_outstanding_r2t: random.within(1..6) as u16,
        max_recv_data_segment_length: random.one_of(&lengths),
        header_digest: digest(random),
        data_digest: digest(random),
        ..Limits::default()
    }
}

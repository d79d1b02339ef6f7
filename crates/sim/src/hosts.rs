//! Two hosts at one pool, each with its own engine, clock and cables, over one set of simulated
//! disks.
//!
//! A seed decides what happens. Hosts import whenever they can. They are paused, killed, and
//! restarted on the same boot or a new one. They export the pool in order, and lose the cable to a
//! disk. Disks are fast, slow, or stall. Nobody asks who owns the pool: each import is a forced
//! one.
//!
//! # What is checked
//! - From the moment when a host has opened the pool, no other host acknowledges anything, or
//!   returns any data.
//! - Each opening finds all that was acknowledged, also by the other host: written data, snapshots
//!   that were taken, and no destroyed ones.
//! - In the end the pool opens.
//! - If nobody is paused and no disk stalls, an import never stops the host that has the pool.
//!
//! Writes that a disk had taken may land after their host was paused. Here no disk takes longer for
//! them than an interval of the records: an opener waits at least as long in any case.

mod content;
mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use store::vdev::TopLevelKind;

use crate::disk::{Behaviour, DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, Disk};
use crate::random::Random;
use content::Content;
use host::{Purpose, SimulatedHost};

/// Size of each disk in MiB.
const DISK_MIB: u64 = 16;
/// Bound of events of one history, which none reaches.
const ENDLESS: u64 = 20_000_000;

/// Counts of the events of histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of histories.
    pub histories: u64,
    /// Simulated seconds.
    pub seconds: u64,
    /// Writes and reads that were acknowledged.
    pub acknowledged: u64,
    /// Number of times that a host opened the pool.
    pub openings: u64,
    /// Snapshots that were found at openings.
    pub snapshots: u64,
    /// Openings of a pool that another host had before and had not exported.
    pub takeovers: u64,
    /// Imports that were refused since another host had the pool.
    pub active: u64,
    /// Imports that were refused since another host wanted the pool at that moment.
    pub contested: u64,
    /// Imports that failed for another reason, for example since disks were away.
    pub failed: u64,
    /// Hosts that stopped since they could not renew their claim to the pool.
    pub silent: u64,
    /// Hosts that stopped since another host had the pool.
    pub foreign: u64,
    /// Hosts that were paused.
    pub paused: u64,
    /// Hosts that were killed.
    pub killed: u64,
    /// Hosts that were killed and restarted with a new boot.
    pub reboots: u64,
    /// Pools that were exported in order.
    pub exports: u64,
    /// Cables that were pulled.
    pub cables: u64,
    /// Writes of a host that reached a disk after another host had the pool.
    pub late: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.seconds += other.seconds;
        self.acknowledged += other.acknowledged;
        self.openings += other.openings;
        self.snapshots += other.snapshots;
        self.takeovers += other.takeovers;
        self.active += other.active;
        self.contested += other.contested;
        self.failed += other.failed;
        self.silent += other.silent;
        self.foreign += other.foreign;
        self.paused += other.paused;
        self.killed += other.killed;
        self.reboots += other.reboots;
        self.exports += other.exports;
        self.cables += other.cables;
        self.late += other.late;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} histories of {} s: {} acknowledged; {} openings, {} of them takeovers, {} snapshots found; imports refused: {} active, {} \
             contested, {} failed; stopped: {} silent, {} foreign; {} paused, {} killed, {} reboots, {} exports, {} cables \
             pulled; {} late writes",
            self.histories,
            self.seconds,
            self.acknowledged,
            self.openings,
            self.takeovers,
            self.snapshots,
            self.active,
            self.contested,
            self.failed,
            self.silent,
            self.foreign,
            self.paused,
            self.killed,
            self.reboots,
            self.exports,
            self.cables,
            self.late
        )
    }
}

/// Events that may happen in a family of histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Imports only: nobody is paused, no disk stalls.
    None,
    /// Pauses, kills, reboots, exports.
    Hosts,
    /// Pauses, kills, reboots and exports; disks are slow and stall, and cables are pulled.
    HostsAndDisks,
    /// Imports of both hosts at one moment, again and again.
    Together,
    /// Events of `Hosts`, where the hosts are clones of one machine: only their boots tell them
    /// apart.
    Clones,
}

impl Trouble {
    /// All families.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Hosts,
        Self::HostsAndDisks,
        Self::Together,
        Self::Clones,
    ];

    /// Returns the name of the family.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "hosts-calm",
            Self::Hosts => "hosts-paused",
            Self::HostsAndDisks => "hosts-slow-disks",
            Self::Together => "hosts-together",
            Self::Clones => "hosts-clones",
        }
    }
}

/// A history that broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Family and seed of the history.
    pub history: (&'static str, u64),
    /// Time of the break, in simulated microseconds.
    pub at_us: u64,
    /// Rule that was broken.
    pub what: String,
    /// Events that led to the break.
    pub lines: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (family, seed) = self.history;
        writeln!(
            f,
            "{family}, seed {seed}, after {} us: {}",
            self.at_us, self.what
        )?;
        let last = self.lines.len().saturating_sub(60);
        (self.lines[last..].iter()).try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// A request that a disk has.
struct Flight {
    host: usize,
    life: u64,
    is_write: bool,
    purpose: Purpose,
}

struct World {
    trouble: Trouble,
    now_us: u64,
    random: Random,
    disks: Vec<Disk>,
    hosts: Vec<SimulatedHost>,
    flights: BTreeMap<u64, Flight>,
    next_id: u64,
    /// Host that opened the pool last.
    owner: Option<(usize, u64)>,
    content: Content,
    tally: Tally,
    lines: Vec<String>,
    next_action_us: u64,
    next_traffic_us: u64,
}

const SHAPES: &[&[(TopLevelKind, usize)]] = &[
    &[(TopLevelKind::Leaf, 1)],
    &[(TopLevelKind::Leaf, 1), (TopLevelKind::Leaf, 1)],
    &[(TopLevelKind::Mirror, 2)],
    &[(TopLevelKind::Mirror, 3)],
    &[(TopLevelKind::Raidz { parity: 1 }, 3)],
    &[(TopLevelKind::Raidz { parity: 2 }, 4)],
];

/// Runs a history.
///
/// # Errors
/// The rule that was broken first.
pub fn run(trouble: Trouble, seed: u64) -> Result<Tally, Box<Broken>> {
    let mut world = World::new(trouble, seed);
    let result = world.live();
    world.tally.histories = 1;
    world.tally.seconds = world.now_us / 1_000_000;
    match result {
        Ok(()) => Ok(world.tally),
        Err(what) => Err(Box::new(Broken {
            history: (trouble.name(), seed),
            at_us: world.now_us,
            what,
            lines: world.lines,
        })),
    }
}

impl World {
    fn new(trouble: Trouble, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x686f_7374).fork();
        let shape = random.one_of(SHAPES);
        let count: usize = shape.iter().map(|(_, leaves)| leaves).sum();
        let sectors = (DISK_MIB * 1024 + 1536) / 4;
        let disks = (0..count).map(|_| Disk::new(sectors, Behaviour::default(), random.fork()));
        let disks: Vec<Disk> = disks.collect();
        let hosts = (0..2).map(|number| SimulatedHost::new(number, &mut random));
        Self {
            trouble,
            now_us: 0,
            hosts: hosts.collect(),
            disks,
            flights: BTreeMap::new(),
            next_id: 0,
            owner: None,
            content: Content::default(),
            tally: Tally::default(),
            lines: Vec::new(),
            next_action_us: 3_000_000,
            next_traffic_us: 0,
            random,
        }
        .with_pool(shape)
    }

    fn with_pool(mut self, shape: &[(TopLevelKind, usize)]) -> Self {
        let size = self.disks[0].sectors() * crate::disk::SECTOR_SIZE as u64;
        let are_clones = self.trouble == Trouble::Clones;
        for host in &mut self.hosts {
            host.sizes = vec![size; self.disks.len()];
            if are_clones {
                host.installation = 1;
            }
        }
        self.hosts[0].create(shape, size, self.now_us, &mut self.random);
        self
    }

    fn tell(&mut self, text: String) {
        // A host that tries again and again is told once.
        let is_repeated = self.lines.last().is_some_and(|line| line.ends_with(&text));
        if !is_repeated {
            self.lines.push(format!("{:>10} {text}", self.now_us));
        }
    }

    fn live(&mut self) -> Result<(), String> {
        let end_us = self.random.within(60_000_000..160_000_000);
        while self.now_us < end_us {
            self.advance()?;
        }
        self.finish()
    }

    /// Finishes the history: one host alone is left, and opens the pool.
    fn finish(&mut self) -> Result<(), String> {
        self.tell("the end: one host is left".to_owned());
        for disk in &mut self.disks {
            *disk.behaviour_mut() = Behaviour::default();
        }
        for host in &mut self.hosts {
            host.die(self.now_us, u64::MAX);
            host.cut.clear();
        }
        let last = self.random.within(0..2) as usize;
        self.hosts[last].reboot(&mut self.random);
        self.hosts[last].die(self.now_us, 0);
        self.next_action_us = u64::MAX;
        let (openings, end_us) = (self.tally.openings, self.now_us + 400_000_000);
        while self.tally.openings == openings || !self.hosts[last].is_verified() {
            if self.now_us > end_us {
                return Err(format!("the pool does not open: {:?}", self.hosts[last]));
            }
            self.advance()?;
        }
        Ok(())
    }

    /// Lets the next event happen.
    fn advance(&mut self) -> Result<(), String> {
        self.tally.seconds += 1;
        if self.tally.seconds > ENDLESS {
            return Err("it never ends".to_owned());
        }
        let due = self.disks.iter().enumerate();
        let due = due.filter_map(|(number, disk)| Some((disk.next_due_us()?, number)));
        let disk = due.min();
        let hosts = self.hosts.iter().enumerate();
        let hosts = hosts.filter_map(|(number, host)| Some((host.due_us(self.now_us)?, number)));
        let host = hosts.min();
        let world_us = self.next_action_us.min(self.next_traffic_us);
        let at = |of: Option<(u64, usize)>| of.map_or(u64::MAX, |(at, _)| at);
        if at(disk) <= at(host).min(world_us) {
            let Some((at_us, disk)) = disk else {
                return Err("nothing happens any more".to_owned());
            };
            self.now_us = self.now_us.max(at_us);
            self.disk_answers(disk);
        } else if at(host) <= world_us {
            let Some((at_us, host)) = host else {
                return Err("nothing happens any more".to_owned());
            };
            self.now_us = self.now_us.max(at_us);
            self.hosts[host].wake(self.now_us, &mut self.random);
            self.collect(host)?;
        } else {
            self.now_us = self.now_us.max(world_us);
            if self.now_us >= self.next_action_us {
                self.act();
            }
            if self.now_us >= self.next_traffic_us {
                self.traffic()?;
            }
        }
        Ok(())
    }

    fn disk_answers(&mut self, disk: usize) {
        let Some(done) = self.disks[disk].complete(self.now_us) else {
            return;
        };
        let Some(flight) = self.flights.remove(&done.id) else {
            return;
        };
        let is_owner = self
            .owner
            .is_none_or(|(host, life)| (host, life) == (flight.host, flight.life));
        self.tally.late += u64::from(
            flight.is_write && !is_owner && self.hosts[flight.host].was_owner(flight.life),
        );
        self.hosts[flight.host].answered(flight.life, flight.purpose, done.outcome);
    }

    /// Takes the results of a host.
    fn collect(&mut self, number: usize) -> Result<(), String> {
        loop {
            let host = &mut self.hosts[number];
            let brought = host.go_on(self.now_us, &mut self.random, &mut self.tally);
            for line in brought.lines {
                self.tell(format!("host {number} {line}"));
            }
            let life = self.hosts[number].life;
            if let Some(snapshots) = brought.has_opened {
                self.tally.openings += 1;
                self.tally.snapshots += snapshots.len() as u64;
                self.owner = Some((number, life));
                self.content.found(&snapshots)?;
                let blocks = self.content.blocks();
                self.hosts[number].verify(blocks, self.now_us);
            }
            if let Some(why) = brought.stopped
                && self.trouble == Trouble::None
            {
                return Err(format!(
                    "host {number} had to stop without any trouble: {why}"
                ));
            }
            for (life, op, outcome) in brought.answers {
                if let Ok(data) = outcome {
                    if self.owner != Some((number, life)) {
                        return Err(format!(
                            "host {number} acknowledged {op:?}, and the pool is {:?}'s",
                            self.owner
                        ));
                    }
                    self.tally.acknowledged += 1;
                    self.content.acknowledged(op, data.as_deref())?;
                }
            }
            let is_idle = brought.requests.is_empty();
            for (disk, op, purpose) in brought.requests {
                self.submit(number, disk, op, purpose);
            }
            if is_idle && !self.hosts[number].has_answers(self.now_us) {
                return Ok(());
            }
            self.hosts[number].take_answers(self.now_us);
        }
    }

    fn submit(&mut self, number: usize, disk: usize, op: DeviceOp, purpose: Purpose) {
        let host = &mut self.hosts[number];
        if host.cut.contains(&disk) {
            let gone: DeviceOutcome = Err(DeviceError::new(
                DeviceErrorKind::Gone,
                "its cable is pulled",
            ));
            return host.answered(host.life, purpose, gone);
        }
        self.next_id += 1;
        let flight = Flight {
            host: number,
            life: host.life,
            is_write: matches!(op, DeviceOp::Write { .. }),
            purpose,
        };
        self.flights.insert(self.next_id, flight);
        self.disks[disk].submit(self.now_us, self.next_id, op);
    }

    /// Sends requests to each host that has the pool open.
    fn traffic(&mut self) -> Result<(), String> {
        self.next_traffic_us = self.now_us + self.random.within(20_000..400_000);
        for number in 0..self.hosts.len() {
            let host = &mut self.hosts[number];
            if !host.is_paused(self.now_us) && host.is_verified() {
                let ops = self.content.ops(number, host.life, &mut self.random);
                host.ask(ops, self.now_us);
                self.collect(number)?;
            }
        }
        Ok(())
    }

    /// Makes an event of hosts, disks and cables.
    fn act(&mut self) {
        let gap_us = match self.trouble {
            Trouble::Together => 8_000_000..30_000_000,
            _ => 500_000..12_000_000,
        };
        self.next_action_us = self.now_us + self.random.within(gap_us);
        let number = self.random.within(0..2) as usize;
        match (self.trouble, self.random.within(0..100)) {
            (Trouble::None, _) => {}
            (Trouble::Together, dice) => {
                // Both hosts die or export, and come back together.
                let back_us = self.now_us + 1_000_000;
                for host in &mut self.hosts {
                    if dice < 50 && host.export(self.now_us, back_us) {
                        self.tally.exports += 1;
                    } else {
                        host.reboot(&mut self.random);
                        let late_us = self.random.one_of(&[0, 50, 500, 20_000, 300_000]);
                        host.die(self.now_us, back_us + late_us);
                        self.tally.killed += 1;
                    }
                }
                self.tell("both hosts are sent off, and come back together".to_owned());
            }
            (_, 0..35) => {
                let most_us = match self.trouble {
                    Trouble::Clones => 7_000_000,
                    _ => 30_000_000,
                };
                let until_us = self.now_us + self.random.within(100_000..most_us);
                self.hosts[number].pause(until_us);
                self.tally.paused += 1;
                self.tell(format!("host {number} is paused until {until_us}"));
            }
            (_, 35..60) => {
                let is_reboot = self.random.per_mille(500);
                let back_us = self.now_us + self.random.within(0..10_000_000);
                if is_reboot {
                    self.hosts[number].reboot(&mut self.random);
                }
                self.hosts[number].die(self.now_us, back_us);
                self.tally.killed += 1;
                self.tally.reboots += u64::from(is_reboot);
                self.tell(format!(
                    "host {number} is killed, reboot: {is_reboot}, back at {back_us}"
                ));
            }
            (_, 60..75) => {
                let back_us = self.now_us + self.random.within(0..20_000_000);
                let is_done = self.hosts[number].export(self.now_us, back_us);
                self.tally.exports += u64::from(is_done);
                self.tell(format!("host {number} exports: {is_done}"));
            }
            (Trouble::HostsAndDisks, 75..85) => self.pull_or_push(number),
            (Trouble::HostsAndDisks, _) => self.change_disks(),
            _ => {}
        }
    }

    fn pull_or_push(&mut self, number: usize) {
        let disk = self.random.within(0..self.disks.len() as u64) as usize;
        let cut: &mut BTreeSet<usize> = &mut self.hosts[number].cut;
        let is_pulled = cut.is_empty() && cut.insert(disk);
        if !is_pulled {
            cut.clear();
        }
        self.tally.cables += u64::from(is_pulled);
        self.tell(format!(
            "host {number}, cable of disk {disk}: pulled {is_pulled}"
        ));
    }

    /// Makes disks slow, stalled, or well again: all of them, as behind one controller, or one.
    fn change_disks(&mut self) {
        let slow = self.random.one_of(&[50_u64, 200, 5_000, 40_000, 150_000]);
        let stall_us = self.random.one_of(&[0, 100_000, 600_000]);
        let one = self.random.within(0..2 * self.disks.len() as u64) as usize;
        for (number, disk) in self.disks.iter_mut().enumerate() {
            if one <= number {
                let behaviour = disk.behaviour_mut();
                behaviour.latency_us = slow..2 * slow;
                (behaviour.stalls_per_mille, behaviour.stall_us) = (50, stall_us);
            }
        }
        self.tell(format!(
            "disks take {slow} us and stall for {stall_us}, from {one} on"
        ));
    }
}

//! The world of one initiator with several connections to one target, and its faults.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cells::{CELL_BLOCKS, CELLS, LUNS, content, head, judge};
use super::initiator::{Habits, Initiator, STORMS_END};
use super::ledger::Ledger;
use crate::drive::Temper;
use crate::network::{ConnectionId, End, Network, Weather};
use crate::random::Random;
use crate::schedule::Schedule;
use crate::served::{Action, Later, Served, Shape, initiator_limits, target_limits};

const TICK: Duration = Duration::from_secs(1);
/// Time that no recovery reaches.
const HANGS: Duration = Duration::from_secs(900);

/// Climate of a world. Shares are of a thousand bursts of commands. The seed decides most of the
/// rest.
#[derive(Clone, Copy, Debug)]
pub struct Climate {
    /// Number of jobs of the initiator.
    pub jobs: u64,
    /// Share of bursts with a connection that is cut.
    pub cuts: u64,
    /// Share of bursts with a connection that goes silent.
    pub silences: u64,
    /// Share of bursts with task management functions.
    pub functions: u64,
    /// Share of bursts with a logout of one connection.
    pub logouts: u64,
    /// Share of bursts with a logout of the session.
    pub session_logouts: u64,
    /// Share of bursts with a lost connection that the initiator ignores.
    pub careless: u64,
}

/// Counts of a world's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Jobs that ended.
    pub ended: u64,
    /// Jobs that were aborted, among those that ended.
    pub aborted: u64,
    /// Commands that began.
    pub begun: u64,
    /// Requests that were sent again with their CmdSN.
    pub sent_again: u64,
    /// Commands that were told of a unit attention and are repeated.
    pub refusals: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Simulated time.
    pub time: Duration,
}

#[derive(Debug)]
enum Event {
    Arrival(ConnectionId, End),
    Closed(ConnectionId, End),
    Target(Later),
    Wake,
    Tick,
}

struct World {
    climate: Climate,
    random: Random,
    schedule: Schedule<Event>,
    network: Network,
    target: Served,
    initiator: Initiator,
    ledger: Ledger,
    closed: BTreeSet<ConnectionId>,
    last_end: Duration,
    report: Report,
}

/// Runs the world of a seed to its end.
///
/// # Panics
/// A rule is broken.
pub fn run(seed: u64, climate: Climate) -> Report {
    let mut world = World::new(seed, climate);
    world.schedule.add(Duration::ZERO, Event::Wake);
    world.schedule.add(TICK, Event::Tick);
    while !(world.initiator.is_over() && world.target.is_idle()) {
        let event = world.schedule.advance().expect("there is always a tick");
        world.happen(event);
        let idle = world.schedule.now() - world.last_end;
        assert!(
            idle < HANGS,
            "nothing has ended for {idle:?}: {:#?}",
            world.initiator
        );
    }
    for (lun, cell) in (0..LUNS).flat_map(|lun| (0..CELLS).map(move |cell| (lun, cell))) {
        let (known, length) = *world.initiator.cell(lun, cell);
        let found = match length {
            0 => 0,
            length => content(&world.target.drives[lun as usize], cell, length),
        };
        assert_eq!(known, found, "cell {cell}");
    }
    Report {
        ended: world.initiator.ended,
        aborted: world.initiator.aborted,
        sent_again: world.initiator.sent_again,
        refusals: world.initiator.refusals,
        begun: world.ledger.begun,
        time: world.schedule.now(),
        ..world.report
    }
}

impl World {
    fn new(seed: u64, climate: Climate) -> Self {
        let mut random = Random::new(seed);
        let target_random = random.fork();
        let (initiator_random, mut drawn) = (random.fork(), random.fork());
        let weather = Weather {
            max_delay: Duration::from_millis(drawn.one_of(&[0, 3, 40, 900])),
            max_piece: drawn.one_of(&[60, 1500, 100_000]),
        };
        let disk_ms = drawn.one_of(&[0, 5, 200, 2000]);
        let depth = drawn.one_of(&[1, 3, 8, 32]);
        let congestion = drawn.one_of(&[0, 0, 200]);
        let habits = Habits {
            functions: climate.functions,
            logouts: climate.logouts,
            session_logouts: climate.session_logouts,
            careless: climate.careless,
        };
        let temper = Temper {
            usual_ms: disk_ms,
            ..Temper::default()
        };
        let shape = Shape {
            loops: 2,
            portals: 1,
            parameters: target_limits(&mut drawn, depth, 4),
            memory: 1 << 30,
            max_sessions: 16,
            units: vec![((CELLS * CELL_BLOCKS) as u64, temper); LUNS as usize],
            pool: None,
            write_cache: drawn.per_mille(500),
            send_buffer: drawn.one_of(&[4 << 10, 64 << 10]),
            lag_us: drawn.one_of(&[0, 50, 3000]),
            congestion_per_mille: congestion,
        };
        let target = Served::new(shape, target_random);
        let limits = initiator_limits(&mut drawn, 4);
        let initiator = Initiator::new(climate.jobs, limits, habits, initiator_random);
        Self {
            climate,
            random,
            schedule: Schedule::default(),
            network: Network::new(weather),
            target,
            initiator,
            ledger: Ledger::default(),
            closed: BTreeSet::new(),
            last_end: Duration::ZERO,
            report: Report::default(),
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.schedule.now();
        let ended = self.initiator.ended;
        match event {
            Event::Arrival(id, End::Target) => {
                let bytes = self.network.take(id, End::Target, now);
                self.target.receive(id, &bytes, now);
            }
            Event::Arrival(id, End::Initiator) => {
                let bytes = self.network.take(id, End::Initiator, now);
                if !bytes.is_empty() {
                    self.initiator.receive(id, &bytes, now, &mut self.ledger);
                }
            }
            Event::Closed(id, End::Target) => self.target.closed(id, now),
            Event::Closed(id, End::Initiator) => self.initiator.lost_wire(id, now),
            Event::Target(later) => self.target.happen(later, now),
            Event::Wake => {
                self.initiator.wake(now, &mut self.ledger);
                if now < STORMS_END {
                    self.faults();
                }
                let pause = Duration::from_millis(self.random.within(0..300));
                self.schedule.add(now + pause, Event::Wake);
            }
            Event::Tick => {
                self.initiator.tick(now, &mut self.ledger);
                self.schedule.add(now + TICK, Event::Tick);
                self.target.tick(now);
            }
        }
        self.carry_out();
        self.serve_initiator();
        self.carry_out();
        if self.initiator.ended > ended {
            self.last_end = now;
        }
    }

    fn send(&mut self, id: ConnectionId, to: End, bytes: &[u8]) {
        let now = self.schedule.now();
        for arrival in self.network.send(id, to, bytes, now, &mut self.random) {
            self.schedule.add(arrival, Event::Arrival(id, to));
        }
    }

    fn carry_out(&mut self) {
        for action in self.target.take_actions(self.schedule.now()) {
            match action {
                Action::Send(id, bytes) => self.send(id, End::Initiator, &bytes),
                Action::Close(id) => self.close(id, End::Initiator),
                Action::Disk(lun, news) => judge(lun as u64, &news, &mut self.ledger),
                Action::At(at, later) => self.schedule.add(at, Event::Target(later)),
                Action::Changed(end) => assert_eq!(end, Ok(true)),
            }
        }
    }

    /// Closes one end of a connection. The other end hears of it behind the bytes that were sent
    /// before.
    fn close(&mut self, id: ConnectionId, to: End) {
        if !self.network.is_silent(id) {
            let at = self.network.last_arrival(id, to);
            self.schedule.add(at, Event::Closed(id, to));
        }
    }

    /// Does the requests of the initiator, and checks the cells of which it is unsure.
    fn serve_initiator(&mut self) {
        let now = self.schedule.now();
        for (lun, cell, job) in std::mem::take(&mut self.initiator.unsure) {
            let known = self.initiator.cell(lun, cell);
            let found = head(&self.target.drives[lun as usize], cell);
            let is_its_own = found > 0 && self.ledger.job_of(found) == job;
            assert!(found == known.0 || is_its_own, "cell {cell} holds {found}");
            if is_its_own {
                *known = (found, self.ledger.job(job).length);
            }
        }
        for want in std::mem::take(&mut self.initiator.wants) {
            let id = self.network.connect();
            self.report.connections += 1;
            self.target.accept(id, 0, now);
            self.initiator.connect(want, id, now);
        }
        for (id, bytes) in std::mem::take(&mut self.initiator.out) {
            self.send(id, End::Target, &bytes);
        }
        for id in std::mem::take(&mut self.initiator.closing) {
            if self.closed.insert(id) {
                self.close(id, End::Target);
            }
        }
    }

    fn faults(&mut self) {
        let (cut, silence) = (
            self.random.per_mille(self.climate.cuts),
            self.random.per_mille(self.climate.silences),
        );
        let connections = self.initiator.connections();
        if connections.is_empty() {
            return;
        }
        let id = self.random.one_of(&connections);
        if cut {
            self.network.cut(id);
            for end in [End::Initiator, End::Target] {
                let pause = Duration::from_millis(self.random.within(0..2000));
                let at = self.schedule.now() + pause;
                self.schedule.add(at, Event::Closed(id, end));
            }
        } else if silence {
            self.network.silence(id);
        }
    }
}

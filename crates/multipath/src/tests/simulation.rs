//! A device under random submissions, answers, path losses, fences and changes of state: what it
//! may do at each moment, with every policy. What becomes of the blocks is judged with the whole
//! initiator, in `crates/sim/src/san`. A failure prints its seed; `SANDSTONE_SEED=<seed>` repeats
//! it.

use std::collections::BTreeMap;
use std::ops::Range;

use scsi::application_client::sense::Reaction;
use scsi::application_client::target_port_groups::AccessState;

use super::super::*;
use super::host::identity;

const BLOCKS: u64 = 12;
const MOST_IOS: usize = 24;
const SEEDS: u64 = 300;
/// Times for which the target may still perform writes after a fence.
const SETTLE_US: [u64; 4] = [0, 1_000, 20_000, 1_000_000];

/// A small deterministic generator (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    fn per_mille(&mut self, share: u64) -> bool {
        self.within(0..1000) < share
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.within(0..choices.len() as u64) as usize]
    }
}

/// An I/O as seen by its submitter.
#[derive(Clone, Debug)]
struct Submitted {
    shape: IoShape,
    value: u64,
    submitted_us: u64,
    order: u64,
    on: Option<PathId>,
    sent: bool,
    answered_badly: bool,
    /// Whether its present attempt was answered with GOOD.
    answered_well: bool,
}

/// A write of a lost session that the target still has.
#[derive(Clone, Debug)]
struct Ghost {
    path: PathId,
    range: (u64, u64),
    value: u64,
    until_us: Option<u64>,
    /// Whether the target has said that the session is over.
    is_fenced: bool,
    /// Number of submissions at the time when the write was reported as done.
    reported: Option<u64>,
}

/// State of a path, as told to the device.
#[derive(Clone, Copy, Debug)]
struct Told {
    link: Link,
    access: AccessState,
}

struct World {
    dice: Dice,
    now_us: u64,
    device: Device,
    settings: Settings,
    out: Actions,
    ios: BTreeMap<IoId, Submitted>,
    ghosts: Vec<Ghost>,
    told: Vec<Told>,
    fences: Vec<PathId>,
    /// Path that does not exist right now.
    removed: Option<PathId>,
    orders: u64,
    all_down_since_us: Option<u64>,
    finished: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let settings = Settings {
            satp: dice.one_of(&[Satp::Alua, Satp::DefaultAa]),
            psp: dice.one_of(&Psp::ALL),
            round_robin: RoundRobin {
                iops: dice.one_of(&[1, 2, 1000]),
                use_ano: dice.per_mille(300),
                ..RoundRobin::default()
            },
            preferred_path: dice.per_mille(500).then(|| "vmhba64:C1:T0:L4".to_owned()),
            queue_depth: dice.one_of(&[1, 3, 8, 128]),
            fence_timeout_us: dice.one_of(&[None, Some(300_000), Some(5_000)]),
            fence_settle_us: dice.one_of(&SETTLE_US),
            apd_timeout_us: 2_000_000,
            command_time_limit_us: 20_000_000,
            ..Settings::default()
        };
        let paths = dice.within(1..5) as usize;
        let mut device = Device::new("naa.6001", settings.clone());
        for number in 0..paths as u32 {
            device.add_path(PathId(number), identity(number));
        }
        let told = Told {
            link: Link::Dead,
            access: AccessState::ActiveOptimized,
        };
        Self {
            dice,
            now_us: 0,
            device,
            settings,
            out: Actions::new(),
            ios: BTreeMap::new(),
            ghosts: Vec::new(),
            told: vec![told; paths],
            fences: Vec::new(),
            removed: None,
            orders: 0,
            all_down_since_us: Some(0),
            finished: 0,
        }
    }

    fn is_alive(&self) -> bool {
        let alive = |told: &Told| matches!(told.link, Link::Up | Link::Suspect);
        self.told.iter().any(alive)
    }

    fn link(&mut self, path: PathId, link: Link) {
        self.told[path.0 as usize].link = link;
        if self.is_alive() {
            self.all_down_since_us = None;
        } else {
            self.all_down_since_us.get_or_insert(self.now_us);
        }
    }

    /// Reports whether a ghost forbids the I/O. A ghost of the I/O itself whose session is over
    /// does so in two cases: something else writes the same blocks, or the I/O's success is a
    /// promise.
    fn forbidden(&self, io: &Submitted) -> bool {
        let overlaps = |range: (u64, u64)| {
            let shape = IoShape {
                range: Some(range),
                ..io.shape
            };
            shape.overlaps(&io.shape)
        };
        let mut others = self.ios.values().filter(|other| other.on.is_some());
        let is_raced = others.any(|other| {
            other.shape.direction.changes_blocks() && other.shape.range.is_some_and(overlaps)
        });
        let is_raced = is_raced || io.shape.durable;
        let mut ghosts = self.ghosts.iter().filter(|ghost| overlaps(ghost.range));
        if io.shape.direction.changes_blocks() {
            ghosts.any(|ghost| ghost.value != io.value || !ghost.is_fenced || is_raced)
        } else {
            let before = |ghost: &Ghost| ghost.reported.is_some_and(|orders| orders < io.order);
            io.shape.durable && self.ghosts.iter().any(before)
        }
    }

    /// Carries out the device's actions, and checks each of them.
    fn obey(&mut self) {
        for action in std::mem::take(&mut self.out) {
            match action {
                Action::Send { io, path } => self.send(io, path),
                Action::Finish { io, outcome } => self.finish(io, outcome),
                Action::Fence { path } => self.fences.push(path),
                Action::ActivateGroup { path } => {
                    let told = self.told[path.0 as usize];
                    assert_eq!((told.link, told.access), (Link::Up, AccessState::Standby));
                    let active = |t: &Told| t.link == Link::Up && t.access.is_active();
                    assert!(!self.told.iter().any(active), "a group taken without need");
                }
                Action::Probe { path } => {
                    assert_ne!(self.told[path.0 as usize].link, Link::Dead, "{path:?}");
                }
                Action::Refresh { .. } => {}
            }
        }
        let actv = self.ios.values().filter(|io| io.on.is_some()).count();
        let queue = self.device.queue_snapshot();
        assert_eq!(queue.actv as usize, actv);
        assert_eq!(queue.qued as usize, self.ios.len() - actv);
    }

    fn send(&mut self, id: IoId, path: PathId) {
        let told = self.told[path.0 as usize];
        assert_eq!(told.link, Link::Up, "{id:?} sent down {path:?}");
        assert!(told.access.is_active(), "{id:?} sent to {:?}", told.access);
        let io = self.ios.get(&id).expect("an I/O that was submitted");
        assert_eq!(io.on, None, "{id:?} is on two paths");
        assert!(!self.forbidden(io), "{id:?} sent while a ghost may land");
        if !io.sent {
            let waits = |other: &&Submitted| other.order < io.order && !other.sent;
            let passed = self.ios.values().filter(waits);
            for other in passed {
                assert!(self.forbidden(other), "{other:?} was overtaken by {io:?}");
            }
        }
        let active = self.ios.values().filter(|io| io.on.is_some()).count();
        assert!(active < self.settings.queue_depth as usize, "DQLEN");
        let io = self.ios.get_mut(&id).expect("looked up above");
        io.on = Some(path);
        io.sent = true;
    }

    fn finish(&mut self, id: IoId, outcome: Outcome) {
        let io = self.ios.remove(&id).expect("finished once");
        assert_eq!(io.on, None, "finished while on a path");
        self.finished += 1;
        if outcome == Outcome::Good {
            let is_own = |ghost: &&mut Ghost| ghost.value == io.value;
            let own = self.ghosts.iter_mut().filter(is_own);
            own.for_each(|ghost| ghost.reported = Some(self.orders));
            let before = |ghost: &Ghost| ghost.reported.is_some_and(|orders| orders < io.order);
            let is_flush = io.shape.direction == Direction::Other;
            let may_undo = |ghost: &Ghost| ghost.value == io.value || (is_flush && before(ghost));
            let is_broken = io.shape.durable && self.ghosts.iter().any(may_undo);
            assert!(!is_broken, "{id:?} promised to be durable may be undone");
        }
        let age_us = self.now_us - io.submitted_us;
        match outcome {
            Outcome::Good => assert!(io.answered_well, "{io:?} is done without an answer"),
            Outcome::Failed(Failure::AllPathsDown) => {
                let since_us = self.all_down_since_us.expect("a path lives");
                assert!(self.now_us - since_us >= self.settings.apd_timeout_us);
            }
            Outcome::Failed(Failure::DeviceLost) => {
                let mut told = (0..).map(PathId).zip(&self.told);
                assert!(told.all(|(path, told)| {
                    told.link == Link::UnitGone || self.removed == Some(path)
                }));
            }
            Outcome::Failed(Failure::NoActivePath | Failure::PathsKeepDying) => {
                assert!(age_us >= self.settings.command_time_limit_us, "{io:?}");
            }
            Outcome::Failed(Failure::Busy | Failure::ReservationConflict | Failure::Sense(_)) => {
                assert!(io.answered_badly, "{io:?} failed with {outcome:?}");
            }
        }
    }

    fn submit(&mut self) {
        let free = (0..MOST_IOS as u32).map(IoId);
        let Some(id) = free.into_iter().find(|id| !self.ios.contains_key(id)) else {
            return;
        };
        let at = self.dice.within(0..BLOCKS);
        let len = self.dice.within(1..(BLOCKS - at).min(3) + 1);
        let direction = self.dice.one_of(&[
            Direction::Read,
            Direction::Read,
            Direction::Write,
            Direction::Write,
            Direction::Unmap,
            Direction::Other,
        ]);
        let shape = IoShape {
            direction,
            bytes: len as u32 * 512,
            range: (direction != Direction::Other).then_some((at, len)),
            durable: direction != Direction::Read && self.dice.per_mille(300),
        };
        self.orders += 1;
        let value = self.orders;
        let io = Submitted {
            shape,
            value,
            submitted_us: self.now_us,
            order: self.orders,
            on: None,
            sent: false,
            answered_badly: false,
            answered_well: false,
        };
        self.ios.insert(id, io);
        self.device.submit(id, shape, self.now_us, &mut self.out);
        self.obey();
    }

    /// Ends an I/O on a path that answers.
    fn answer(&mut self, only_good: bool) {
        let up = |io: &Submitted| {
            let path = io.on.map(|path| self.told[path.0 as usize].link);
            matches!(path, Some(Link::Up | Link::UnitGone))
        };
        let on_paths: Vec<_> = self.ios.iter().filter(|(_, io)| up(io)).collect();
        let on_paths: Vec<IoId> = on_paths.into_iter().map(|(id, _)| *id).collect();
        if on_paths.is_empty() {
            return;
        }
        let id = self.dice.one_of(&on_paths);
        let path = self.ios[&id].on.expect("chosen for it");
        if self.told[path.0 as usize].link == Link::UnitGone {
            return self.end(id, path, Ended::Sense(Reaction::UnitGone));
        }
        if only_good || self.dice.per_mille(800) {
            return self.end(id, path, Ended::Good);
        }
        let how = self.dice.one_of(&[
            Ended::Busy,
            Ended::TaskSetFull,
            Ended::TaskAborted,
            Ended::Sense(Reaction::UnitAttention),
            Ended::Sense(Reaction::AccessStateChanged),
            Ended::Sense(Reaction::CapacityChanged),
            Ended::Sense(Reaction::Aborted),
            Ended::Sense(Reaction::Later),
            Ended::Sense(Reaction::HardwareError),
            Ended::Sense(Reaction::MediumError),
            Ended::Sense(Reaction::AccessState(AccessState::Standby)),
            Ended::Sense(Reaction::AccessState(AccessState::Transitioning)),
            Ended::Sense(Reaction::UnitGone),
            Ended::ReservationConflict,
        ]);
        self.end(id, path, how);
    }

    fn end(&mut self, id: IoId, path: PathId, how: Ended) {
        match how {
            Ended::Sense(Reaction::UnitGone) => self.link(path, Link::UnitGone),
            Ended::Sense(Reaction::AccessState(state)) => {
                self.told[path.0 as usize].access = state;
            }
            _ => {}
        }
        let io = self.ios.get_mut(&id).expect("on a path");
        io.on = None;
        io.answered_badly |= how != Ended::Good;
        io.answered_well = how == Ended::Good;
        self.device.ended(id, path, how, self.now_us, &mut self.out);
        self.obey();
    }

    /// Loses the path's session. The target's remains of it may still land, once.
    fn lose(&mut self, path: PathId) {
        let until_us = self.settings.fence_timeout_us.map(|us| self.now_us + us);
        let mut lost = Vec::new();
        for (id, io) in self.ios.iter_mut().filter(|(_, io)| io.on == Some(path)) {
            io.on = None;
            lost.push(*id);
            if let Some(range) = io
                .shape
                .range
                .filter(|_| io.shape.direction.changes_blocks())
            {
                self.ghosts.push(Ghost {
                    path,
                    range,
                    value: io.value,
                    until_us,
                    is_fenced: false,
                    reported: None,
                });
            }
        }
        self.link(path, Link::Dead);
        match lost.first() {
            // A failed I/O reports the loss as well as the session does.
            Some(io) if self.dice.per_mille(500) => {
                self.device
                    .ended(*io, path, Ended::TransportLost, self.now_us, &mut self.out);
            }
            _ => self.device.path_dead(path, self.now_us, &mut self.out),
        }
        let fence = self.out.contains(&Action::Fence { path });
        let mut ghosts = self.ghosts.iter();
        let is_needed = ghosts.any(|ghost| ghost.path == path && !ghost.is_fenced);
        assert_eq!(fence, is_needed, "a fence is asked for where one is needed");
        self.obey();
        // A stale answer must change nothing.
        for io in lost {
            let on_it = self.ios.get(&io).is_some_and(|io| io.on == Some(path));
            if !on_it {
                let (now_us, out) = (self.now_us, &mut self.out);
                self.device.ended(io, path, Ended::Good, now_us, out);
                assert!(self.out.is_empty());
            }
        }
    }

    /// Performs a LOGIN, which ends all earlier sessions of a path, and perhaps a second LOGIN. The
    /// target's remains of the sessions may land until it has settled, counted from the first
    /// LOGIN.
    fn fence(&mut self) {
        let Some(path) = self.fences.pop() else {
            return;
        };
        if self.dice.per_mille(300) {
            self.fences.push(path);
        }
        let settled_us = self.now_us + self.settings.fence_settle_us;
        for ghost in self.ghosts.iter_mut().filter(|ghost| ghost.path == path) {
            if !std::mem::replace(&mut ghost.is_fenced, true) {
                ghost.until_us = Some(settled_us);
            }
        }
        self.end_ghosts();
        self.device.path_fenced(path, self.now_us, &mut self.out);
        assert!(!self.device.needs_fence(path));
        self.obey();
    }

    /// Forgets the ghosts whose time is over.
    fn end_ghosts(&mut self) {
        let now_us = self.now_us;
        let lasts = |ghost: &Ghost| ghost.until_us.is_none_or(|until_us| until_us > now_us);
        self.ghosts.retain(lasts);
    }

    fn flap(&mut self) {
        let path = PathId(self.dice.within(0..self.told.len() as u64) as u32);
        let now_us = self.now_us;
        match self.told[path.0 as usize].link {
            Link::Dead => {
                self.link(path, Link::Up);
                self.device.path_up(path, now_us, &mut self.out);
            }
            Link::UnitGone if self.dice.per_mille(500) => {
                self.link(path, Link::Up);
                self.device.unit_present(path, now_us, &mut self.out);
            }
            Link::Suspect if self.dice.per_mille(500) => {
                self.link(path, Link::Up);
                self.device.path_up(path, now_us, &mut self.out);
            }
            Link::Up if self.dice.per_mille(500) => {
                self.link(path, Link::Suspect);
                self.device.path_suspect(path, now_us, &mut self.out);
            }
            Link::Up | Link::Suspect | Link::UnitGone => return self.lose(path),
        }
        self.obey();
    }

    fn change_access(&mut self) {
        let path = PathId(self.dice.within(0..self.told.len() as u64) as u32);
        let state = self.dice.one_of(&[
            AccessState::ActiveOptimized,
            AccessState::ActiveOptimized,
            AccessState::ActiveNonOptimized,
            AccessState::Standby,
            AccessState::Unavailable,
            AccessState::Transitioning,
        ]);
        self.told[path.0 as usize].access = state;
        let (now_us, out) = (self.now_us, &mut self.out);
        if self.dice.per_mille(500) {
            self.device.alua_state(path, state, now_us, out);
        } else {
            let group = path.0 as u16;
            self.device.alua_group(group, state, false, now_us, out);
        }
        self.obey();
    }

    fn change_settings(&mut self) {
        self.settings.psp = self.dice.one_of(&Psp::ALL);
        self.settings.queue_depth = self.dice.one_of(&[1, 3, 8, 128]);
        self.settings.fence_settle_us = self.dice.one_of(&SETTLE_US);
        let settings = self.settings.clone();
        self.device
            .set_settings(settings, self.now_us, &mut self.out);
        self.obey();
    }

    /// Removes a path for good, and adds a new one with its number.
    fn replace_path(&mut self) {
        let path = PathId(self.dice.within(0..self.told.len() as u64) as u32);
        if self.told[path.0 as usize].link != Link::Dead {
            self.lose(path);
        }
        self.removed = Some(path);
        self.device.remove_path(path, self.now_us, &mut self.out);
        self.obey();
        self.removed = None;
        self.told[path.0 as usize].access = AccessState::ActiveOptimized;
        self.device.add_path(path, identity(path.0));
    }

    fn pass_time(&mut self, most_us: u64) {
        let step_us = self.dice.within(1..most_us + 1);
        self.now_us += step_us;
        let due_us = self.device.next_deadline().unwrap_or(0);
        if self.dice.per_mille(300) {
            self.now_us = self.now_us.max(due_us.min(self.now_us + 3_000_000));
        }
        let now_us = self.now_us;
        self.end_ghosts();
        self.device.tick(now_us, &mut self.out);
        self.obey();
        let late = self.device.next_deadline().filter(|due| *due <= now_us);
        assert_eq!(late, None, "tick left something undone");
    }

    fn cancel(&mut self) {
        let ids: Vec<_> = self.ios.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let id = self.dice.one_of(&ids);
        let waits = self.ios[&id].on.is_none();
        assert_eq!(self.device.cancel(id), waits);
        if waits {
            self.ios.remove(&id);
        }
    }

    fn step(&mut self) {
        match self.dice.within(0..100) {
            0..35 => self.submit(),
            35..75 => self.answer(false),
            75..83 => self.flap(),
            83..86 => self.change_access(),
            86..90 => self.fence(),
            90..92 => self.cancel(),
            92 => self.change_settings(),
            93 => self.replace_path(),
            94..99 => self.pass_time(5_000),
            _ => self.pass_time(1_500_000),
        }
    }

    /// Makes everything healthy again, after which every I/O must end.
    fn settle(&mut self) {
        for at in 0..self.told.len() {
            let path = PathId(at as u32);
            self.link(path, Link::Up);
            self.device.path_up(path, self.now_us, &mut self.out);
            self.obey();
            self.told[at].access = AccessState::ActiveOptimized;
            let (now_us, out) = (self.now_us, &mut self.out);
            let state = AccessState::ActiveOptimized;
            self.device.alua_state(path, state, now_us, out);
            self.obey();
        }
        for _ in 0..10_000 {
            if self.ios.is_empty() {
                return;
            }
            self.fence();
            self.answer(true);
            self.pass_time(10_000);
        }
        panic!("starved: {:?}", self.ios);
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..1_500 {
        world.step();
    }
    world.settle();
    assert!(world.finished > 0);
}

#[test]
fn random_events_break_no_invariant() {
    let chosen = std::env::var("SANDSTONE_SEED").ok();
    if let Some(seed) = chosen.and_then(|seed| seed.parse().ok()) {
        return run(seed);
    }
    for seed in 0..SEEDS {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("SANDSTONE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

//! Proves that no other host has a pool, before the pool is opened.
//!
//! The code is sans-IO, as all of the store: the reads and writes go out in
//! [`Takeover::take_requests`], and the answers and the time come in. For the reason of each wait's
//! length, see `../activity.rs`.

use std::collections::BTreeMap;
use std::fmt;

use pages::Pages;

use super::pace::{Pace, Turns};
use super::protection::{COPIES, Protection, Seen};
use crate::format::{Activity, ActivityState, PoolKey, Who};

/// Time between two looks at all records.
const POLL_US: u64 = 200_000;
/// Longest time from the last look to the last answer of the claim that still allows the short
/// wait.
const QUICK_US: u64 = 250_000;
/// Time for which a claim must lie there before it counts, if no host had the pool.
const SHORT_US: u64 = 2 * QUICK_US;
/// Allowance for the difference of two clocks, and for the time that a machine needs to act.
const SLACK_US: u64 = 250_000;
/// Time after which a device that has not answered is left out.
const GIVE_UP_US: u64 = 20_000_000;
/// Attempts to write a claim in time before the opener gives up.
const ATTEMPTS: u32 = 5;

/// Facts about a pool and its opener that decide how the pool is taken over.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// Key of the pool.
    pub key: PoolKey,
    /// Identity of the opener.
    pub who: Who,
    /// Random number of this opening.
    pub opening: u64,
    /// Second random number; it decides a share of the wait.
    pub chance: u64,
    /// Pace to begin with.
    pub pace: Pace,
    /// Whether the labels say that any host may import the pool.
    pub is_exported: bool,
    /// Host that the labels name.
    pub host: String,
    /// Whether nothing is to be written.
    pub is_read_only: bool,
}

/// Request to read or write a record: one sector at [`crate::format::activity::ACTIVITY_OFFSET`] of
/// a label copy.
#[derive(Clone, Debug)]
pub struct RecordRequest {
    /// Number of the round, to be handed back with the answer.
    pub round: u64,
    /// Device, as a position in the list given to [`Takeover::new`].
    pub device: usize,
    /// Number of the label copy.
    pub copy: usize,
    /// Bytes to write; `None` for a read.
    pub write: Option<Pages>,
}

/// Result of an opener that won: the pool is its own.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Protection from now on; `None` if the pool is only read.
    pub protection: Option<Protection>,
    /// Devices that did not take part. They must not be used.
    pub left_out: Vec<usize>,
}

/// Reason why the opener cannot have the pool. If another host is active, nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The pool is open on another host.
    Active(Box<Activity>),
    /// The pool is being taken by another host at this moment.
    Contested(Box<Activity>),
    /// The devices are too slow to write the claim in time.
    Slow,
    /// No device answers.
    NoDevice,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(by) => write!(
                f,
                "{} has the pool open: its activity record changed while this host watched",
                by.who.machine()
            ),
            Self::Contested(by) => {
                write!(
                    f,
                    "{} is importing the pool at this moment",
                    by.who.machine()
                )
            }
            Self::Slow => f.write_str("the pool's devices are too slow to claim it in time"),
            Self::NoDevice => f.write_str("no device of the pool takes an activity record"),
        }
    }
}

/// Event that an opener waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The opener reads the records for the first time.
    Looks,
    /// The opener watches whether the host that had the pool still writes records.
    Watches(Box<Activity>),
    /// The opener watches whether an unknown host writes records.
    WatchesUnknown,
    /// The opener waits for another host to object to its claim.
    Verifies,
}

/// Progress of an opener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Event that the opener waits for.
    pub waits: Waits,
    /// Time at which the opener expects to be done.
    pub until_us: u64,
}

#[derive(Debug)]
struct Device {
    guid: u64,
    is_out: bool,
    seen: [Seen; COPIES],
    /// Label copies that cannot be read or written.
    is_dead: [bool; COPIES],
    turns: Turns,
}

/// Round of reads or writes of all records, which are under way together.
#[derive(Debug, Default)]
struct Round {
    number: u64,
    since_us: u64,
    waiting: Vec<(usize, usize)>,
    /// Record of another host that was not there before.
    new: Option<Box<Activity>>,
    /// All records that could be read, except those of this opening.
    found: Vec<Activity>,
    /// Devices where a copy that had this opening's claim no longer has a record.
    odd: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakeoverStage {
    Looking,
    Watching {
        until_us: u64,
    },
    /// The claim came too late after the last look.
    LookingAgain,
    Claiming,
    Verifying {
        until_us: u64,
    },
    Over,
}

/// Opener: the host that wants the pool, and how far it got.
#[derive(Debug)]
pub struct Takeover {
    of: Circumstances,
    devices: Vec<Device>,
    stage: TakeoverStage,
    round: Round,
    next_us: u64,
    requests: Vec<RecordRequest>,
    turn: u64,
    /// Newest record of the host that had the pool last.
    last: Option<Box<Activity>>,
    /// Longest time that the last owner continues without a record; the next field is its longest
    /// interval between two.
    promise_us: u64,
    interval_us: u64,
    /// Whether another host may have the pool. Then the claim must lie there for longer than that
    /// host continues.
    is_long: bool,
    looked_us: u64,
    attempts: u32,
    outcome: Option<Result<Taken, Refusal>>,
}

fn installation(host: &str) -> Option<&str> {
    host.rsplit('/').next().filter(|of| !of.is_empty())
}

impl Takeover {
    /// Begins to look at the records on devices, which are given by the guids of their leaves.
    pub fn new(of: Circumstances, leaves: &[u64], now_us: u64) -> Self {
        let device = |guid: &u64| Device {
            guid: *guid,
            is_out: false,
            seen: [Seen::Unknown; COPIES],
            is_dead: [false; COPIES],
            turns: Turns::default(),
        };
        let pace = of.pace;
        let mut takeover = Self {
            of,
            devices: leaves.iter().map(device).collect(),
            stage: TakeoverStage::Looking,
            round: Round::default(),
            next_us: now_us,
            requests: Vec::new(),
            turn: 0,
            last: None,
            promise_us: pace.promise_us,
            interval_us: pace.interval_us,
            is_long: false,
            looked_us: now_us,
            attempts: 0,
            outcome: None,
        };
        takeover.begin_round(None, now_us);
        takeover
    }

    /// Takes the requests to read and write records.
    pub fn take_requests(&mut self) -> Vec<RecordRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Returns the time at which [`Takeover::tick`] is to be called, unless an answer comes before.
    pub fn deadline_us(&self) -> Option<u64> {
        match (&self.outcome, self.round.waiting.is_empty()) {
            (Some(_), _) => None,
            (None, true) => Some(self.next_us),
            (None, false) => Some(self.round.since_us + GIVE_UP_US),
        }
    }

    /// Returns the outcome; `None` if the opener is not done yet.
    pub fn outcome(&self) -> Option<&Result<Taken, Refusal>> {
        self.outcome.as_ref()
    }

    /// Returns the event that the opener waits for, and the time at which it expects to be done.
    pub fn progress(&self, now_us: u64) -> Progress {
        let verifies_us = match self.is_long {
            true => self.long_us(),
            false => SHORT_US,
        };
        let (waits, until_us) = match self.stage {
            TakeoverStage::Watching { until_us } => {
                let last = self.last.clone();
                let waits = last.map_or(Waits::WatchesUnknown, Waits::Watches);
                let claims = !self.of.is_read_only;
                (waits, until_us + if claims { verifies_us } else { 0 })
            }
            TakeoverStage::Verifying { until_us } => (Waits::Verifies, until_us),
            TakeoverStage::Claiming | TakeoverStage::LookingAgain => {
                (Waits::Verifies, now_us + verifies_us)
            }
            TakeoverStage::Looking | TakeoverStage::Over => (Waits::Looks, now_us),
        };
        Progress { waits, until_us }
    }

    /// Returns a wait that is longer than the last owner continues without noticing a claim. A copy
    /// that is dead for this host alone may be the one that the owner looks at next.
    fn long_us(&self) -> u64 {
        let devices = self.devices.iter().filter(|device| !device.is_out);
        let dead = devices.map(|device| device.is_dead.iter().filter(|is| **is).count());
        let blind = 2 + dead.max().unwrap_or(0) as u64;
        self.promise_us + self.promise_us / 16 + blind * self.interval_us + SLACK_US
    }

    /// Reads all records, or writes `write` over all of them.
    fn begin_round(&mut self, write: Option<&Pages>, now_us: u64) {
        self.round = Round {
            number: self.round.number + 1,
            since_us: now_us,
            ..Round::default()
        };
        let devices = self.devices.iter().enumerate();
        for (device, of) in devices.filter(|(_, of)| !of.is_out) {
            for copy in (0..COPIES).filter(|copy| !of.is_dead[*copy]) {
                self.round.waiting.push((device, copy));
                self.requests.push(RecordRequest {
                    round: self.round.number,
                    device,
                    copy,
                    write: write.cloned(),
                });
            }
        }
        if self.round.waiting.is_empty() {
            self.outcome = Some(Err(Refusal::NoDevice));
        }
    }

    /// Takes the answer to a request: the sector, or `None` if the request failed.
    pub fn completed(&mut self, request: &RecordRequest, answer: Option<&Pages>, now_us: u64) {
        let place = (request.device, request.copy);
        let waiting = &mut self.round.waiting;
        let of_round = waiting.iter().position(|of| *of == place);
        let Some(at) = of_round.filter(|_| request.round == self.round.number) else {
            return;
        };
        waiting.swap_remove(at);
        let device = &mut self.devices[request.device];
        let seen = &mut device.seen[request.copy];
        match (&request.write, answer) {
            (_, None) => {
                device.is_dead[request.copy] = true;
                device.is_out |= device.is_dead == [true; COPIES];
            }
            (Some(_), Some(_)) => *seen = Seen::Own,
            (None, Some(sector)) => {
                device.turns.note(2 * (now_us - self.round.since_us));
                let found = Activity::decode(sector, self.of.key);
                let now = match &found {
                    None => Seen::Nothing,
                    Some(found) if found.opening == self.of.opening => Seen::Own,
                    Some(found) => Seen::Other(found.opening, found.sequence),
                };
                let is_new = *seen != Seen::Unknown && now != *seen;
                if let Some(found) = found.filter(|_| now != Seen::Own) {
                    if is_new {
                        self.round.new = Some(Box::new(found.clone()));
                    }
                    self.round.found.push(found);
                }
                if now == Seen::Nothing && *seen == Seen::Own {
                    self.round.odd.push(request.device);
                } else {
                    *seen = now;
                }
            }
        }
        if self.round.waiting.is_empty() {
            self.end_round(now_us);
        }
    }

    /// Takes the time.
    pub fn tick(&mut self, now_us: u64) {
        if self.outcome.is_some() {
            return;
        }
        if !self.round.waiting.is_empty() {
            if now_us >= self.round.since_us + GIVE_UP_US {
                for (device, _) in std::mem::take(&mut self.round.waiting) {
                    self.devices[device].is_out = true;
                }
                self.end_round(now_us);
            }
        } else if now_us >= self.next_us {
            self.begin_round(None, now_us);
        }
    }

    fn end_round(&mut self, now_us: u64) {
        let new = self.round.new.take();
        match (self.stage, new) {
            (TakeoverStage::Looking, _) => self.decide(now_us),
            (TakeoverStage::Watching { .. }, Some(by)) => self.refuse(Refusal::Active(by)),
            (TakeoverStage::LookingAgain | TakeoverStage::Verifying { .. }, Some(by)) => {
                self.refuse(Refusal::Contested(by));
            }
            (TakeoverStage::Watching { until_us }, None) if self.round.since_us >= until_us => {
                self.claim(now_us);
            }
            (TakeoverStage::LookingAgain, None) => self.claim(now_us),
            (TakeoverStage::Claiming, _) => self.claimed(now_us),
            (TakeoverStage::Verifying { until_us }, None) if self.round.since_us >= until_us => {
                for device in std::mem::take(&mut self.round.odd) {
                    self.devices[device].is_out = true;
                }
                self.succeed();
            }
            (TakeoverStage::Watching { .. } | TakeoverStage::Verifying { .. }, None) => {
                self.next_us = now_us + POLL_US;
            }
            (TakeoverStage::Over, _) => {}
        }
    }

    /// Decides what to do when all records were read once.
    fn decide(&mut self, now_us: u64) {
        let found = std::mem::take(&mut self.round.found);
        let newest = found
            .iter()
            .max_by_key(|of| (of.turn, of.sequence))
            .cloned();
        self.turn = newest.as_ref().map_or(0, |of| of.turn) + 1;
        let of_turn = found.iter().filter(|of| of.turn + 1 == self.turn);
        for record in of_turn {
            self.promise_us = self.promise_us.max(record.promise_us);
            self.interval_us = self.interval_us.max(record.interval_us);
        }
        let is_exported = self.of.is_exported;
        let is_own = installation(&self.of.host) == installation(&self.of.who.host);
        let is_closed = newest
            .as_ref()
            .is_none_or(|of| of.state == ActivityState::Closed);
        let is_this_boot = newest.as_ref().is_some_and(|of| {
            installation(&of.who.host) == installation(&self.of.who.host)
                && of.who.boot == self.of.who.boot
        });
        let is_reboot = newest
            .as_ref()
            .is_some_and(|of| installation(&of.who.host) == installation(&self.of.who.host));
        self.last = newest.map(Box::new);
        let share_us = self.of.chance % self.interval_us.max(1);
        let watch_us = match () {
            // The lock on the pool's devices keeps other processes of this machine out.
            () if is_this_boot && is_own && !is_exported => return self.succeed(),
            () if is_closed && (is_exported || is_own) => None,
            () if is_reboot => Some(2 * self.interval_us + share_us),
            () => Some(self.long_us() + share_us),
        };
        match watch_us {
            Some(watch_us) => {
                self.is_long = true;
                let until_us = now_us + watch_us;
                self.stage = TakeoverStage::Watching { until_us };
                self.next_us = now_us + POLL_US;
            }
            None => self.claim(now_us),
        }
    }

    /// Writes a claim, since the round that ended saw no host that has the pool.
    fn claim(&mut self, now_us: u64) {
        if self.of.is_read_only {
            return self.succeed();
        }
        self.looked_us = self.round.since_us;
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            return self.refuse(Refusal::Slow);
        }
        let mut pace = self.of.pace;
        pace.adapt(self.devices.iter().map(|device| &device.turns));
        self.of.pace = pace;
        let claim = Activity {
            state: ActivityState::Claimed,
            who: self.of.who.clone(),
            opening: self.of.opening,
            turn: self.turn,
            sequence: self.attempts.into(),
            interval_us: pace.interval_us,
            promise_us: pace.promise_us,
        };
        self.stage = TakeoverStage::Claiming;
        self.begin_round(Some(&claim.encode(self.of.key)), now_us);
    }

    /// Continues when the claim lies on all devices.
    fn claimed(&mut self, now_us: u64) {
        let took_us = now_us - self.looked_us;
        self.is_long |= took_us > QUICK_US;
        if took_us > self.interval_us {
            self.stage = TakeoverStage::LookingAgain;
            return self.begin_round(None, now_us);
        }
        let wait_us = match self.is_long {
            true => self.long_us(),
            false => SHORT_US,
        };
        let until_us = now_us + wait_us;
        self.stage = TakeoverStage::Verifying { until_us };
        self.next_us = now_us + POLL_US.min(wait_us);
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.stage = TakeoverStage::Over;
        self.outcome = Some(Err(refusal));
    }

    fn succeed(&mut self) {
        self.stage = TakeoverStage::Over;
        let out = self.devices.iter().enumerate();
        let left_out: Vec<usize> = (out.filter(|(_, device)| device.is_out))
            .map(|(number, _)| number)
            .collect();
        if left_out.len() == self.devices.len() {
            return self.refuse(Refusal::NoDevice);
        }
        let seen: BTreeMap<u64, [Seen; COPIES]> = (self.devices.iter())
            .map(|device| (device.guid, device.seen))
            .collect();
        let protection = Protection {
            who: self.of.who.clone(),
            opening: self.of.opening,
            turn: self.turn,
            sequence: self.attempts.into(),
            pace: self.of.pace,
            seen,
        };
        self.outcome = Some(Ok(Taken {
            protection: (!self.of.is_read_only).then_some(protection),
            left_out,
        }));
    }
}

//! Hosts that take the device from each other by persistent reservations, as hosts of one pool do
//! when the other one does not answer. The host that lost it need not know, and goes on writing.
//!
//! Proof of who owns the data comes from elsewhere, as for a pool: a host begins to own it when it
//! begins to take the device.

use block::fence::{End, FenceOrder, Fencing, Goal};

use super::{Asked, Duration, Event, Meant, World, within};

/// Time after which a host that could not take the device tries again.
const AGAIN: Duration = Duration::from_millis(300);

/// Possession of the device.
#[derive(Debug, Default)]
pub(super) struct Possession {
    /// Host that has the device.
    holder: Option<usize>,
    /// Host that takes it.
    taker: Option<usize>,
    /// Orders that are under way, each with its host and goal.
    orders: Vec<(usize, Goal, Fencing)>,
    /// Hosts that have lost the device, and may not know it.
    losers: Vec<usize>,
    openings: u64,
}

impl Possession {
    /// Reports whether a host may make requests: it has the device, or believes so.
    pub(super) fn lets_work(&self, host: usize) -> bool {
        self.holder == Some(host) || (self.losers.contains(&host) && self.taker != Some(host))
    }

    /// Reports whether a host has lost the device, or loses it now.
    pub(super) fn may_fail(&self, host: usize) -> bool {
        self.holder != Some(host) || self.taker.is_some()
    }

    /// Reports whether the device is being taken.
    pub(super) fn is_moving(&self) -> bool {
        self.taker.is_some()
    }

    pub(super) fn holder(&self) -> Option<usize> {
        self.holder
    }
}

impl World {
    /// Lets a host take the device from the one that has it, once its own requests are over.
    pub(super) fn take_over(&mut self, host: usize, now: Duration) {
        if self.possession.holder == Some(host) || !self.is_busy() {
            return;
        }
        self.possession.taker = Some(host);
        if self.under_way[host] > 0 || self.hosts[host].device().is_none() {
            self.last_end = now;
            return self.schedule.add(now + AGAIN, Event::TakeOver(host));
        }
        self.possession.openings += 1;
        self.order(host, Goal::Register);
    }

    fn order(&mut self, host: usize, goal: Goal) {
        if self.tells {
            println!("{:?} host {host}: {goal:?}", self.schedule.now());
        }
        let fence = self.hosts[host].fence(self.possession.openings);
        let order = FenceOrder { fence, goal };
        let fencing = self.hosts[host].order(order);
        self.possession.orders.push((host, goal, fencing));
        self.step(host);
    }

    /// Goes on with what hosts were ordered to do.
    pub(super) fn look_at_orders(&mut self, host: usize) {
        let orders = self.possession.orders.iter();
        let ended = orders.enumerate().find_map(|(at, (of, goal, fencing))| {
            let end = fencing.try_recv().ok().filter(|_| *of == host)?;
            Some((at, *goal, end))
        });
        let Some((at, goal, end)) = ended else {
            return;
        };
        self.possession.orders.remove(at);
        let now = self.schedule.now();
        self.last_end = now;
        match (goal, end) {
            (Goal::Register, End::Done) => {
                self.owner.set(host);
                self.order(host, Goal::Take { force: true });
            }
            (Goal::Take { .. }, End::Done) => self.taken(host, now),
            (_, End::Failed(_)) => self.schedule.add(now + AGAIN, Event::TakeOver(host)),
            (goal, end) => panic!("{goal:?} ended with {end:?}"),
        }
    }

    /// Notes that a host has the device. What others wrote and were not answered is over.
    fn taken(&mut self, host: usize, now: Duration) {
        self.report.takeovers += 1;
        let loser = self.possession.holder.replace(host);
        self.possession.taker = None;
        self.possession.losers.retain(|other| *other != host);
        self.possession.losers.extend(loser);
        for asked in self.asked.values_mut().filter(|asked| !asked.is_over) {
            asked.is_over = true;
            if let Meant::Write(number) = asked.meant {
                self.ledger.end(number, false);
            }
        }
        self.is_full[host] = false;
        self.schedule_work(host);
        self.schedule_take_over(now);
    }

    fn schedule_take_over(&mut self, now: Duration) {
        let holder = self.possession.holder.unwrap_or_default();
        let next = (holder + 1) % self.hosts.len();
        let pause = within(Duration::from_secs(1), &mut self.random);
        self.schedule.add(now + pause, Event::TakeOver(next));
    }

    /// Judges the end of a request of a host that may have lost the device.
    pub(super) fn ended_in_vain(&mut self, asked: &Asked, why: &str) {
        let may_fail = self.climate.has_reservations && self.possession.may_fail(asked.host);
        let now = self.schedule.now();
        assert!(
            asked.is_over || may_fail,
            "{asked:?} failed at {now:?}: {why}"
        );
        if let (Meant::Write(number), false) = (&asked.meant, asked.is_over) {
            self.ledger.end(*number, false);
        }
    }
}

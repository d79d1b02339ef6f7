//! Hosts and their paths: connecting, sending, giving up, and moving commands from path to path.

use std::time::Duration;

use super::{Event, HOSTS, SCRATCH, SHARED, World};
use crate::network::{ConnectionId, End};

/// Time after which a host aborts a command that others may have ended without a word.
const OVERDUE: Duration = Duration::from_secs(60);

impl World {
    /// Handles bytes that arrived at a port.
    pub(super) fn arrived(&mut self, id: ConnectionId) {
        let now = self.schedule.now();
        let bytes = self.network.take(id, End::Initiator, now);
        let port = self.owners[&id];
        let initiator = &mut self.ports[port].initiator;
        let is_heard = !self.deaf.contains(&id) && initiator.connection() == Some(id);
        if bytes.is_empty() || !is_heard {
            return;
        }
        let was_in = initiator.is_logged_in();
        let out = initiator.receive(&bytes, now);
        let is_in = initiator.is_logged_in();
        self.send(id, End::Target, &out);
        if is_in && !was_in {
            self.landings.logged_in(port, id);
        }
        self.take_ended(port);
        if is_in && !was_in {
            self.start_commands(port);
            self.hog(port, id);
        }
    }

    /// Handles the end of a connection at its port.
    pub(super) fn lost(&mut self, id: ConnectionId) {
        let port = self.owners[&id];
        if self.ports[port].initiator.connection() == Some(id) && !self.network.is_silent(id) {
            self.close(port);
        }
    }

    fn close(&mut self, port: usize) {
        self.landings.disturb(port);
        self.ports[port].initiator.closed();
        let pause = Duration::from_millis(self.random.within(0..3000));
        let at = self.schedule.now() + pause;
        self.schedule.add(at, Event::Wake(port));
    }

    /// Closes a connection under its commands, as a host does that gives up a path.
    pub(super) fn part(&mut self, port: usize, id: ConnectionId) {
        self.landings.disturb(port);
        self.ports[port].initiator.closed();
        self.ports[port].parting = Some(id);
        if !self.target.serves(id) {
            // The target has closed it already.
            return self.parted(port);
        }
        let at = self.network.last_arrival(id, End::Target);
        self.schedule.add(at, Event::Closed(id, End::Target));
    }

    /// Goes on when the target has closed a connection that the host closed: its writes are over or
    /// fenced off, so other paths may take its commands.
    pub(super) fn parted(&mut self, port: usize) {
        self.ports[port].parting = None;
        let other = self.another_port(port);
        for (number, job) in self.ports[port].initiator.take_ready() {
            self.meant
                .get_mut(&number)
                .expect("it has not ended")
                .is_moved = true;
            self.ports[other].initiator.submit(number, job);
        }
        self.start_commands(other);
        let pause = Duration::from_millis(self.random.within(0..3000));
        let at = self.schedule.now() + pause;
        self.schedule.add(at, Event::Wake(port));
    }

    fn another_port(&mut self, port: usize) -> usize {
        let paths = self.climate.paths;
        let first = port / paths * paths;
        match paths {
            1 => port,
            _ => first + (port - first + 1) % paths,
        }
    }

    /// Lets a port connect, or make more commands.
    pub(super) fn wake(&mut self, port: usize) {
        let now = self.schedule.now();
        let of = &self.ports[port];
        if of.initiator.is_over() || of.parting.is_some() {
            return;
        }
        let host = of.host;
        if of.initiator.wants_connection() {
            self.connect(port);
        }
        let left = self.left[host];
        self.think(port);
        if self.left[host] < left {
            // Faults must come to an end, so there are none while all wait for each other.
            self.faults();
        }
        if self.left[host] > 0 {
            let pause = Duration::from_millis(self.random.within(0..60));
            self.schedule.add(now + pause, Event::Wake(port));
        }
    }

    fn connect(&mut self, port: usize) {
        let now = self.schedule.now();
        let id = self.network.connect();
        self.report.connections += 1;
        self.owners.insert(id, port);
        self.target.accept(id, port % self.climate.paths, now);
        let of = &mut self.ports[port];
        of.first_issued.clear();
        of.first_answers.clear();
        of.is_disturbed = false;
        let request = of.initiator.connect(id, now);
        self.send(id, End::Target, &request);
    }

    /// Makes a burst of commands.
    fn think(&mut self, port: usize) {
        let host = self.ports[port].host;
        let is_modest = self.climate.hogs > 0 && host < HOSTS;
        if is_modest && self.meant.values().any(|meant| meant.host == host) {
            // It has one command at a time, for which its own part of the memory is enough.
            return;
        }
        let burst = match is_modest {
            true => 1,
            false => self.random.within(1..8).min(self.left[host]),
        };
        for _ in 0..burst.min(self.left[host]) {
            let Some((number, job)) = self.new_command(host) else {
                break;
            };
            self.left[host] -= 1;
            self.ports[port].initiator.submit(number, job);
        }
        self.resume(port);
        self.abort_something(port);
    }

    /// Sends what waits at a port, if it has a session.
    pub(super) fn resume(&mut self, port: usize) {
        if self.ports[port].initiator.is_logged_in() {
            self.start_commands(port);
        }
    }

    fn abort_something(&mut self, port: usize) {
        if !self.random.per_mille(self.climate.aborts_per_mille) {
            return;
        }
        let jobs = self.ports[port].initiator.jobs.keys();
        let may = |number: &u64| !(self.meant[number].is_aborting || self.meant[number].is_moved);
        let numbers = jobs.copied().filter(may);
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        if !numbers.is_empty() {
            let number = self.random.one_of(&numbers);
            self.abort(port, number);
        }
    }

    fn abort(&mut self, port: usize, number: u64) {
        let out = self.ports[port].initiator.abort(number);
        if let (false, Some(id)) = (out.is_empty(), self.ports[port].initiator.connection()) {
            self.meant
                .get_mut(&number)
                .expect("it has not ended")
                .is_aborting = true;
            self.send(id, End::Target, &out);
        }
    }

    /// Lets a port that takes memory hear nothing more, so that it sends none of the data that it
    /// is asked for.
    fn hog(&mut self, port: usize, id: ConnectionId) {
        if self.ports[port].host >= HOSTS && self.random.per_mille(700) {
            self.deaf.insert(id);
        }
    }

    /// Handles a second of a port: pings, silent connections, commands that rest or are overdue.
    pub(super) fn tick_port(&mut self, port: usize) {
        let now = self.schedule.now();
        let id = self.ports[port].initiator.connection();
        let was_in = self.ports[port].initiator.is_logged_in();
        match (self.ports[port].initiator.tick(now), id) {
            (Some(out), Some(id)) => self.send(id, End::Target, &out),
            (Some(_), None) => {}
            (None, id) => {
                let id = id.expect("only a connection is given up");
                let is_silent = self.network.is_silent(id) || self.deaf.contains(&id);
                // A login may wait for writes of the session before.
                assert!(is_silent || !was_in, "a slow target was given up");
                if !self.network.is_silent(id) {
                    let at = self.network.last_arrival(id, End::Target);
                    self.schedule.add(at, Event::Closed(id, End::Target));
                }
                self.close(port);
            }
        }
        self.wake_the_resting(port);
        for number in self.overdue(port) {
            self.abort(port, number);
        }
        self.resume(port);
        self.log_out_at_the_end(port);
    }

    fn wake_the_resting(&mut self, port: usize) {
        let resting = std::mem::take(&mut self.resting);
        let (mine, others) = resting.into_iter().partition(|(of, _)| *of == port);
        self.resting = others;
        let mine: Vec<(usize, u64)> = mine;
        if mine.is_empty() {
            return;
        }
        // These jobs have ended on this path, so any path may run them again.
        let other = match self.random.per_mille(500) {
            true => self.another_port(port),
            false => port,
        };
        for (_, number) in mine {
            let job = self.ports[port].initiator.jobs.remove(&number);
            let mut job = job.expect("it has not ended");
            job.data_in.clear();
            self.ports[other].initiator.submit(number, job);
        }
        self.resume(other);
    }

    /// Returns the commands of a port that others may have ended without a word.
    fn overdue(&self, port: usize) -> Vec<u64> {
        let now = self.schedule.now();
        let jobs = self.ports[port].initiator.jobs.keys();
        let overdue = jobs.copied().filter(|number| {
            let meant = &self.meant[number];
            let is_shared = matches!(meant.lun, SHARED | SCRATCH);
            is_shared && !meant.is_aborting && now.saturating_sub(meant.issued) > OVERDUE
        });
        let mut overdue: Vec<u64> = overdue.collect();
        overdue.sort_unstable();
        overdue
    }

    fn log_out_at_the_end(&mut self, port: usize) {
        let host = self.ports[port].host;
        let is_idle = self.left[host] == 0 && !self.meant.values().any(|meant| meant.host == host);
        let initiator = &mut self.ports[port].initiator;
        if is_idle && let Some(id) = initiator.connection() {
            self.landings.disturb(port);
            self.ports[port].is_disturbed = true;
            let out = self.ports[port].initiator.log_out();
            self.send(id, End::Target, &out);
        }
    }
}

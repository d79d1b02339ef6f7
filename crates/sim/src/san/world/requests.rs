//! The requests of the hosts, and the judgement of their ends.

use super::{
    Asked, BLOCK, Content, Done, Duration, Event, Meant, Outcome, Pages, REGION, REGIONS, Region,
    Request, World,
};

impl World {
    /// Makes a request of a host, if it may have one more.
    pub(super) fn work(&mut self, host: usize, now: Duration) {
        if self.left[host] == 0 {
            return;
        }
        if self.hosts[host].device().is_none() {
            // Nothing has ended because nothing was asked for.
            self.last_end = now;
            let soon = now + Duration::from_millis(20);
            return self.schedule.add(soon, Event::Work(host));
        }
        if self.under_way[host] >= self.plan.depth {
            self.is_full[host] = true;
            return;
        }
        self.schedule_work(host);
        if self.climate.has_reservations {
            return self.work_on_all(host);
        }
        let mine = (0..self.regions.len()).filter(|at| self.regions[*at].owner == host);
        let free: Vec<usize> = mine.filter(|at| self.regions[*at].heir.is_none()).collect();
        self.left[host] -= 1;
        if !free.is_empty() {
            let region = self.random.one_of(&free);
            if self.hosts.len() > 1 && self.random.per_mille(100) {
                let heir = (host + 1) % self.hosts.len();
                self.regions[region].heir = Some(heir);
                return self.hand_over_if_idle(region);
            }
            self.ask_something(host, region);
        }
    }

    /// Makes a request of a host that has the whole device, or had it.
    fn work_on_all(&mut self, host: usize) {
        let is_holder = self.possession.holder() == Some(host);
        if self.possession.lets_work(host) && (is_holder || self.random.per_mille(200)) {
            // Requests in vain do not count.
            self.left[host] -= u64::from(is_holder);
            let region = self.random.within(0..REGIONS) as usize;
            self.ask_something(host, region);
        }
    }

    pub(super) fn schedule_work(&mut self, host: usize) {
        let pause_us = self.random.within(0..self.plan.pause_ms * 1000 + 100);
        let at = self.schedule.now() + Duration::from_micros(pause_us);
        self.schedule.add(at, Event::Work(host));
    }

    fn ask_something(&mut self, host: usize, region: usize) {
        let start = self.random.within(0..REGION);
        let count = self.random.within(1..REGION - start + 1);
        let first = region as u64 * REGION + start;
        let blocks = first..first + count;
        let offset = first * BLOCK as u64;
        match self.random.within(0..100) {
            0..40 => {
                let since = self.ledger.now();
                let len = (count * BLOCK as u64) as u32;
                let meant = Meant::Read { blocks, since };
                self.ask(host, region, meant, Request::Read { offset, len }, false);
            }
            40..95 => {
                let is_durable = self.random.per_mille(250);
                self.ask_write(host, region, blocks, is_durable, false);
            }
            _ => self.ask(host, region, Meant::Flush, Request::Flush, false),
        }
    }

    fn ask_write(
        &mut self,
        host: usize,
        region: usize,
        blocks: std::ops::Range<u64>,
        durable: bool,
        hands_over: bool,
    ) {
        let offset = blocks.start * BLOCK as u64;
        let len = (blocks.end - blocks.start) as usize * BLOCK;
        let number = self.ledger.begin(blocks);
        self.writers.insert(number, host);
        let data = Pages::from_bytes(&Content::bytes(number, len));
        let request = Request::Write {
            offset,
            data,
            durable,
        };
        self.ask(host, region, Meant::Write(number), request, hands_over);
    }

    fn ask(
        &mut self,
        host: usize,
        region: usize,
        meant: Meant,
        request: Request,
        hands_over: bool,
    ) {
        self.last_token += 1;
        let token = self.last_token;
        if self.tells {
            println!("{:?} host {host}: {token} {meant:?}", self.schedule.now());
        }
        self.asked.insert(
            token,
            Asked {
                host,
                region,
                meant,
                hands_over,
                is_over: false,
            },
        );
        self.under_way[host] += 1;
        self.regions[region].under_way += 1;
        self.hosts[host].submit(token, request);
        self.step(host);
    }

    /// Begins to hand a region to its heir: all of it must be durable before.
    fn hand_over_if_idle(&mut self, region: usize) {
        let Region { owner, .. } = self.regions[region];
        if self.regions[region].heir.is_none() || self.regions[region].under_way > 0 {
            return;
        }
        let first = region as u64 * REGION;
        match self.random.per_mille(500) {
            true => self.ask(owner, region, Meant::Flush, Request::Flush, true),
            false => self.ask_write(owner, region, first..first + REGION, true, true),
        }
    }

    /// Judges the end of a request.
    pub(super) fn ended(&mut self, token: u64, outcome: Outcome) {
        let now = self.schedule.now();
        let asked = self.asked.remove(&token).expect("a request ends once");
        if self.tells {
            println!("{now:?} host {}: {token} ended", asked.host);
        }
        self.last_end = now;
        self.under_way[asked.host] -= 1;
        if std::mem::take(&mut self.is_full[asked.host]) {
            self.schedule_work(asked.host);
        }
        self.report.requests += 1;
        self.regions[asked.region].under_way -= 1;
        let done = match outcome {
            Ok(_) if asked.is_over => return,
            Ok(done) => done,
            Err(error) => return self.ended_in_vain(&asked, &error.to_string()),
        };
        match (asked.meant, done) {
            (Meant::Read { blocks, since }, Done::Pages(pages)) => {
                let bytes = pages.to_vec();
                let len = (blocks.end - blocks.start) as usize * BLOCK;
                assert_eq!(bytes.len(), len, "a read returns what was asked for");
                for (block, bytes) in blocks.zip(bytes.chunks(BLOCK)) {
                    let found = self.ledger.check(block, Content::of(bytes), since);
                    found.unwrap_or_else(|why| panic!("read by {token} at {now:?}: {why}"));
                }
            }
            (Meant::Write(number), Done::Nothing) => {
                for block in self.ledger.end(number, true) {
                    self.judge_disk(block);
                }
            }
            (Meant::Flush, Done::Nothing) => {}
            (meant, done) => panic!("{meant:?} ended with {done:?}"),
        }
        let region = &mut self.regions[asked.region];
        if asked.hands_over {
            region.owner = region.heir.take().expect("chosen for it");
            self.report.handed_over += 1;
        } else {
            self.hand_over_if_idle(asked.region);
        }
    }

    /// Reads all blocks, each by the host that has it.
    pub(super) fn read_everything(&mut self) {
        for region in 0..REGIONS as usize {
            let first = region as u64 * REGION;
            let since = self.ledger.now();
            let meant = Meant::Read {
                blocks: first..first + REGION,
                since,
            };
            let request = Request::Read {
                offset: first * BLOCK as u64,
                len: (REGION * BLOCK as u64) as u32,
            };
            let owner = self
                .possession
                .holder()
                .unwrap_or(self.regions[region].owner);
            self.ask(owner, region, meant, request, false);
        }
    }
}

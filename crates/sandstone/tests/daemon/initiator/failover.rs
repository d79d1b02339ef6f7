//! Paths are lost while data is written: no I/O is lost, fails or lands late.

use std::time::{Duration, Instant};

use block::{Pages, Request};
use model::config::BackendSpec;

use super::driver::Driver;
use super::proxy::{Proxy, Weather};
use crate::served::{self, Served, TARGET};

const SIZE: u64 = 16 << 20;
const BLOCKS: u64 = 256;
const OUTSTANDING: u64 = 32;

struct World {
    served: Served,
    proxies: Vec<Proxy>,
}

impl World {
    fn start(paths: usize) -> Self {
        let served = Served::start(vec![served::unit(
            "vol",
            1,
            BackendSpec::Memory { size: SIZE },
        )]);
        let proxies = (0..paths).map(|_| Proxy::start(served.portal)).collect();
        Self { served, proxies }
    }

    fn open(&self) -> Driver {
        let mut url = format!("iscsi://{}/{TARGET}/0?", self.proxies[0].address);
        for proxy in &self.proxies[1..] {
            url.push_str(&format!("portal={}&", proxy.address));
        }
        Driver::open(url.trim_end_matches(['?', '&'])).unwrap()
    }
}

/// Writer of generations of blocks, with many I/Os outstanding and at most one for each block.
///
/// At the end it reads everything back: the newest acknowledged generation must be there.
struct Writer {
    generations: Vec<u64>,
    next: u64,
    in_flight: u64,
    acknowledged: u64,
}

fn block(number: u64, generation: u64) -> Vec<u8> {
    let mut data = vec![generation as u8; 4096];
    data[..8].copy_from_slice(&number.to_be_bytes());
    data[8..16].copy_from_slice(&generation.to_be_bytes());
    data
}

impl Writer {
    fn new() -> Self {
        Self {
            generations: vec![0; BLOCKS as usize],
            next: 0,
            in_flight: 0,
            acknowledged: 0,
        }
    }

    /// Writes until `count` more are acknowledged, without draining.
    fn go(&mut self, driver: &mut Driver, count: u64) {
        let until = self.acknowledged + count;
        while self.acknowledged < until {
            while self.in_flight < OUTSTANDING {
                let number = self.next % BLOCKS;
                self.next += 1;
                self.generations[number as usize] += 1;
                let data = Pages::from_bytes(&block(number, self.generations[number as usize]));
                driver.submit(
                    number,
                    Request::Write {
                        offset: number * 4096,
                        data,
                        durable: false,
                    },
                );
                self.in_flight += 1;
            }
            self.take(driver);
        }
    }

    fn take(&mut self, driver: &mut Driver) {
        for (number, outcome) in driver.take() {
            outcome.unwrap_or_else(|error| panic!("block {number}: {error}"));
            self.in_flight -= 1;
            self.acknowledged += 1;
        }
    }

    fn check(mut self, driver: &mut Driver) {
        while self.in_flight > 0 {
            self.take(driver);
        }
        for (number, generation) in (0..).zip(&self.generations) {
            if *generation > 0 {
                let read = driver.read(number * 4096, 4096);
                assert!(
                    read == block(number, *generation),
                    "block {number} is not of generation {generation}"
                );
            }
        }
    }
}

#[test]
fn all_paths_are_used() {
    let world = World::start(3);
    let mut driver = world.open();
    let mut writer = Writer::new();
    writer.go(&mut driver, 300);
    writer.check(&mut driver);
    for proxy in &world.proxies {
        assert!(proxy.bytes() > 90 * 4096, "{}", proxy.bytes());
    }
}

#[test]
fn a_path_that_is_reset_is_replaced_and_comes_back() {
    let world = World::start(2);
    let mut driver = world.open();
    let mut writer = Writer::new();
    for round in 0..6 {
        let proxy = &world.proxies[round % 2];
        writer.go(&mut driver, 200);
        proxy.set(Weather::Cut);
        writer.go(&mut driver, 200);
        proxy.set(Weather::Fair);
        let before = proxy.bytes();
        let until = Instant::now() + Duration::from_secs(20);
        while proxy.bytes() < before + 20 * 4096 {
            assert!(Instant::now() < until, "the path does not come back");
            writer.go(&mut driver, 50);
        }
    }
    writer.check(&mut driver);
}

#[test]
fn a_path_that_falls_silent_is_replaced() {
    let world = World::start(2);
    let mut driver = world.open();
    let mut writer = Writer::new();
    for round in 0..4 {
        let proxy = &world.proxies[round % 2];
        writer.go(&mut driver, 200);
        proxy.set(Weather::Silent);
        writer.go(&mut driver, 300);
        // The data that the silence held back arrives late, and must not land.
        proxy.set(Weather::Fair);
        writer.go(&mut driver, 300);
    }
    writer.check(&mut driver);
}

#[test]
fn nothing_fails_while_the_target_restarts() {
    let mut world = World::start(2);
    let mut driver = world.open();
    let mut writer = Writer::new();
    writer.go(&mut driver, 100);
    // The daemon's memory is gone: only data that is written anew counts.
    world.served.restart();
    let mut writer = Writer {
        in_flight: writer.in_flight,
        ..Writer::new()
    };
    writer.go(&mut driver, 600);
    let rewritten = writer.generations.clone();
    assert!(rewritten.iter().all(|generation| *generation > 0));
    writer.check(&mut driver);
}

//! Choices of a seed before a world begins: the target, the network, the hosts and their settings.

use std::time::Duration;

use model::initiator::settings::{BackOff, DeviceSettings, SessionSettings};
use multipath::{Psp, RoundRobin, Satp};
use store::vdev::TopLevelKind;

use super::ledger::BLOCKS;
use super::wires::Weather;
use crate::drive::Temper;
use crate::pool::PoolSetup;
use crate::random::Random;
use crate::served::{Shape, initiator_limits, target_limits};

/// Climate of a world. The seed decides the rest.
#[derive(Clone, Copy, Debug)]
pub struct Climate {
    /// Number of hosts.
    pub hosts: usize,
    /// Number of requests of each host.
    pub requests: u64,
    /// Whether anything goes wrong.
    pub is_stormy: bool,
    /// Whether writes of a target that has crashed still reach the disk while the next one runs.
    /// Hosts are told to let old writes settle for as long as the disk takes.
    pub late_disk: bool,
    /// Whether the unit is a volume of the product's store. Its target has no write cache, so that
    /// what it acknowledges outlives a power cut.
    pub has_store: bool,
    /// Whether hosts take the whole device from each other by reservations.
    pub has_reservations: bool,
}

/// Sizes of a world, drawn from its seed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) portals: usize,
    pub(super) sessions: u32,
    /// Longest time for which the target's process is stopped.
    pub(super) longest_stop: Duration,
    /// Requests of a host that are under way together.
    pub(super) depth: usize,
    /// Longest pause before a host's next request, in milliseconds.
    pub(super) pause_ms: u64,
    /// Longest time that the target's disk takes, in milliseconds.
    pub(super) disk_ms: u64,
    /// Commands that the target takes of each session.
    pub(super) window: u16,
    has_store: bool,
    /// Time for which hosts let writes of lost sessions settle.
    pub(super) settle_us: u64,
    /// Mean time between two faults, in milliseconds; 0 for none.
    pub(super) fault_every_ms: u64,
    pub(super) weather: Weather,
}

impl Plan {
    pub(super) fn draw(climate: &Climate, random: &mut Random) -> Self {
        let (portals, sessions) =
            random.one_of(&[(1, 1), (1, 2), (2, 1), (2, 1), (2, 2), (3, 1), (4, 1)]);
        // Each portal is a portal group of its own. With one session to it, nobody but its own
        // portal can confirm its end. The host does not wait for that for ever: 5 s.
        let is_alone = sessions == 1;
        let late_ms = match is_alone {
            true => random.one_of(&[0, 300, 2_000]),
            false => random.one_of(&[500, 4_500, 30_000]),
        };
        let longest_stop = Duration::from_secs(if is_alone { 2 } else { 12 });
        let disk_ms = match climate.late_disk {
            false => random.one_of(&[0, 2, 30, 500]),
            true => random.one_of(&[30, 500, 2_000]),
        };
        Self {
            portals,
            sessions,
            longest_stop,
            depth: random.one_of(&[1, 4, 4, 12]),
            pause_ms: random.one_of(&[3, 20, 100]),
            fault_every_ms: match climate.is_stormy {
                false => 0,
                true => random.one_of(&[200, 700, 2_000]),
            },
            disk_ms,
            window: random.one_of(&[2, 8, 32]),
            has_store: climate.has_store,
            settle_us: if climate.late_disk { disk_ms * 1000 } else { 0 },
            weather: Weather {
                max_delay: Duration::from_micros(random.one_of(&[50, 400, 3_000, 40_000])),
                max_piece: random.one_of(&[60, 1_500, 100_000]),
                late: Duration::from_millis(late_ms),
            },
        }
    }

    /// Draws the shape of the target.
    pub(super) fn shape(&self, random: &mut Random) -> Shape {
        let temper = Temper {
            usual_ms: self.disk_ms / 10,
            slow_per_mille: 100,
            slow_ms: self.disk_ms,
            failures_per_mille: 0,
        };
        Shape {
            loops: random.one_of(&[1, 2, 3]),
            portals: self.portals,
            parameters: target_limits(random, self.window, 1),
            memory: random.one_of(&[2 << 20, 64 << 20]),
            max_sessions: 100,
            units: vec![(BLOCKS, temper)],
            pool: self.has_store.then(|| pool(random)),
            write_cache: !self.has_store && random.per_mille(500),
            send_buffer: 200 << 10,
            lag_us: random.one_of(&[0, 100, 3_000]),
            congestion_per_mille: random.one_of(&[0, 0, 20]),
        }
    }

    /// Draws the settings of a host's sessions.
    pub(super) fn session(host: usize, random: &mut Random) -> SessionSettings {
        let name = format!("iqn.2026-01.org.example:host-{host}");
        let mut session = SessionSettings::new(name);
        session.limits = initiator_limits(random, 1);
        session.back_off = BackOff {
            first: Duration::from_millis(100),
            most: Duration::from_secs(random.one_of(&[1, 5])),
        };
        session
    }

    /// Draws the settings of a host's devices. An outage makes requests wait, and fails none.
    pub(super) fn devices(&self, random: &mut Random) -> DeviceSettings {
        let long_us = 3_600_000_000;
        DeviceSettings {
            base: multipath::Settings {
                satp: Satp::Alua,
                queue_depth: random.one_of(&[2, 8, 128]),
                fence_timeout_us: Some(140_000_000),
                apd_timeout_us: long_us,
                command_time_limit_us: long_us,
                ..multipath::Settings::default()
            },
            psp: Some((
                random.one_of(&Psp::ALL),
                RoundRobin {
                    iops: random.one_of(&[1, 3, 1000]),
                    use_ano: random.per_mille(300),
                    ..RoundRobin::default()
                },
            )),
            fence_settle_us: Some(self.settle_us),
            ..DeviceSettings::default()
        }
    }
}

/// Draws the setup of a pool.
fn pool(random: &mut Random) -> PoolSetup {
    let shapes: [&[(TopLevelKind, usize)]; 3] = [
        &[(TopLevelKind::Leaf, 1)],
        &[(TopLevelKind::Mirror, 2)],
        &[(TopLevelKind::Raidz { parity: 1 }, 3)],
    ];
    PoolSetup {
        must_open: true,
        ..PoolSetup::random(random.within(0..u64::MAX), &shapes)
    }
}

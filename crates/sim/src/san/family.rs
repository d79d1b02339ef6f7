//! Families of worlds, each with a climate of its own, and the sums of many worlds.

use std::fmt;

use super::climate::Climate;
use super::world::{Report, run};
use crate::laboratory::panics::{caught, quietly};

const CALM: Climate = Climate {
    hosts: 1,
    requests: 150,
    is_stormy: false,
    late_disk: false,
    has_store: false,
    has_reservations: false,
};

/// Family of worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Nothing goes wrong.
    Calm,
    /// Connections break and go silent, access states change, and the target crashes.
    Storm,
    /// Storms over two hosts, which hand blocks to each other.
    Hosts,
    /// Storms in which writes of a target that has crashed reach the disk later.
    LateDisk,
    /// Storms with late disks over two hosts.
    LateDiskHosts,
    /// Storms over a volume of the product's store, whose power fails now and then.
    Store,
    /// Storms over the store and two hosts.
    StoreHosts,
    /// Storms over three hosts that take the device from each other by reservations.
    Reservations,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 8] = [
        Self::Calm,
        Self::Storm,
        Self::Hosts,
        Self::LateDisk,
        Self::LateDiskHosts,
        Self::Store,
        Self::StoreHosts,
        Self::Reservations,
    ];

    /// Returns the name of the family.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calm => "san-calm",
            Self::Storm => "san-storm",
            Self::Hosts => "san-hosts",
            Self::LateDisk => "san-late-disk",
            Self::LateDiskHosts => "san-late-disk-hosts",
            Self::Store => "san-store",
            Self::StoreHosts => "san-store-hosts",
            Self::Reservations => "san-reservations",
        }
    }

    /// Returns the climate of the family's worlds.
    pub fn climate(self) -> Climate {
        let storm = Climate {
            is_stormy: true,
            ..CALM
        };
        let late = Climate {
            late_disk: true,
            ..storm
        };
        let store = Climate {
            has_store: true,
            ..storm
        };
        match self {
            Self::Calm => CALM,
            Self::Storm => storm,
            Self::Hosts => Climate { hosts: 2, ..storm },
            Self::LateDisk => late,
            Self::LateDiskHosts => Climate { hosts: 2, ..late },
            Self::Store => store,
            Self::StoreHosts => Climate { hosts: 2, ..store },
            Self::Reservations => Climate {
                hosts: 3,
                requests: 60,
                has_reservations: true,
                ..storm
            },
        }
    }

    /// Runs the world of a seed.
    ///
    /// # Errors
    /// A rule is broken: this one.
    pub fn run(self, seed: u64) -> Result<Report, String> {
        quietly(|| caught(|| run(seed, self.climate())))
            .map_err(|why| format!("seed {seed}: {why}"))
    }
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.worlds += other.worlds;
        self.requests += other.requests;
        self.connections += other.connections;
        self.logins += other.logins;
        self.faults += other.faults;
        self.handed_over += other.handed_over;
        self.takeovers += other.takeovers;
        self.time += other.time;
        self.digest ^= other.digest;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} worlds of {} s: {} requests, {} sessions, {} connections, {} faults, {} times blocks \
             handed over, {} takeovers",
            self.worlds,
            self.time.as_secs(),
            self.requests,
            self.logins,
            self.connections,
            self.faults,
            self.handed_over,
            self.takeovers,
        )
    }
}

//! Words of the protection of a pool: what an opening claims, what it saw, and why a pool stops.

use std::collections::BTreeMap;

use super::pace::Pace;
use crate::format::Activity;
use crate::format::Who;

/// Label copies of a leaf.
pub(super) const COPIES: usize = 4;

/// Record that a place held when it was looked at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// The place was not looked at.
    #[default]
    Unknown,
    /// The place held no record of the pool.
    Nothing,
    /// The place held a record of another opening: the numbers of the opening and of the record.
    Other(u64, u64),
    /// The place held a record of this opening.
    Own,
}

/// Data with which an opening claims the pool in its records.
#[derive(Clone, Debug)]
pub struct Protection {
    /// Identity of the host.
    pub who: Who,
    /// Random number of the opening.
    pub opening: u64,
    /// Number of openings up to this one.
    pub turn: u64,
    /// Number of records that were written.
    pub sequence: u64,
    /// Pace of the records.
    pub pace: Pace,
    /// Records found in the four label copies of each leaf, by the leaf's guid.
    pub seen: BTreeMap<u64, [Seen; COPIES]>,
}

impl Protection {
    /// Makes the protection of a pool that this host has open or makes, regardless of the records
    /// in its labels.
    pub fn fresh(who: Who, opening: u64, pace: Pace) -> Self {
        Self {
            who,
            opening,
            turn: 1,
            sequence: 0,
            pace,
            seen: BTreeMap::new(),
        }
    }
}

/// Reason why a pool stopped. Another host may have the pool by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No record could be written for as long as was promised. The number is the time since the
    /// last one was begun, in microseconds.
    Silent(u64),
    /// A record of another host was found.
    Other(Box<Activity>),
    /// A device reported that it is reserved for another host. The text names the request.
    Reserved(String),
}

impl Stop {
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Silent(us) => format!(
                "for {}.{} s no activity record could be written, so another host may have taken the pool",
                us / 1_000_000,
                us / 100_000 % 10
            ),
            Self::Other(by) => format!(
                "another host has the pool: {} replaced this host's activity record by its own",
                by.who.host
            ),
            Self::Reserved(what) => {
                format!(
                    "another host has the pool: it reserved a device of the pool for itself ({what})"
                )
            }
        }
    }

    /// Reports whether another host has shown itself, so that an administrator has to decide.
    pub fn is_anothers(&self) -> bool {
        !matches!(self, Self::Silent(_))
    }
}

/// Protection of a pool, as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Pace of the records.
    pub pace: Pace,
    /// Records written since the pool was opened.
    pub records: u64,
}

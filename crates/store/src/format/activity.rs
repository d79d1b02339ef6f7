//! The activity record: which host has a pool open, and how long other hosts must believe that.
//!
//! The record is in the sector just before the ring of each label copy. It fills the first 512
//! bytes, so that a power cut never tears it:
//!
//! ```text
//!   0  magic "SANDACTV"                                        8 bytes
//!   8  format version                                          u16
//!  10  state: 1 claimed, 2 open, 3 closed in order             u16
//!  12  bytes of the host's name                                u16
//!  14  zero                                                    2 bytes
//!  16  pool guid                                               u64
//!  24  number of this opening, random                          u64
//!  32  turn: openings of the pool up to this one               u64
//!  40  sequence: counts up with every record of this opening   u64
//!  48  microseconds after which the next one follows           u64
//!  56  microseconds that the host goes on without one          u64
//!  64  boot of the machine, random                             u128
//!  80  checksum of the 512 bytes, keyed, this field 0          u128
//!  96  zero                                                    32 bytes
//! 128  the host, as in the configuration; then zeros           384 bytes
//! ```
//!
//! The label's checksum does not cover the sector. A sector without a valid record of the pool says
//! nothing.

pub use super::label::ACTIVITY_OFFSET;

use pages::Pages;

use super::bytes::Reader;
use super::{PoolKey, SECTOR_SIZE, VERSION};
use crate::checksum;

const MAGIC: &[u8; 8] = b"SANDACTV";
/// Bytes of a record.
const LEN: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 80..96;
const HOST: usize = 128;
/// Length of the longest name of a host that is kept. A longer name is cut.
const MAX_HOST: usize = LEN - HOST;

/// State that a host reports of its opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    /// The host wants the pool, and waits whether another host objects.
    Claimed,
    /// The host has the pool open.
    Open,
    /// The host let the pool go in order: nothing of its opening is under way.
    Closed,
}

/// A machine and the installation that runs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Name of the machine and the installation, as in the configuration.
    pub host: String,
    /// Random number of the machine's boot.
    pub boot: u128,
}

/// A record of a host's activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// State of the host's opening.
    pub state: ActivityState,
    /// Host that wrote the record.
    pub who: Who,
    /// Random number of the opening.
    pub opening: u64,
    /// Number of openings of the pool up to this one.
    pub turn: u64,
    /// Number that counts up with every record of the opening.
    pub sequence: u64,
    /// Time after which the host writes the next record on this leaf, in microseconds.
    pub interval_us: u64,
    /// Time that the host goes on if it cannot write one, in microseconds.
    pub promise_us: u64,
}

impl Activity {
    /// Encodes the record as it lies in a label copy: one sector.
    pub fn encode(&self, key: PoolKey) -> Pages {
        let mut bytes = Vec::with_capacity(SECTOR_SIZE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let state: u16 = match self.state {
            ActivityState::Claimed => 1,
            ActivityState::Open => 2,
            ActivityState::Closed => 3,
        };
        bytes.extend_from_slice(&state.to_le_bytes());
        let host = &self.who.host[..self.who.host.floor_char_boundary(MAX_HOST)];
        bytes.extend_from_slice(&(host.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        let numbers = [
            key.guid,
            self.opening,
            self.turn,
            self.sequence,
            self.interval_us,
            self.promise_us,
        ];
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.who.boot.to_le_bytes());
        bytes.resize(HOST, 0);
        bytes.extend_from_slice(host.as_bytes());
        bytes.resize(LEN, 0);
        let checksum = checksum::keyed(key.secret, &bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(SECTOR_SIZE, 0);
        Pages::from_bytes(&bytes)
    }

    /// Decodes the record from the sector of a label copy. Returns `None` if the sector holds no
    /// valid record of this pool.
    pub fn decode(sector: &Pages, key: PoolKey) -> Option<Self> {
        let mut bytes = [0; LEN];
        if sector.len() < LEN {
            return None;
        }
        sector.slice(0..LEN).copy_to(&mut bytes);
        let stored = Reader(&bytes[CHECKSUM]).u128()?;
        let mut blank = bytes;
        blank[CHECKSUM].fill(0);
        if !bytes.starts_with(MAGIC) || checksum::keyed(key.secret, &blank) != stored {
            return None;
        }
        let mut reader = Reader(&bytes[MAGIC.len()..]);
        if reader.u16()? != VERSION {
            return None;
        }
        let state = match reader.u16()? {
            1 => ActivityState::Claimed,
            2 => ActivityState::Open,
            3 => ActivityState::Closed,
            _ => return None,
        };
        let len = usize::from(reader.u16()?);
        reader.take(2)?;
        if reader.u64()? != key.guid {
            return None;
        }
        let host = bytes.get(HOST..HOST + len)?;
        Some(Self {
            state,
            opening: reader.u64()?,
            turn: reader.u64()?,
            sequence: reader.u64()?,
            interval_us: reader.u64()?,
            promise_us: reader.u64()?,
            who: Who {
                boot: reader.u128()?,
                host: String::from_utf8(host.to_vec()).ok()?,
            },
        })
    }
}

impl Who {
    /// Returns the machine's name.
    pub fn machine(&self) -> &str {
        self.host.split('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: PoolKey = PoolKey {
        guid: 7,
        secret: 4711,
    };

    fn record(host: String) -> Activity {
        Activity {
            state: ActivityState::Open,
            who: Who {
                host,
                boot: 1 << 99,
            },
            opening: 3,
            turn: 4,
            sequence: 5,
            interval_us: 6,
            promise_us: 7,
        }
    }

    proptest! {
        #[test]
        fn every_record_survives_the_disk_and_no_flipped_bit_does(
            host in "[a-zé/]{0,80}",
            (at, flip) in (0..LEN, 1_u8..),
        ) {
            let record = record(host);
            let sector = record.encode(KEY);
            prop_assert_eq!(Activity::decode(&sector, KEY), Some(record));
            let mut bytes = sector.to_vec();
            bytes[at] ^= flip;
            prop_assert_eq!(Activity::decode(&Pages::from_bytes(&bytes), KEY), None);
        }
    }

    #[test]
    fn a_record_of_another_pool_is_none_and_a_long_name_is_cut() {
        let sector = record("é".repeat(300)).encode(KEY);
        let host = Activity::decode(&sector, KEY).expect("a record").who.host;
        assert_eq!(host, "é".repeat(192));
        for (guid, secret) in [(7, 1), (8, 4711)] {
            assert_eq!(Activity::decode(&sector, PoolKey { guid, secret }), None);
        }
        assert_eq!(
            Activity::decode(&Pages::zeroes(SECTOR_SIZE as u32), KEY),
            None
        );
    }
}

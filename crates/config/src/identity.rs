//! Identities that must be unique for ever: NAA designators, serial numbers, relative port ids.
//!
//! # The NAA designator
//! Initiators recognise a disk by its designator. Two logical units with one designator would be
//! taken for two paths to one disk. The designator is of type 6 (SPC-4 7.8.6.6.5), 32 hexadecimal
//! digits:
//!
//! ```text
//!     6  52534e  iiiiiiiii  cccccc  rrrrrrrrrr
//!     |  |       |          |       40 random bits
//!     |  |       |          counter of logical units ever made, 24 bits
//!     |  |       the installation: 36 random bits, drawn when the state folder was made
//!     |  the company id, 24 bits
//!     NAA type 6
//! ```
//!
//! Sandstone owns no IEEE company id and borrows none. `52-53-4E` has the locally-administered bit
//! set (IEEE 802c, the quadrant for administratively assigned identifiers), so it collides with no
//! registered id. The counter keeps units of one installation apart. The random bits keep them
//! apart even when a state folder is restored from an old copy and counts the same numbers again.
//!
//! The serial number is 20 of these digits, so both identify a disk.

use model::config::{Config, IdentitySpec};
use model::error::{Error, ErrorKind};

/// Company id in every designator that is made here; the module's text explains it.
pub const COMPANY_ID: &str = "52534e";

/// Beginning of every target name made here. ICANN reserved `internal` in 2024-08 for names of
/// private use, so the domain needs no owner.
pub const TARGET_PREFIX: &str = "iqn.2024-08.internal.sandstone";

/// Most units that one installation can make (24 bits).
const MAX_UNITS: u32 = 0xff_ffff;

/// Source of unpredictable bits for one change. Equal seeds yield equal identities.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Creates a seed with a known value, for tests.
    pub fn fixed(value: u64) -> Self {
        Self(value)
    }

    /// Creates a seed from the operating system.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|source| {
            let message = format!("the operating system gave no random numbers: {source}");
            Error::new(
                ErrorKind::Storage,
                message,
                "check /dev/urandom, then try again",
            )
        })?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }

    /// Returns the next 64 bits (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Creates the identity of a new installation.
pub fn new_installation(seed: &mut Seed) -> IdentitySpec {
    IdentitySpec {
        installation: format!("{:09x}", seed.draw() >> 28),
        units_made: 0,
        last_relative_port_id: 0,
        volumes: Vec::new(),
    }
}

/// Creates a new designator, with its serial number.
pub fn new_unit(identity: &mut IdentitySpec, seed: &mut Seed) -> Result<(String, String), Error> {
    if identity.units_made >= MAX_UNITS {
        return Err(Error::invalid(
            format!(
                "this installation has created {MAX_UNITS} logical units, the most that it can tell apart"
            ),
            "start a new state folder for more logical units",
        ));
    }
    if identity.installation.is_empty() {
        // The configuration was made by hand, not by opening a state folder.
        identity.installation = new_installation(seed).installation;
    }
    identity.units_made += 1;
    let installation = &identity.installation;
    let counter = identity.units_made;
    let random = seed.draw() >> 24;
    let naa = format!("6{COMPANY_ID}{installation}{counter:06x}{random:010x}");
    let serial = naa[7..27].to_owned();
    Ok((naa, serial))
}

/// Derives the serial number of a designator that was made elsewhere.
pub fn serial_of(naa: &str) -> String {
    naa.get(7..27).unwrap_or(naa).to_owned()
}

/// Creates a relative target port identifier that no port had before.
pub fn new_relative_port_id(identity: &mut IdentitySpec) -> Result<u16, Error> {
    identity.last_relative_port_id =
        identity
            .last_relative_port_id
            .checked_add(1)
            .ok_or_else(|| {
                Error::invalid(
                    "all 65535 relative target port identifiers were used; none is ever used twice",
                    "start a new state folder for more portal groups",
                )
            })?;
    Ok(identity.last_relative_port_id)
}

/// Raises the counters of `config` above its own identities and above all that `before` had given
/// out. So a return to an older configuration never gives out an identity again.
pub fn carry_over(before: &IdentitySpec, config: &mut Config) {
    let highest = config
        .targets
        .iter()
        .flat_map(|target| &target.portal_groups);
    let highest = highest
        .map(|group| group.relative_port_id)
        .max()
        .unwrap_or(0);
    let identity = &mut config.identity;
    identity.installation = before.installation.clone();
    identity.units_made = identity.units_made.max(before.units_made);
    identity.last_relative_port_id = identity
        .last_relative_port_id
        .max(before.last_relative_port_id)
        .max(highest);
    // Both notes are kept: the unit's name tells which one holds.
    let more = before
        .volumes
        .iter()
        .filter(|note| !identity.volumes.contains(note));
    let more: Vec<_> = more.cloned().collect();
    identity.volumes.extend(more);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn designators_are_of_type_6_and_differ() {
        let mut seed = Seed::fixed(7);
        let mut identity = new_installation(&mut seed);
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let (naa, serial) = new_unit(&mut identity, &mut seed).unwrap();
            assert_eq!(naa.len(), 32);
            assert!(naa.starts_with("652534e") && naa.contains(&serial));
            assert_eq!(serial.len(), 20);
            assert!(seen.insert(naa) && seen.insert(serial));
        }
    }

    #[test]
    fn a_restored_counter_still_makes_new_designators() {
        let mut identity = new_installation(&mut Seed::fixed(1));
        let mut again = identity.clone();
        let first = new_unit(&mut identity, &mut Seed::fixed(2)).unwrap();
        let second = new_unit(&mut again, &mut Seed::fixed(3)).unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn counters_never_wrap() {
        let mut identity = new_installation(&mut Seed::fixed(1));
        identity.last_relative_port_id = u16::MAX - 1;
        assert_eq!(new_relative_port_id(&mut identity).unwrap(), u16::MAX);
        assert_eq!(
            new_relative_port_id(&mut identity).unwrap_err().kind,
            ErrorKind::Invalid
        );
        identity.units_made = MAX_UNITS;
        assert!(new_unit(&mut identity, &mut Seed::fixed(1)).is_err());
    }
}

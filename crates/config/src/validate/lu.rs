//! Rules of logical units: identities, block sizes, and no two units on one backend.

use std::collections::{HashMap, HashSet};

use super::{object_name, taken};
use model::config::{Config, UnitSpec};
use model::error::Error;

pub(super) fn units(config: &Config) -> Result<(), Error> {
    let (mut names, mut naas, mut serials) = (HashSet::new(), HashMap::new(), HashMap::new());
    let mut backings = HashMap::new();
    let remote = config.units.iter().filter_map(|unit| {
        let disk = unit.backend.disk_of_initiator()?;
        Some((disk.strip_prefix("naa.")?, unit))
    });
    let remote: HashMap<&str, &UnitSpec> = remote.collect();
    for unit in &config.units {
        object_name("logical unit", &unit.name)?;
        if !names.insert(unit.name.as_str()) {
            return Err(taken("logical unit", &unit.name, "sandstone lu list"));
        }
        unit_rules(unit)?;
        if let Some(other) = remote.get(unit.naa.as_str()) {
            return Err(Error::invalid(
                format!(
                    "lu {} would be served from lu {} of this daemon",
                    other.name, unit.name
                ),
                "map the unit itself to more hosts instead (sandstone map add)",
            ));
        }
        if let Some(other) = naas.insert(unit.naa.as_str(), &unit.name) {
            return Err(Error::invalid(
                format!(
                    "logical units {other} and {} have the same NAA {}",
                    unit.name, unit.naa
                ),
                "omit naa to get a new one: two disks with one NAA look like two paths to one disk",
            ));
        }
        if let Some(other) = serials.insert(unit.serial.as_str(), &unit.name) {
            return Err(Error::invalid(
                format!(
                    "logical units {other} and {} have the same serial number {}",
                    unit.name, unit.serial
                ),
                "omit serial to get a new one",
            ));
        }
        let Some(place) = unit.backend.place() else {
            continue;
        };
        if let Some(other) = backings.insert(place, &unit.name) {
            return Err(Error::invalid(
                format!(
                    "logical units {other} and {} both keep their data in {}",
                    unit.name,
                    place.display()
                ),
                "give each unit its own file or device: two units over one would destroy each other's data",
            ));
        }
    }
    Ok(())
}

fn unit_rules(unit: &UnitSpec) -> Result<(), Error> {
    let who = format!("logical unit {}", unit.name);
    let hex = |s: &str| s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if unit.naa.len() != 32 || !unit.naa.starts_with('6') || !hex(&unit.naa) {
        return Err(Error::invalid(
            format!("{who}: {:?} is not an NAA type 6 designator", unit.naa),
            "write 32 lower-case hexadecimal digits that begin with 6, or omit naa to get a new one",
        ));
    }
    let printable = unit.serial.bytes().all(|b| b.is_ascii_graphic());
    if unit.serial.is_empty() || unit.serial.len() > 64 || !printable {
        return Err(Error::invalid(
            format!(
                "{who}: the serial number {:?} is not 1 to 64 printable characters",
                unit.serial
            ),
            "omit serial to get a new one",
        ));
    }
    if !matches!(unit.block_size, 512 | 4096) {
        return Err(Error::invalid(
            format!("{who}: a block size of {} is not offered", unit.block_size),
            "use 512, which every client accepts, or 4096, which ESXi does not accept",
        ));
    }
    let ratio = unit.physical_block_size / unit.block_size;
    if !unit.physical_block_size.is_multiple_of(unit.block_size)
        || !ratio.is_power_of_two()
        || ratio > 1 << 15
    {
        return Err(Error::invalid(
            format!(
                "{who}: the physical block size {} is not a power of two times the block size {}",
                unit.physical_block_size, unit.block_size
            ),
            "use 4096, or the volblocksize or stripe width of the backend",
        ));
    }
    if let Some(percent) = unit.threshold_percent
        && !(1..=99).contains(&percent)
    {
        return Err(Error::invalid(
            format!("{who}: a threshold of {percent} percent would never or always be crossed"),
            "use 1 to 99; 80 is common",
        ));
    }
    unit.backend.check(&who, unit.block_size, unit.read_only)
}

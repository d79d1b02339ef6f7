//! Edits of logical units.

use super::*;
use crate::placement;

/// Parameters of `lu create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUnit {
    /// Name of the unit.
    pub name: String,
    /// Storage beneath the unit.
    pub backend: BackendSpec,
    /// Logical block length: 512 or 4096.
    #[serde(default = "default_block_size")]
    pub block_size: u32,
    /// Physical block size in bytes. The default is a volume's volblocksize, or a disk's own size
    /// but at most 4096, or 4096 for others.
    #[serde(default)]
    pub physical_block_size: Option<u32>,
    /// Volume to make first, under the name in the backend.
    #[serde(default)]
    pub new_volume: Option<NewVolume>,
    /// Whether writes are acknowledged from volatile cache.
    #[serde(default)]
    pub write_cache: bool,
    /// Whether writes are refused.
    #[serde(default)]
    pub read_only: bool,
    /// Whether UNMAP is offered. The default is yes, unless a file is preallocated.
    #[serde(default)]
    pub thin: Option<bool>,
    /// Soft threshold of space in use, in percent.
    #[serde(default)]
    pub threshold_percent: Option<u8>,
    /// Designator to take over from another target; `None` to make one.
    #[serde(default)]
    pub naa: Option<String>,
    /// Serial number to take over; `None` to make one.
    #[serde(default)]
    pub serial: Option<String>,
}

/// Volume that is made for a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Size in bytes.
    pub size: u64,
    /// Block size (volblocksize) in bytes; `None` for the pool's default.
    #[serde(default)]
    pub block_size: Option<u32>,
    /// Whether to reserve the space now, instead of as it is written.
    #[serde(default)]
    pub reserve: bool,
}

/// Parameters of `lu modify`. A `None` leaves the value unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModifyUnit {
    /// New size in bytes, which must be larger, because shrinking would cut off data.
    #[serde(default)]
    pub size: Option<u64>,
    /// Whether writes are acknowledged from volatile cache.
    #[serde(default)]
    pub write_cache: Option<bool>,
    /// Whether writes are refused.
    #[serde(default)]
    pub read_only: Option<bool>,
    /// Soft threshold of space in use, in percent; 0 turns it off.
    #[serde(default)]
    pub threshold_percent: Option<u8>,
    /// Take it offline or online.
    #[serde(default)]
    pub offline: Option<bool>,
    /// Data to which the unit is pointed instead. Its NAA, serial number and maps stay. It must not
    /// become smaller. The size of a file may be 0, which means the file's own size.
    #[serde(default)]
    pub backend: Option<BackendSpec>,
}

impl Edit {
    pub(super) fn create_unit(&mut self, request: &CreateUnit) -> Result<(), Error> {
        let mut unit = UnitSpec {
            name: request.name.clone(),
            naa: request.naa.clone().unwrap_or_default(),
            serial: request.serial.clone().unwrap_or_default(),
            backend: request.backend.clone(),
            block_size: request.block_size,
            // A physical block cannot be smaller than a logical one.
            physical_block_size: (request.physical_block_size)
                .unwrap_or_else(default_physical_block_size)
                .max(request.block_size),
            write_cache: request.write_cache,
            // A snapshot cannot be written.
            read_only: request.read_only || request.backend.is_snapshot(),
            thin: request.thin.unwrap_or(!request.backend.is_preallocated()),
            threshold_percent: request.threshold_percent,
            offline: false,
        };
        complete_unit(&mut unit, None, &mut self.config.identity, &mut self.seed)?;
        self.config.units.push(unit);
        Ok(())
    }

    pub(super) fn modify_unit(&mut self, name: &str, request: &ModifyUnit) -> Result<(), Error> {
        let unit = self.unit_mut(name)?;
        if let Some(backend) = &request.backend {
            unit.backend.clone_from(backend);
        }
        if let Some(wanted) = request.size {
            resize(unit, wanted)?;
        }
        let set = |field: &mut bool, value: Option<bool>| *field = value.unwrap_or(*field);
        set(&mut unit.write_cache, request.write_cache);
        set(&mut unit.read_only, request.read_only);
        set(&mut unit.offline, request.offline);
        if let Some(percent) = request.threshold_percent {
            unit.threshold_percent = (percent != 0).then_some(percent);
        }
        if request.backend.is_some() {
            // The administrator means the present bearer of the volume's name.
            let naa = unit.naa.clone();
            placement::forget(&mut self.config, &naa);
        }
        Ok(())
    }

    pub(super) fn delete_unit(&mut self, name: &str) -> Result<(), Error> {
        self.unit_mut(name)?;
        let maps = self.config.maps.iter().filter(|map| map.unit == name);
        let dependents: Vec<_> = maps
            .map(|m| format!("LUN {} ({})", m.lun, validate::describe(&self.config, m)))
            .collect();
        self.refuse_if_used(
            &format!("logical unit {name}"),
            &dependents,
            &format!("sandstone lu delete {name}"),
        )?;
        self.config.maps.retain(|map| map.unit != name);
        self.config.units.retain(|unit| unit.name != name);
        Ok(())
    }

    fn unit_mut(&mut self, name: &str) -> Result<&mut UnitSpec, Error> {
        self.config
            .units
            .iter_mut()
            .find(|unit| unit.name == name)
            .ok_or_else(|| {
                Error::not_found(
                    format!("logical unit {name} does not exist"),
                    "sandstone lu list shows the logical units",
                )
            })
    }
}

fn resize(unit: &mut UnitSpec, wanted: u64) -> Result<(), Error> {
    let size = unit.backend.size_mut(&unit.name)?;
    if wanted < *size {
        return Err(shrinking(&unit.name, *size, wanted));
    }
    *size = wanted;
    Ok(())
}

pub(super) fn shrinking(name: &str, was: u64, wanted: u64) -> Error {
    Error::invalid(
        format!("logical unit {name} has {was} bytes; a size of {wanted} bytes would cut off data"),
        "create a smaller logical unit, and copy the data from a host",
    )
}

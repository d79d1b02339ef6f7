//! Logical units on disks of other machines (a storage gateway): which changes would harm them.
//! Units also follow their devices here.

use std::sync::Arc;
use std::time::Duration;

use backends::Backends;
use initiator::host_adapter::HostAdapter;
use model::backend::Follows;
use model::config::{Config, UnitSpec};
use model::data_plane::ApplyError;
use pools::Pools;
use unit::unit::Unit;

/// Time for which a change waits for a device whose sessions are still coming up.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Refuses a new unit on a disk of a pool that is not open, and therefore does not hold its disks.
///
/// # Errors
/// A pool that is not open has the disk.
pub(super) fn refuse_closed_pool(pools: &Pools, spec: &UnitSpec) -> Result<(), ApplyError> {
    let Some(device) = spec.backend.disk_of_initiator() else {
        return Ok(());
    };
    match pools.waits_for(device) {
        None => Ok(()),
        Some(pool) => Err(ApplyError {
            object: format!("lu {}", spec.name),
            message: format!("{device} is a device of pool {pool}, which is not open"),
            next: format!("see sandstone pool status {pool}; or name another device"),
        }),
    }
}

/// Refuses a configuration that would log out of the only way to a device that a unit needs.
///
/// # Errors
/// A unit would lose its only way to its device.
pub(super) fn refuse_to_cut(
    host: &HostAdapter,
    before: &Config,
    after: &Config,
    pools: &Pools,
) -> Result<(), ApplyError> {
    let left = before
        .initiator
        .targets
        .iter()
        .map(|login| login.iqn.as_str());
    let left: Vec<&str> = left
        .filter(|iqn| after.initiator.target(iqn).is_none())
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let cut = host.devices_only_behind(&left);
    let refused = |what: String, next: String| ApplyError {
        object: format!("login {}", left.join(", ")),
        message: format!("{what}, which has no other path"),
        next,
    };
    for (pool, disk) in pools.remote_disks() {
        if cut.contains(&disk) {
            let next = format!(
                "take {disk} out of the pool first, or export it: sandstone pool export {pool}"
            );
            return Err(refused(format!("pool {pool} lies on {disk}"), next));
        }
    }
    for unit in &after.units {
        let Some(device) = unit.backend.disk_of_initiator() else {
            continue;
        };
        if cut.iter().any(|cut| cut == device) {
            return Err(refused(
                format!("lu {} is served from {device}", unit.name),
                format!(
                    "keep the login, or give the logical unit another backend first: sandstone lu modify {} \
                     --volume POOL/NAME; its NAA, serial number and maps stay",
                    unit.name
                ),
            ));
        }
    }
    Ok(())
}

/// Lets units have the sizes that their devices have: another machine's disk that grew, a volume of
/// which volsize was set. What else was set of a volume is told at once, too.
pub(super) fn follow_devices<'a>(
    backends: &Backends,
    units: impl Iterator<Item = (&'a UnitSpec, &'a Arc<Unit>)>,
) {
    for (spec, unit) in units {
        match backends.of(&spec.backend).capabilities().follows {
            Follows::Nothing => {}
            Follows::Growth => unit.follow_size(false),
            // A device that cannot be asked keeps the size that it had.
            Follows::Everything if unit.device.refresh().is_err() => {}
            Follows::Everything => {
                unit.follow_device();
                unit.follow_size(true);
            }
        }
    }
}

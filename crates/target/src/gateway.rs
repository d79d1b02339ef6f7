//! Logical units that are devices of other machines, reached through the initiator: a storage gateway.

use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice;
use initiator::host::Host;
use model::config::{BackendSpec, Config, UnitSpec};
use model::data_plane::ApplyError;
use pools::Pools;
use unit::unit::Unit;

/// How long a change waits for a device whose sessions are still coming up.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Opens the device of a unit.
///
/// # Errors
/// No session shows it, or its blocks do not fit the unit.
pub(super) fn open(
    host: &Host,
    spec: &UnitSpec,
    device: &str,
    patience: Duration,
) -> Result<Arc<dyn BlockDevice>, ApplyError> {
    let failed = |message: String, next: String| ApplyError {
        object: format!("lu {}", spec.name),
        message,
        next,
    };
    let user = format!("lu {}", spec.name);
    let opened = host
        .device_for(&user, device, patience)
        .map_err(|error| failed(format!("{device}: {error}"), error.next().to_owned()))?;
    let block = opened.geometry().granularity;
    if !spec.block_size.is_multiple_of(block) {
        return Err(failed(
            format!(
                "{device} has blocks of {block} bytes, the unit of {}",
                spec.block_size
            ),
            format!("add --block-size {block}"),
        ));
    }
    Ok(Arc::new(opened))
}

/// Refuses a new unit on a disk of a pool that is not open, and does not hold its disks therefore.
///
/// # Errors
/// There is such a pool.
pub(super) fn refuse_closed_pool(pools: &Pools, spec: &UnitSpec) -> Result<(), ApplyError> {
    let BackendSpec::Iscsi { device } = &spec.backend else {
        return Ok(());
    };
    match pools.waits_for(device) {
        None => Ok(()),
        Some(pool) => Err(ApplyError {
            object: format!("lu {}", spec.name),
            message: format!("{device}: pool {pool} lies on it, which is not open"),
            next: format!("see sandstone pool status {pool}; or name another disk"),
        }),
    }
}

/// Refuses a configuration that would log out of the only way to a device that a unit needs.
///
/// # Errors
/// There is such a unit.
pub(super) fn refuse_to_cut(
    host: &Host,
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
        let BackendSpec::Iscsi { device } = &unit.backend else {
            continue;
        };
        if cut.contains(device) {
            return Err(refused(
                format!("lu {} is served from {device}", unit.name),
                format!(
                    "keep the login, or point the unit to other data first: sandstone lu modify {} --volume POOL/NAME; its \
                     NAA, serial number and maps stay",
                    unit.name
                ),
            ));
        }
    }
    Ok(())
}

/// Lets units have the sizes that their devices have: another machine's disk that grew, a volume of which
/// volsize was set. What else was set of a volume is told at once, too.
pub(super) fn follow_devices<'a>(units: impl Iterator<Item = (&'a UnitSpec, &'a Arc<Unit>)>) {
    for (spec, unit) in units {
        let is_volume = match spec.backend {
            BackendSpec::Iscsi { .. } => false,
            BackendSpec::Volume { .. } => true,
            _ => continue,
        };
        // What cannot be asked keeps the size that it had.
        if is_volume && unit.device.refresh().is_err() {
            continue;
        }
        if is_volume {
            unit.follow_device();
        }
        // Another machine's disk is not known to shrink: it may only be answering badly.
        unit.follow_size(is_volume);
    }
}

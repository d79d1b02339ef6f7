//! Objects that have columns, with their values between two snapshots.

use model::figures::Snapshot;

use super::super::rows::Side;
use super::counters;
use crate::figures::rates::hosts::of_hosts;
use crate::figures::rates::initiator::{of_devices, of_sessions};
use crate::figures::rates::network::of_interfaces;
use crate::figures::rates::{of_port_groups, of_units, uses};

/// Object with its values.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Identity of the object, which it keeps from snapshot to snapshot.
    pub(super) key: String,
    /// Category that readers know.
    pub(super) category: &'static str,
    /// Name of the object in its category.
    pub(super) instance: String,
    /// Names of its counters.
    pub(super) counters: &'static [&'static str],
    /// Values of its counters.
    pub(super) values: Vec<f64>,
}

const ADAPTER: &str = "Physical Disk Adapter";
const PATH: &str = "Physical Disk Path";
const DEVICE: &str = "Physical Disk SCSI Device";
const VIRTUAL_DISK: &str = "Virtual Disk";
const PORT: &str = "Network Port";

fn object(
    category: &'static str,
    identity: &str,
    instance: String,
    counters: &'static [&'static str],
    values: Vec<f64>,
) -> Measured {
    Measured {
        key: format!("{category} {identity}"),
        category,
        instance,
        counters,
        values,
    }
}

/// Returns all objects of one side of the wire.
pub(super) fn measured(side: Side, before: &Snapshot, now: &Snapshot) -> Vec<Measured> {
    let mut objects = match side {
        Side::Target => of_target(before, now),
        Side::Initiator => of_initiator(before, now),
    };
    objects.extend(of_interfaces(before, now).into_iter().map(|of| {
        let port = of.interface;
        let switch = port.bridge.as_deref().unwrap_or("vSwitch0");
        let identity = format!("{} {}", port.number, port.name);
        let instance = format!("{switch}:{}:{}", port.number, port.name);
        object(
            PORT,
            &identity,
            instance,
            counters::PORT,
            counters::port(&of),
        )
    }));
    objects
}

fn of_target(before: &Snapshot, now: &Snapshot) -> Vec<Measured> {
    let groups = of_port_groups(before, now).into_iter().map(|(_, of)| {
        let values = counters::adapter(&of);
        object(
            ADAPTER,
            &of.name,
            of.name.clone(),
            counters::ADAPTER,
            values,
        )
    });
    // Without names, no name can be missing.
    let units = of_units(before, now, &[]).unwrap_or_default();
    let units = units.into_iter().zip(&now.units).map(|(of, unit)| {
        let instance = format!("naa.{}", unit.naa);
        let values = counters::device(&of);
        object(DEVICE, &of.name, instance, counters::DEVICE, values)
    });
    let disks = of_hosts(uses(before, now)).into_iter().map(|of| {
        let identity = format!("{} {} {}", of.host, of.lun, of.unit);
        let instance = format!("{}:scsi0:{}", of.host, of.lun);
        let values = counters::virtual_disk(&of.activity);
        object(
            VIRTUAL_DISK,
            &identity,
            instance,
            counters::VIRTUAL_DISK,
            values,
        )
    });
    groups.chain(units).chain(disks).collect()
}

fn of_initiator(before: &Snapshot, now: &Snapshot) -> Vec<Measured> {
    let devices = of_devices(before, now);
    let sessions = of_sessions(&devices).into_iter().map(|of| {
        let values = counters::adapter(&of.activity);
        object(
            ADAPTER,
            &of.name,
            of.name.clone(),
            counters::ADAPTER,
            values,
        )
    });
    let paths = devices.iter().flat_map(|device| &device.paths);
    let paths = paths.map(|(path, of)| {
        let name = &path.runtime_name;
        object(PATH, name, name.clone(), counters::PATH, counters::path(of))
    });
    let whole = devices.iter().map(|of| {
        let name = &of.device.name;
        let values = counters::device(&of.activity);
        object(DEVICE, name, name.clone(), counters::DEVICE, values)
    });
    sessions.chain(paths).chain(whole).collect()
}

//! Handlers of requests about the disks of this machine.

use std::path::Path;

use super::routes::Routes;
use crate::call::Call;
use crate::endpoint::disk as at;
use model::Error;
use model::disk::{DiskView, LocateDisk};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes.serve(&at::LIST, list).serve(&at::LOCATE, locate)
}

fn list(call: Call) -> Result<Vec<DiskView>, Error> {
    let plane = call.plane;
    let mut disks = plane.pools.disks_of_this_machine();
    for disk in disks.iter_mut().filter(|disk| disk.in_use.is_none()) {
        disk.in_use = plane
            .unit_on(Path::new(&disk.node))
            .map(|unit| format!("it holds the data of unit {unit}"));
    }
    let health = plane.disk_health.get().map(smart::Rounds::health);
    for disk in &mut disks {
        disk.health = health.as_ref().and_then(|of| of.get(&disk.path).cloned());
    }
    Ok(disks)
}

fn locate(call: Call<(), LocateDisk>) -> Result<(), Error> {
    let Call { plane, body, .. } = call;
    plane.pools.locate_disk(&body.disk, body.on)
}

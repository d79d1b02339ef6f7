//! The daemon's configuration of a device that a user names by its name. It holds secrets. So it is
//! read where it is stored, by a user who may read it, and never sent over the control socket.

use std::path::PathBuf;

use crate::Connection;
use config::store::Store;
use control::answer::{DeviceView, Status};
use control::endpoint::{initiator, status};
use model::Error;
use model::device_name;
use model::initiator::InitiatorSpec;

/// Returns the initiator's configuration, with the targets that lead to the device named by `what`.
/// Without a daemon, which alone knows these targets, it keeps all of them. It is empty if `what`
/// is no name of a device.
///
/// # Errors
/// The configuration cannot be read.
pub fn configured(what: &str, connection: &Connection) -> Result<InitiatorSpec, Error> {
    if !device_name::is_one(what) {
        return Ok(InitiatorSpec::default());
    }
    let client = connection.client();
    let status: Result<Status, Error> = client.call(&status::STATUS, &[]);
    let folder = status.map(|status| PathBuf::from(status.state));
    let folder = folder.unwrap_or_else(|_| connection.state_folder().to_owned());
    let mut spec = Store::peek(&folder)?.initiator;
    let devices: Vec<DeviceView> = client.call(&initiator::DEVICES, &[]).unwrap_or_default();
    let name = device_name::without_options(what);
    if let Some(view) = devices.iter().find(|view| view.state.nmp.name == name) {
        let ways = &view.state.ways;
        spec.targets
            .retain(|login| ways.iter().any(|way| way.target == login.iqn));
    }
    Ok(spec)
}

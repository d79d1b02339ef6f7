//! What the daemon's configuration says of a device that a user names by its name. Secrets are in
//! it, so it is read where it is stored, by whoever may read that, and never told over the control
//! socket.

use std::path::PathBuf;

use crate::Connection;
use config::store::Store;
use control::answer::{DeviceView, Status};
use control::endpoint::{initiator, status};
use model::Error;
use model::device_name;
use model::initiator::InitiatorSpec;

/// The initiator's configuration with the targets that lead to the device which `what` names: with
/// all of them where no daemon runs that could tell which do. Empty where `what` is no name of a
/// device.
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

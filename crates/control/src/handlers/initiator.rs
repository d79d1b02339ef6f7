//! Handlers of requests about this machine as an initiator: the adapter, logins, sessions, devices
//! and their paths.

use super::routes::Routes;
use crate::answer::{AdapterView, DeviceView};
use crate::call::Call;
use crate::endpoint::initiator::{self as at, Rescan};
use config::change::Change;
use config::redact::redacted_login;
use initiator::own_name::initiator_name;
use model::Error;
use model::config::Config;
use model::initiator::LoginSpec;
use model::initiator::configured::times_in_force;
use model::initiator::view::{InitiatorDevice, InitiatorSession, SessionState};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::ADAPTER, adapter)
        .change(&at::SET_ADAPTER, |[], wanted| Change::SetInitiator(wanted))
        .serve(&at::LOGINS, logins)
        .change(&at::LOG_IN, |[], login| Change::LogIn(login))
        .change(&at::MODIFY_LOGIN, |[iqn], wanted| {
            Change::ModifyLogin(iqn, wanted)
        })
        .change(&at::LOG_OUT, |[iqn], ()| Change::LogOut(iqn))
        .serve(&at::SESSIONS, sessions)
        .serve(&at::RESCAN, rescan)
        .serve(&at::DEVICES, devices)
        .serve(&at::DEVICE, device)
        .change(&at::SET_DEVICE, |[name], wanted| {
            Change::SetDevice(name, wanted)
        })
        .change(&at::RESET_DEVICE, |[name], ()| Change::ResetDevice(name))
}

pub(super) fn adapter(call: Call) -> Result<AdapterView, Error> {
    let Call { plane, .. } = call;
    let config = plane.config();
    let data_plane = plane.transactions.data_plane();
    let (sessions, devices) = (
        data_plane.initiator_sessions(),
        data_plane.initiator_devices(),
    );
    let up = |session: &&InitiatorSession| {
        matches!(session.state, SessionState::LoggedIn | SessionState::Silent)
    };
    let ways = || devices.iter().flat_map(|device| &device.ways);
    let chosen = &config.initiator.name;
    Ok(AdapterView {
        adapter: "vmhba64".into(),
        name: match chosen.as_str() {
            "" => initiator_name(),
            name => name.to_owned(),
        },
        is_chosen: !chosen.is_empty(),
        times: times_in_force(&config.initiator.times),
        chosen_times: config.initiator.times.clone(),
        targets: config.initiator.targets.len(),
        sessions: sessions.len(),
        sessions_up: sessions.iter().filter(up).count(),
        devices: devices.len(),
        paths: ways().count(),
        dead_paths: ways().filter(|way| way.reason.is_some()).count(),
    })
}

pub(super) fn logins(call: Call) -> Result<Vec<LoginSpec>, Error> {
    let Call { plane, .. } = call;
    let config = plane.config();
    Ok(config
        .initiator
        .targets
        .iter()
        .map(redacted_login)
        .collect())
}

pub(super) fn sessions(call: Call) -> Result<Vec<InitiatorSession>, Error> {
    let Call { plane, .. } = call;
    Ok(plane.transactions.data_plane().initiator_sessions())
}

pub(super) fn rescan(call: Call<Rescan>) -> Result<(), Error> {
    let Call {
        plane, query: what, ..
    } = call;
    let target = what.target;
    if plane
        .transactions
        .data_plane()
        .initiator_rescan(target.as_deref())
    {
        return Ok(());
    }
    Err(Error::not_found(
        format!(
            "the initiator is not logged in to {}",
            target.unwrap_or_default()
        ),
        "sandstone initiator session list shows the sessions",
    ))
}

pub(super) fn devices(call: Call) -> Result<Vec<DeviceView>, Error> {
    let Call { plane, .. } = call;
    let config = plane.config();
    let devices = plane.transactions.data_plane().initiator_devices();
    Ok(devices
        .into_iter()
        .map(|device| view(&config, device))
        .collect())
}

pub(super) fn device(call: Call) -> Result<DeviceView, Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    let devices = plane.transactions.data_plane().initiator_devices();
    let found = devices.into_iter().find(|device| device.nmp.name == name);
    let missing = || {
        Error::not_found(
            format!("device {name} does not exist"),
            "sandstone initiator device list shows the devices; sandstone initiator rescan looks again",
        )
    };
    Ok(view(&plane.config(), found.ok_or_else(missing)?))
}

fn view(config: &Config, device: InitiatorDevice) -> DeviceView {
    let name = device.nmp.name.clone();
    let units = config.units.iter();
    let units = units.filter(|unit| unit.backend.disk_of_initiator() == Some(&*name));
    let mut chosen = config.initiator.devices.iter();
    DeviceView {
        units: units.map(|unit| unit.name.clone()).collect(),
        chosen: chosen.find(|chosen| chosen.name == name).cloned(),
        state: device,
    }
}

//! Handlers of requests about hosts: groups of initiators and their secrets.

use super::Plane;
use super::routes::Routes;
use crate::answer::HostView;
use crate::call::Call;
use crate::endpoint::host as at;
use crate::transaction::{Commit, Committed};
use config::access;
use config::change::{Change, CreateHost, SetChap};
use config::redact::redacted_host;
use model::Error;
use model::config::{Config, HostSpec};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::CREATE, create)
        .serve(&at::SHOW, show)
        .serve(&at::DELETE, delete)
        .serve(&at::ADD_INITIATOR, add_initiator)
        .serve(&at::REMOVE_INITIATOR, remove_initiator)
        .serve(&at::SET_CHAP, set_chap)
        .serve(&at::REMOVE_CHAP, remove_chap)
}

pub(super) fn list(call: Call) -> Result<Vec<HostView>, Error> {
    let Call { plane, .. } = call;
    let config = plane.config();
    Ok(config
        .hosts
        .iter()
        .map(|host| view(&plane, &config, host))
        .collect())
}

pub(super) fn show(call: Call) -> Result<HostView, Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    let config = plane.config();
    let missing = || {
        Error::not_found(
            format!("host {name} does not exist"),
            "sandstone host list shows the hosts",
        )
    };
    let host = config.host(&name).ok_or_else(missing)?;
    Ok(view(&plane, &config, host))
}

pub(super) fn create(call: Call<Commit, CreateHost>) -> Result<Committed, Error> {
    let Call {
        plane,
        query: how,
        body: request,
        ..
    } = call;
    plane.commit(Change::CreateHost(request), how)
}

pub(super) fn delete(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [name] = at.names();
    plane.commit(Change::DeleteHost(name), how)
}

pub(super) fn add_initiator(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [name, initiator] = at.names();
    plane.commit(Change::AddInitiator(name, initiator), how)
}

pub(super) fn remove_initiator(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [name, initiator] = at.names();
    plane.commit(Change::RemoveInitiator(name, initiator), how)
}

pub(super) fn set_chap(call: Call<Commit, SetChap>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        body: request,
        ..
    } = call;
    let [name] = at.names();
    plane.commit(Change::SetHostChap(name, Some(request)), how)
}

pub(super) fn remove_chap(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [name] = at.names();
    plane.commit(Change::SetHostChap(name, None), how)
}

fn view(plane: &Plane, config: &Config, host: &HostSpec) -> HostView {
    let sessions = plane.transactions.data_plane().sessions();
    let ours = |initiator: &str| {
        access::hosts(config, initiator)
            .iter()
            .any(|other| other.name == host.name)
    };
    HostView {
        spec: redacted_host(host),
        sessions: sessions
            .iter()
            .filter(|session| ours(&session.initiator))
            .count(),
        maps: config
            .maps
            .iter()
            .filter(|map| map.host.as_ref() == Some(&host.name))
            .cloned()
            .collect(),
    }
}

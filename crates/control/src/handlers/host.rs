//! Handlers of requests about hosts: groups of initiators and their secrets.

use super::routes::Routes;
use crate::answer::HostView;
use crate::call::Call;
use crate::endpoint::host as at;
use crate::gate::sees_map;
use config::change::Change;
use config::redact::redacted_host;
use model::Error;
use model::access::FolderGrant;
use model::config::{Config, HostSpec};
use model::data_plane::SessionInfo;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .change(&at::CREATE, |[], host| Change::CreateHost(host))
        .serve(&at::SHOW, show)
        .change(&at::DELETE, |[name], ()| Change::DeleteHost(name))
        .change(&at::ADD_INITIATOR, |[name, initiator], ()| {
            Change::AddInitiator(name, initiator)
        })
        .change(&at::REMOVE_INITIATOR, |[name, initiator], ()| {
            Change::RemoveInitiator(name, initiator)
        })
        .change(&at::SET_CHAP, |[name], chap| {
            Change::SetHostChap(name, Some(chap))
        })
        .change(&at::REMOVE_CHAP, |[name], ()| {
            Change::SetHostChap(name, None)
        })
}

pub(super) fn list(call: Call) -> Result<Vec<HostView>, Error> {
    let Call { plane, asker, .. } = call;
    let grant = asker.principal()?.grant.as_ref();
    let sees = |host: &&HostSpec| grant.is_none_or(|grant| grant.hosts.contains(&host.name));
    let config = plane.config();
    let sessions = plane.transactions.data_plane().sessions();
    let hosts = config.hosts.iter().filter(sees);
    Ok(hosts
        .map(|host| view(&sessions, &config, host, grant))
        .collect())
}

pub(super) fn show(call: Call) -> Result<HostView, Error> {
    let Call {
        plane, at, asker, ..
    } = call;
    let [name] = at.names();
    let grant = asker.principal()?.grant.as_ref();
    let config = plane.config();
    let missing = || {
        Error::not_found(
            format!("host {name} does not exist"),
            "sandstone host list shows the hosts",
        )
    };
    let host = config.host(&name).ok_or_else(missing)?;
    let sessions = plane.transactions.data_plane().sessions();
    Ok(view(&sessions, &config, host, grant))
}

/// Returns a host as the author of a request sees it.
fn view(
    sessions: &[SessionInfo],
    config: &Config,
    host: &HostSpec,
    grant: Option<&FolderGrant>,
) -> HostView {
    HostView {
        spec: redacted_host(host),
        sessions: sessions
            .iter()
            .filter(|session| host.membership(&session.initiator).is_some())
            .count(),
        maps: config
            .maps
            .iter()
            .filter(|map| map.host.as_ref() == Some(&host.name))
            .filter(|map| grant.is_none_or(|grant| sees_map(config, grant, map)))
            .cloned()
            .collect(),
    }
}

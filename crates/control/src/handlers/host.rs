//! Handlers of requests about hosts: groups of initiators and their secrets.

use std::collections::HashMap;

use super::routes::Routes;
use crate::answer::HostView;
use crate::call::Call;
use crate::endpoint::host as at;
use crate::gate::sees_map;
use config::access::HostIndex;
use config::change::Change;
use config::redact::redacted_host;
use model::Error;
use model::access::FolderGrant;
use model::config::{Config, HostSpec, MapSpec};
use model::data_plane::Login;

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
    let index = HostIndex::new(&config);
    let mut sessions: HashMap<&str, usize> = HashMap::new();
    for login in plane.transactions.data_plane().logins() {
        for host in index.hosts(&login.initiator) {
            *sessions.entry(&host.name).or_default() += 1;
        }
    }
    let mut maps: HashMap<&str, Vec<MapSpec>> = HashMap::new();
    for map in config
        .maps
        .iter()
        .filter(|map| is_seen(&config, grant, map))
    {
        if let Some(host) = &map.host {
            maps.entry(host).or_default().push(map.clone());
        }
    }
    let view = |host: &HostSpec| HostView {
        spec: redacted_host(host),
        sessions: sessions.get(&*host.name).copied().unwrap_or_default(),
        maps: maps.remove(&*host.name).unwrap_or_default(),
    };
    Ok(config.hosts.iter().filter(sees).map(view).collect())
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
    let logins = plane.transactions.data_plane().logins();
    let belongs = |login: &&Login| host.membership(&login.initiator).is_some();
    let maps = config.maps.iter().filter(|map| {
        let is_of = map.host.as_ref() == Some(&host.name);
        is_of && is_seen(&config, grant, map)
    });
    Ok(HostView {
        spec: redacted_host(host),
        sessions: logins.iter().filter(belongs).count(),
        maps: maps.cloned().collect(),
    })
}

/// Reports whether the author of a request sees a map.
fn is_seen(config: &Config, grant: Option<&FolderGrant>, map: &MapSpec) -> bool {
    grant.is_none_or(|grant| sees_map(config, grant, map))
}

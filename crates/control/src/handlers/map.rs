//! Handlers of requests about the map, the explanation of a host's view, and `share`.

use super::routes::Routes;
use crate::answer::Shared as SharedUnit;
use crate::call::Call;
use crate::endpoint::map::{self as at, Question};
use crate::gate::sees_map;
use crate::transaction::{Commit, Committed};
use config::access;
use config::change::{Change, Share};
use config::explain::{self, Explanation};
use model::Error;
use model::config::{Config, MapSpec};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .change(&at::ADD, |[], map| Change::AddMap(map))
        .change(&at::REMOVE, |[], map| Change::RemoveMap(map))
        .serve(&at::EXPLAIN, explain)
        .serve(&at::SHARE, share)
}

pub(super) fn list(call: Call) -> Result<Vec<MapSpec>, Error> {
    let Call { plane, asker, .. } = call;
    let grant = &asker.principal()?.grant;
    let config = plane.config();
    let sees = |map: &&MapSpec| grant.as_ref().is_none_or(|it| sees_map(&config, it, map));
    Ok(config.maps.iter().filter(sees).cloned().collect())
}

pub(super) fn explain(call: Call<Question>) -> Result<Explanation, Error> {
    let Call {
        plane,
        query: question,
        ..
    } = call;
    let config = plane.config();
    let unit = question.unit.as_deref();
    let mut told = explain::explain(&config, &question.initiator, unit);
    let data_plane = plane.transactions.data_plane();
    let units = match unit {
        Some(unit) => data_plane.unit(unit).into_iter().collect(),
        None => data_plane.units(),
    };
    told.add_hindrances(&config, &units);
    Ok(told)
}

pub(super) fn share(call: Call<Commit, Share>) -> Result<SharedUnit, Error> {
    let Call {
        plane,
        asker,
        query: how,
        body: request,
        ..
    } = call;
    if how.dry_run {
        let change = Change::Share(request.clone(), plane.default_portals.clone());
        // The real change draws new identities, not those of the preview. So only names are
        // reported.
        let (committed, after) = plane.transactions.commit_seen(&change, &how)?;
        return shared(&after, &request, committed);
    }
    // The body is left out, because it may hold a secret.
    let (committed, after) = plane.share_unit(&request, &how, &asker.deed(&()))?;
    shared(&after, &request, committed)
}

fn shared(config: &Config, request: &Share, committed: Committed) -> Result<SharedUnit, Error> {
    let gone = || {
        Error::not_found(
            "the shared logical unit, its host, target or map is no longer in the configuration",
            "sandstone map list",
        )
    };
    let named = config.host(&request.host);
    let host = named
        .or_else(|| {
            config
                .hosts
                .iter()
                .find(|host| host.has_pattern(&request.host).is_some())
        })
        .ok_or_else(gone)?;
    let wanted = request.target.as_ref();
    let leads = |map: &MapSpec| match wanted {
        Some(iqn) => map.leads_to(config, iqn),
        None => map.targets(config).is_none_or(|all| !all.is_empty()),
    };
    let fits = |map: &&MapSpec| {
        map.unit == request.unit
            && map.host.as_ref().is_none_or(|name| *name == host.name)
            && leads(map)
    };
    // The newest map is the last one. An older map may lead to the unit at another target.
    let map = config.maps.iter().rev().find(fits).ok_or_else(gone)?;
    let first = || map.targets(config).and_then(|all| all.first());
    let iqn = wanted.or_else(first);
    let target = iqn
        .map_or(config.targets.first(), |iqn| config.target(iqn))
        .ok_or_else(gone)?;
    let unit = config.unit(&request.unit).ok_or_else(gone)?;
    let member = host
        .initiators
        .first()
        .map_or(request.host.as_str(), |first| first.as_str());
    let secret = access::hosts(config, member)
        .into_iter()
        .find_map(|host| host.chap.as_ref());
    Ok(SharedUnit {
        committed,
        unit: unit.clone(),
        host: host.name.clone(),
        target: target.iqn.clone(),
        portals: target
            .portal_groups
            .iter()
            .flat_map(|group| group.portals.clone())
            .collect(),
        lun: map.lun,
        chap_user: secret.map(|chap| chap.user.clone()),
    })
}

//! Handlers of requests about pools.

use super::routes::Routes;
use crate::author::Author;
use crate::call::Call;
use crate::endpoint::pool::{self as at, Letting};
use crate::plane::Plane;
use model::Error;
use model::pool::create::{CreatePool, ExportView};
use model::pool::found::FoundPool;
use model::pool::history::{Happening, PoolHistoryView};
use model::pool::import::{ImportPool, WaitView};
use model::pool::properties::SetPoolProperty;
use model::pool::reguid::{ReguidPool, ReguidView};
use model::pool::scan::Scrub;
use model::pool::status::PoolView;
use model::pool::trim::Trim;
use model::pool::vdev_change::VdevChange;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::CREATE, create)
        .serve(&at::SHOW, show)
        .serve(&at::DESTROY, destroy)
        .serve(&at::EXPORT, export)
        .serve(&at::CHANGE_VDEVS, change_vdevs)
        .serve(&at::SET_PROPERTY, set_property)
        .serve(&at::SCRUB, scrub)
        .serve(&at::TRIM, trim)
        .serve(&at::SYNC, sync)
        .serve(&at::UPGRADE, upgrade)
        .serve(&at::EVENTS, events)
        .serve(&at::HISTORY, history)
        .serve(&at::IMPORT, import)
        .serve(&at::WAITS, waits)
        .serve(&at::REGUID, reguid)
}

impl Plane {
    /// Refuses to take a pool away while logical units serve its volumes. The caller keeps the
    /// configuration unchanged. This also keeps others from taking open pools away.
    fn refuse_if_pool_served(&self, name: &str) -> Result<(), Error> {
        // The number is read before the pool's units. Otherwise, the units of a pool that opens now
        // would be looked up by their old names.
        let number = self.pools.get(name).ok().map(|pool| pool.guid);
        self.served().refuse_pool(name, number)
    }

    /// Adds to an open pool the time until it is full, if it is known.
    pub(super) fn with_outlook(&self, mut view: PoolView) -> PoolView {
        let is_open = view.open_for_us.is_some();
        view.outlook = self
            .history
            .outlook(&view.guid, view.available)
            .filter(|_| is_open);
        view
    }
}

pub(super) fn list(call: Call) -> Result<Vec<PoolView>, Error> {
    let Call { plane, .. } = call;
    let views = plane.pools.views().into_iter();
    Ok(views.map(|view| plane.with_outlook(view)).collect())
}

pub(super) fn show(call: Call) -> Result<PoolView, Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    Ok(plane.with_outlook(plane.pools.view(&name)?))
}

pub(super) fn create(call: Call<(), CreatePool>) -> Result<PoolView, Error> {
    let Call {
        plane,
        asker,
        body: request,
        ..
    } = call;
    plane.refuse_disks_of_units(request.paths())?;
    if request.dry_run {
        Author::asks_only();
        return plane.pools.would_create(&request);
    }
    plane.pools.create(&request)?;
    plane.pools.note(&request.name, &asker.deed(&request));
    plane.pools.view(&request.name)
}

pub(super) fn destroy(call: Call) -> Result<(), Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    let _unchanged = plane.transactions.unchanged();
    plane.refuse_if_pool_served(&name)?;
    plane.pools.destroy(&name)
}

pub(super) fn export(call: Call<Letting>) -> Result<ExportView, Error> {
    let Call {
        plane,
        at,
        query: how,
        asker,
        ..
    } = call;
    let [name] = at.names();
    // The pool may have another name when it is imported.
    plane.follow_or_tell();
    let unchanged = plane.transactions.unchanged();
    if !how.force {
        plane.refuse_if_pool_served(&name).map_err(|mut error| {
                let forced = format!("sandstone pool export -f {name}");
                error.next = format!(
                    "{forced} makes these logical units not ready until the pool is imported again; or {}",
                    error.next
                );
                error
            })?;
    }
    // The request is noted before the export. After it, the pool is no longer open for notes.
    if plane.pools.get(&name).is_ok() {
        plane.pools.note(&name, &asker.deed(&()));
    }
    let exported = plane.pools.export(&name);
    drop(unchanged);
    // The pool's units are not ready from now on, even if no initiator asks.
    plane.transactions.data_plane().try_again();
    exported
}

pub(super) fn change_vdevs(call: Call<(), VdevChange>) -> Result<PoolView, Error> {
    let Call {
        plane,
        at,
        asker,
        body: change,
        ..
    } = call;
    let [name] = at.names();
    plane.refuse_disks_of_units(change.takes().into_iter().flatten())?;
    if matches!(change, VdevChange::Add { dry_run: true, .. }) {
        Author::asks_only();
        return plane.pools.would_add(&name, &change);
    }
    plane.pools.change_vdevs(&name, &change)?;
    plane.pools.note(&name, &asker.deed(&change));
    plane.pools.view(&name)
}

pub(super) fn set_property(call: Call<(), SetPoolProperty>) -> Result<PoolView, Error> {
    let Call {
        plane,
        at,
        asker,
        body: request,
        ..
    } = call;
    let [name] = at.names();
    plane.pools.set_property(&name, &request)?;
    plane.pools.note(&name, &asker.deed(&request));
    plane.pools.view(&name)
}

pub(super) fn upgrade(call: Call) -> Result<PoolView, Error> {
    let Call {
        plane, at, asker, ..
    } = call;
    let [name] = at.names();
    plane.pools.upgrade(&name)?;
    plane.pools.note(&name, &asker.deed(&()));
    plane.pools.view(&name)
}

pub(super) fn scrub(call: Call<(), Scrub>) -> Result<PoolView, Error> {
    let Call {
        plane,
        at,
        asker,
        body: scrub,
        ..
    } = call;
    let [name] = at.names();
    plane.pools.scrub(&name, scrub.action)?;
    plane.pools.note(&name, &asker.deed(&scrub));
    plane.pools.view(&name)
}

pub(super) fn trim(call: Call<(), Trim>) -> Result<PoolView, Error> {
    let Call {
        plane,
        at,
        asker,
        body: trim,
        ..
    } = call;
    let [name] = at.names();
    plane.pools.trim(&name, &trim)?;
    plane.pools.note(&name, &asker.deed(&trim));
    plane.pools.view(&name)
}

pub(super) fn sync(call: Call) -> Result<(), Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    plane.pools.sync(&name)
}

pub(super) fn events(call: Call) -> Result<Vec<Happening>, Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    Ok(plane.pools.get(&name)?.host.happenings())
}

pub(super) fn history(call: Call) -> Result<PoolHistoryView, Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    plane.pools.history(&name)
}

pub(super) fn waits(call: Call) -> Result<Vec<WaitView>, Error> {
    let Call { plane, .. } = call;
    Ok(plane.pools.waits())
}

pub(super) fn import(call: Call<(), ImportPool>) -> Result<Vec<FoundPool>, Error> {
    let Call {
        plane,
        asker,
        body: request,
        ..
    } = call;
    if request.pool.is_none() || request.dry_run {
        Author::asks_only();
    }
    if request.pool.is_none() {
        return Ok(plane.pools.importable(&request.paths));
    }
    let imported = plane.pools.import(&request);
    // The pool may be open although an error is reported.
    let notice = plane.follow_or_tell();
    plane.transactions.data_plane().try_again();
    let mut imported = imported?;
    imported.notes.extend(notice);
    if !request.dry_run {
        plane.pools.note(&imported.name, &asker.deed(&request));
    }
    // The found devices are no news. Changes that were given up, devices left alone, and doubts
    // are news.
    let is_news =
        imported.rewind.is_some() || !imported.left_out.is_empty() || !imported.notes.is_empty();
    Ok(is_news.then_some(imported).into_iter().collect())
}

pub(super) fn reguid(call: Call<(), ReguidPool>) -> Result<ReguidView, Error> {
    let Call {
        plane,
        body: request,
        ..
    } = call;
    plane.pools.reguid(&request)
}

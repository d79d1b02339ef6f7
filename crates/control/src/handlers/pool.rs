//! Routes for pools.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::{Answer, Plane, Shared, apart};
use crate::answer::{Body, Params, Problem};
use crate::asker::Asker;
use crate::author::Author;
use crate::endpoint::pool::{self as at, Letting};
use model::Error;
use model::pool::create::{CreatePool, ExportView};
use model::pool::found::FoundPool;
use model::pool::history::{Happening, HistoryView};
use model::pool::import::{ImportPool, WaitView};
use model::pool::properties::SetPoolProperty;
use model::pool::reguid::{ReguidPool, ReguidView};
use model::pool::scan::Scrub;
use model::pool::status::PoolView;
use model::pool::trim::Trim;
use model::pool::vdev_change::VdevChange;

impl Plane {
    /// Refuses to take a pool away while logical units serve its volumes. The caller keeps the
    /// configuration unchanged. This also keeps others from taking open pools away.
    fn refuse_if_pool_served(&self, name: &str) -> Result<(), Error> {
        // The number is read before the pool's units. Otherwise, the units of a pool that opens now
        // would be looked up by their old names.
        let number = self.pools.get(name).ok().map(|pool| pool.guid);
        self.served().refuse_pool(name, number)
    }
}

/// Lists all pools.
#[utoipa::path(get, path = at::LIST.path, tag = at::LIST.tag, operation_id = at::LIST.id, responses((status = 200, body = Vec<PoolView>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Answer<Vec<PoolView>> {
    apart(move || Ok(plane.pools.views())).await.map(Json)
}

/// Returns one pool.
#[utoipa::path(get, path = at::SHOW.path, tag = at::SHOW.tag, operation_id = at::SHOW.id,
    responses((status = 200, body = PoolView), (status = "4XX", body = Problem)))]
pub(super) async fn show(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Answer<PoolView> {
    apart(move || plane.pools.view(&name)).await.map(Json)
}

/// Makes a pool on files and devices. A dry run only reports the layout.
#[utoipa::path(post, path = at::CREATE.path, tag = at::CREATE.tag, operation_id = at::CREATE.id, request_body = CreatePool,
    responses((status = 200, body = PoolView), (status = "4XX", body = Problem)))]
pub(super) async fn create(
    State(plane): State<Shared>,
    asker: Asker,
    Body(request): Body<CreatePool>,
) -> Answer<PoolView> {
    let made = apart(move || {
        plane.refuse_disks_of_units(request.paths())?;
        if request.dry_run {
            Author::asks_only();
            return plane.pools.would_create(&request);
        }
        plane.pools.create(&request)?;
        plane.pools.note(&request.name, &asker.deed(&request));
        plane.pools.view(&request.name)
    });
    made.await.map(Json)
}

/// Destroys a pool and everything in it. This is refused while logical units serve its volumes.
#[utoipa::path(delete, path = at::DESTROY.path, tag = at::DESTROY.tag, operation_id = at::DESTROY.id,
    responses((status = 204), (status = "4XX", body = Problem)))]
pub(super) async fn destroy(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    apart(move || {
        let _unchanged = plane.transactions.unchanged();
        plane.refuse_if_pool_served(&name)?;
        plane.pools.destroy(&name)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Exports a pool, so that any host may import it. A pool that is not open is forgotten. This is
/// refused while logical units serve its volumes, unless forced.
#[utoipa::path(post, path = at::EXPORT.path, tag = at::EXPORT.tag, operation_id = at::EXPORT.id, params(Letting),
    responses((status = 200, body = ExportView), (status = "4XX", body = Problem)))]
pub(super) async fn export(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Letting>,
    asker: Asker,
) -> Answer<ExportView> {
    let exported = apart(move || {
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
    });
    exported.await.map(Json)
}

/// Changes the vdevs of a pool: takes devices offline or online, attaches, replaces, detaches,
/// adds, removes or clears them. The answer comes when the labels record the change. A dry run of
/// an addition only reports the layout.
#[utoipa::path(post, path = at::CHANGE_VDEVS.path, tag = at::CHANGE_VDEVS.tag, operation_id = at::CHANGE_VDEVS.id, request_body = VdevChange,
    responses((status = 200, body = PoolView), (status = "4XX", body = Problem)))]
pub(super) async fn change_vdevs(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    asker: Asker,
    Body(change): Body<VdevChange>,
) -> Answer<PoolView> {
    let changed = apart(move || {
        plane.refuse_disks_of_units(change.takes().into_iter().flatten())?;
        if matches!(change, VdevChange::Add { dry_run: true, .. }) {
            Author::asks_only();
            return plane.pools.would_add(&name, &change);
        }
        plane.pools.change_vdevs(&name, &change)?;
        plane.pools.note(&name, &asker.deed(&change));
        plane.pools.view(&name)
    });
    changed.await.map(Json)
}

/// Sets a property of a pool. The answer comes when the labels record it.
#[utoipa::path(post, path = at::SET_PROPERTY.path, tag = at::SET_PROPERTY.tag, operation_id = at::SET_PROPERTY.id, request_body = SetPoolProperty,
    responses((status = 200, body = PoolView), (status = "4XX", body = Problem)))]
pub(super) async fn set_property(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    asker: Asker,
    Body(request): Body<SetPoolProperty>,
) -> Answer<PoolView> {
    let set = apart(move || {
        plane.pools.set_property(&name, &request)?;
        plane.pools.note(&name, &asker.deed(&request));
        plane.pools.view(&name)
    });
    set.await.map(Json)
}

/// Enables all format features that this program knows. The answer comes when the labels record
/// them.
#[utoipa::path(post, path = at::UPGRADE.path, tag = at::UPGRADE.tag, operation_id = at::UPGRADE.id,
    responses((status = 200, body = PoolView), (status = "4XX", body = Problem)))]
pub(super) async fn upgrade(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    asker: Asker,
) -> Answer<PoolView> {
    let upgraded = apart(move || {
        plane.pools.upgrade(&name)?;
        plane.pools.note(&name, &asker.deed(&()));
        plane.pools.view(&name)
    });
    upgraded.await.map(Json)
}

/// Begins, pauses or stops a scrub.
#[utoipa::path(post, path = at::SCRUB.path, tag = at::SCRUB.tag, operation_id = at::SCRUB.id, request_body = Scrub,
    responses((status = 200, body = PoolView), (status = "4XX", body = Problem)))]
pub(super) async fn scrub(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    asker: Asker,
    Body(scrub): Body<Scrub>,
) -> Answer<PoolView> {
    let begun = apart(move || {
        plane.pools.scrub(&name, scrub.action)?;
        plane.pools.note(&name, &asker.deed(&scrub));
        plane.pools.view(&name)
    });
    begun.await.map(Json)
}

/// Begins, pauses or cancels trims of devices.
#[utoipa::path(post, path = at::TRIM.path, tag = at::TRIM.tag, operation_id = at::TRIM.id, request_body = Trim,
    responses((status = 200, body = PoolView), (status = "4XX", body = Problem)))]
pub(super) async fn trim(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    asker: Asker,
    Body(trim): Body<Trim>,
) -> Answer<PoolView> {
    let begun = apart(move || {
        plane.pools.trim(&name, &trim)?;
        plane.pools.note(&name, &asker.deed(&trim));
        plane.pools.view(&name)
    });
    begun.await.map(Json)
}

/// Makes everything durable that the pool has taken so far. The answer comes when this is done.
#[utoipa::path(post, path = at::SYNC.path, tag = at::SYNC.tag, operation_id = at::SYNC.id,
    responses((status = 204), (status = "4XX", body = Problem)))]
pub(super) async fn sync(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    apart(move || plane.pools.sync(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the latest events of a pool since it was opened, oldest first.
#[utoipa::path(get, path = at::EVENTS.path, tag = at::EVENTS.tag, operation_id = at::EVENTS.id,
    responses((status = 200, body = Vec<Happening>), (status = "4XX", body = Problem)))]
pub(super) async fn events(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Answer<Vec<Happening>> {
    apart(move || Ok(plane.pools.get(&name)?.host.happenings()))
        .await
        .map(Json)
}

/// Returns the history of a pool: its changes with author and time, as far as it is kept. The
/// history is stored in the pool, and moves with it.
#[utoipa::path(get, path = at::HISTORY.path, tag = at::HISTORY.tag, operation_id = at::HISTORY.id,
    responses((status = 200, body = HistoryView), (status = "4XX", body = Problem)))]
pub(super) async fn history(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Answer<HistoryView> {
    apart(move || plane.pools.history(&name)).await.map(Json)
}

/// Lists imports and other openings that wait for proof that no other host has the pool, with their
/// remaining time and reason.
#[utoipa::path(get, path = at::WAITS.path, tag = at::WAITS.tag, operation_id = at::WAITS.id,
    responses((status = 200, body = Vec<WaitView>)))]
pub(super) async fn waits(State(plane): State<Shared>) -> Json<Vec<WaitView>> {
    Json(plane.pools.waits())
}

/// Imports a pool. Without a pool's name, it lists the pools that could be imported.
#[utoipa::path(post, path = at::IMPORT.path, tag = at::IMPORT.tag, operation_id = at::IMPORT.id, request_body = ImportPool,
    responses((status = 200, body = Vec<FoundPool>), (status = "4XX", body = Problem)))]
pub(super) async fn import(
    State(plane): State<Shared>,
    asker: Asker,
    Body(request): Body<ImportPool>,
) -> Answer<Vec<FoundPool>> {
    let found = apart(move || {
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
        let is_news = imported.rewind.is_some()
            || !imported.left_out.is_empty()
            || !imported.notes.is_empty();
        Ok(is_news.then_some(imported).into_iter().collect())
    });
    found.await.map(Json)
}

/// Turns a copy of a pool's devices into a separate pool with a number of its own.
#[utoipa::path(post, path = at::REGUID.path, tag = at::REGUID.tag, operation_id = at::REGUID.id, request_body = ReguidPool,
    responses((status = 200, body = ReguidView), (status = "4XX", body = Problem)))]
pub(super) async fn reguid(
    State(plane): State<Shared>,
    Body(request): Body<ReguidPool>,
) -> Answer<ReguidView> {
    apart(move || plane.pools.reguid(&request)).await.map(Json)
}

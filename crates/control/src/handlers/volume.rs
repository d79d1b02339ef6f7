//! Handlers of requests about volumes, snapshots and folders of pools.

use axum::extract::State;
use axum::response::Response;

use super::apart;
use super::routes::Routes;
use crate::answer::{Params, Problem};
use crate::asker::Asker;
use crate::call::Call;
use crate::endpoint::volume::{self as at, How, Listed};
use crate::json_list::json_list;
use crate::plane::{Plane, Shared};
use model::config::UnitSpec;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::{Changed, DatasetView};
use model::{Error, ErrorKind};
use pools::dataset::Listing;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .stream(&at::LIST, list)
        .serve(&at::CHANGE, change)
        .serve(&at::SNAPSHOT, snapshot)
}

/// The list is made while it is sent, because it may be long.
pub(super) async fn list(
    State(plane): State<Shared>,
    asker: Asker,
    Params(listed): Params<Listed>,
) -> Result<Response, Problem> {
    let selection = listed.selection();
    let grant = asker.principal()?.grant.clone();
    let asked = selection.clone();
    let listings = move || plane.pools.listings(listed.pool.as_deref(), &asked);
    let listings = apart(listings).await?;
    let views = move |of: Listing| of.into_views(selection.clone());
    let sees = move |view: &DatasetView| match &grant {
        None => true,
        Some(grant) => grant.holds(&view.name),
    };
    Ok(json_list(listings.into_iter().flat_map(views).filter(sees)))
}

/// Makes a change that an operator may make.
fn snapshot(call: Call<How, DatasetChange>) -> Result<Changed, Error> {
    match call.body.only_adds() {
        true => change(call),
        false => Err(Error::invalid(
            "this path takes snapshots, clones and holds only",
            format!("send any other change as an admin to {:?}", at::CHANGE),
        )),
    }
}

pub(super) fn change(call: Call<How, DatasetChange>) -> Result<Changed, Error> {
    let Call {
        plane,
        asker,
        query: how,
        body: request,
        ..
    } = call;
    if how.dry_run {
        return plane.pools.preview(&request, &plane.served());
    }
    let may_disturb = request.may_disturb();
    if may_disturb {
        plane.follow_or_tell();
    }
    let unchanged = may_disturb.then(|| plane.transactions.unchanged());
    let at_rest = at_rest(&plane, &request)?;
    let served = plane.served().with_at_rest(at_rest.clone());
    let mut changed = plane.pools.change_beneath(&request, &served);
    if changed.is_ok() {
        plane.transactions.data_plane().data_was_replaced(&at_rest);
    }
    if changed.as_ref().is_ok_and(|changed| !changed.unchanged) {
        plane.pools.note(request.pool()?, &asker.deed(&request));
    }
    drop(unchanged);
    if may_disturb {
        let notice = plane.follow_or_tell();
        if let Ok(changed) = &mut changed {
            changed.notices.extend(notice);
        }
    }
    // A change that failed may have been made in part.
    if request.is_seen_by_units() {
        plane.transactions.data_plane().try_again();
    }
    changed
}

/// Returns the offline units of a volume to roll back, once nothing is under way on them. A write
/// that came before they went offline must not land on the rolled-back data.
fn at_rest(plane: &Plane, change: &DatasetChange) -> Result<Vec<String>, Error> {
    let Some(volume) = change.rolled_back() else {
        return Ok(Vec::new());
    };
    let config = plane.transactions.followed();
    let on_it = |unit: &&UnitSpec| unit.backend.volume() == Some(volume);
    let offline = config
        .units
        .iter()
        .filter(|unit| unit.offline)
        .filter(on_it);
    let offline: Vec<String> = offline.map(|unit| unit.name.clone()).collect();
    match plane.transactions.data_plane().is_at_rest(&offline) {
        true => Ok(offline),
        false => Err(Error::new(
            ErrorKind::InUse,
            format!(
                "commands are still under way on lu {}",
                offline.join(", lu ")
            ),
            "try again after the pool has answered these commands; see `sandstone pool status`",
        )),
    }
}

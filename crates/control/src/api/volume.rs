//! Volumes, snapshots and folders of pools.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{Answer, Plane, Shared, apart};
use crate::answer::{Body, Params, Problem};
use crate::asker::Asker;
use crate::json_list::json_list;
use model::config::UnitSpec;
use model::{Error, ErrorKind};
use pools::dataset::{Changed, DatasetChange, DatasetView, Listing, Selection};

/// Which datasets are meant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listed {
    /// Only those of this pool; refused where it does not answer.
    #[serde(default)]
    pool: Option<String>,
    /// Only these kinds, comma-separated: folder, volume, snapshot.
    #[serde(default)]
    kinds: Option<String>,
    /// Only these properties, comma-separated. Whoever needs few of many datasets is answered sooner.
    #[serde(default)]
    properties: Option<String>,
}

impl Listed {
    fn selection(&self) -> Selection {
        let words = |list: &String| list.split(',').map(str::to_owned).collect();
        Selection {
            kinds: self.kinds.as_ref().map(words),
            properties: self.properties.as_ref().map(words),
        }
    }
}

/// How a change is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// Only say what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// All datasets of a pool, or of all pools that answer.
#[utoipa::path(get, path = "/v1/volumes", tag = "volume", operation_id = "volume_list", params(Listed),
    responses((status = 200, body = Vec<DatasetView>), (status = "4XX", body = Problem)))]
pub(super) async fn list(
    State(plane): State<Shared>,
    Params(listed): Params<Listed>,
) -> Result<Response, Problem> {
    let selection = listed.selection();
    let listings = apart(move || plane.pools.listings(listed.pool.as_deref())).await?;
    let views = move |of: Listing| of.into_views(selection.clone());
    Ok(json_list(listings.into_iter().flat_map(views)))
}

/// Makes one change of datasets; it outlives a power cut when this is answered. Refused where it would take
/// away what logical units serve.
#[utoipa::path(post, path = "/v1/volumes", tag = "volume", operation_id = "volume_change", params(How), request_body = DatasetChange,
    responses((status = 200, body = Changed), (status = "4XX", body = Problem)))]
pub(super) async fn change(
    State(plane): State<Shared>,
    asker: Asker,
    Params(how): Params<How>,
    Body(request): Body<DatasetChange>,
) -> Answer<Changed> {
    let changed = apart(move || {
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
        // Of one that failed a part may have been made.
        if request.is_seen_by_units() {
            plane.transactions.data_plane().try_again();
        }
        changed
    });
    changed.await.map(Json)
}

/// The units of a volume that is to be rolled back, where they are offline; once nothing is under way on them. A write
/// that came before they were taken offline must not land on what was rolled back.
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
            "try again when the pool has answered them; see `sandstone pool status`",
        )),
    }
}

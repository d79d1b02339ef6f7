//! Volumes, snapshots and folders of pools.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::{Answer, Shared, apart};
use crate::control::answer::{Body, Problem};
use crate::control::asker::Asker;
use crate::pool::dataset::{DatasetChange, DatasetView};
use crate::pool::served::Served;

/// All datasets of all pools.
#[utoipa::path(get, path = "/v1/volumes", tag = "volume", operation_id = "volume_list", responses((status = 200, body = Vec<DatasetView>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Answer<Vec<DatasetView>> {
    apart(move || Ok(plane.pools.datasets())).await.map(Json)
}

/// Makes one change of datasets; it outlives a power cut when this is answered. Refused where it would take
/// away what logical units serve.
#[utoipa::path(post, path = "/v1/volumes", tag = "volume", operation_id = "volume_change", request_body = DatasetChange,
    responses((status = 204), (status = "4XX", body = Problem)))]
pub(super) async fn change(
    State(plane): State<Shared>,
    asker: Asker,
    Body(request): Body<DatasetChange>,
) -> Result<StatusCode, Problem> {
    apart(move || {
        let unchanged = request
            .may_disturb()
            .then(|| plane.transactions.unchanged());
        let served = Served::of(&plane.config());
        plane.pools.change_beneath(&request, &served)?;
        plane.pools.note(request.pool()?, &asker.deed(&request));
        drop(unchanged);
        if request.is_seen_by_units() {
            plane.transactions.data_plane().try_again();
        }
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

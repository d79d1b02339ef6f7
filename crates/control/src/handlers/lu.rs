//! Routes for logical units.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};

use super::{Answer, Shared, apart};
use crate::answer::{Body, Params, Problem, UnitView};
use crate::asker::Asker;
use crate::endpoint::lu::{self as at, Clear};
use crate::transaction::{Commit, Committed};
use config::change::{Change, CreateUnit, ModifyUnit};
use model::Error;
use model::config::{MapSpec, UnitSpec};
use model::data_plane::UnitStatus;
use model::hindrance::{Cleared, Clearing, HindranceKind};

/// Lists all logical units.
#[utoipa::path(get, path = at::LIST.path, tag = at::LIST.tag, operation_id = at::LIST.id, responses((status = 200, body = Vec<UnitView>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Json<Vec<UnitView>> {
    let config = plane.config();
    let states = plane.transactions.data_plane().units();
    let states: HashMap<&str, &UnitStatus> = states
        .iter()
        .map(|state| (state.name.as_str(), state))
        .collect();
    let mut maps: HashMap<&str, Vec<MapSpec>> = HashMap::new();
    for map in &config.maps {
        maps.entry(&map.unit).or_default().push(map.clone());
    }
    let views = config.units.iter().map(|unit| {
        let name = unit.name.as_str();
        let maps = maps.remove(name).unwrap_or_default();
        view(unit, states.get(name).copied(), maps)
    });
    Json(views.collect())
}

/// Returns one logical unit.
#[utoipa::path(get, path = at::SHOW.path, tag = at::SHOW.tag, operation_id = at::SHOW.id,
    responses((status = 200, body = UnitView), (status = "4XX", body = Problem)))]
pub(super) async fn show(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Answer<UnitView> {
    let config = plane.config();
    let unit = config.unit(&name).ok_or_else(|| missing(&name))?;
    let state = plane.transactions.data_plane().unit(&name);
    let maps = config.maps.iter().filter(|map| map.unit == name);
    Ok(Json(view(unit, state.as_ref(), maps.cloned().collect())))
}

/// Makes a logical unit. If the request asks for a volume, the volume is made too.
#[utoipa::path(post, path = at::CREATE.path, tag = at::CREATE.tag, operation_id = at::CREATE.id, params(Commit), request_body = CreateUnit,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn create(
    State(plane): State<Shared>,
    asker: Asker,
    Params(how): Params<Commit>,
    Body(request): Body<CreateUnit>,
) -> Answer<Committed> {
    let deed = asker.deed(&request);
    // A volume may have to be made first, which takes time.
    apart(move || plane.create_unit(request, &how, &deed))
        .await
        .map(Json)
}

/// Changes a logical unit. Absent fields keep their values.
#[utoipa::path(patch, path = at::MODIFY.path, tag = at::MODIFY.tag, operation_id = at::MODIFY.id, params(Commit), request_body = ModifyUnit,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn modify(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    asker: Asker,
    Params(how): Params<Commit>,
    Body(request): Body<ModifyUnit>,
) -> Answer<Committed> {
    let deed = asker.deed(&request);
    apart(move || plane.modify_unit(&name, request, &how, &deed))
        .await
        .map(Json)
}

/// Removes a logical unit. The file or device behind it stays.
#[utoipa::path(delete, path = at::DELETE.path, tag = at::DELETE.tag, operation_id = at::DELETE.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn delete(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::DeleteUnit(name), how).await
}

/// Ends a state that stops I/O of a logical unit. Examples are a stop, a write protection,
/// reservations, ALUA states that initiators chose, a failed SANITIZE, and lost writes.
#[utoipa::path(delete, path = at::CLEAR.path, tag = at::CLEAR.tag, operation_id = at::CLEAR.id,
    params(("name" = String, Path, description = "The logical unit."), ("kind" = HindranceKind, Path, description = "Kind of the state to end."), Clear),
    responses((status = 200, description = "States that ended, or would end.", body = Cleared), (status = "4XX", description = "The request was refused.", body = Problem)))]
pub(super) async fn clear(
    State(plane): State<Shared>,
    Path((name, kind)): Path<(String, String)>,
    Params(how): Params<Clear>,
) -> Answer<Cleared> {
    if plane.config().unit(&name).is_none() {
        return Err(missing(&name).into());
    }
    let (kind, what) = clearable(&name, &kind)?;
    // The state of the unit is stored, which may block.
    apart(move || {
        let data_plane = plane.transactions.data_plane();
        let ended = match how.dry_run {
            true => {
                let state = data_plane.unit(&name).unwrap_or_default();
                let mut found = state.hindrances;
                found.retain(|hindrance| hindrance.kind == kind);
                found
            }
            false => data_plane.clear(&name, what)?,
        };
        Ok(Cleared {
            dry_run: how.dry_run,
            unit: name,
            ended,
        })
    })
    .await
    .map(Json)
}

fn clearable(name: &str, word: &str) -> Result<(HindranceKind, Clearing), Error> {
    let kind = HindranceKind::of_word(word);
    if let Some((kind, what)) = kind.and_then(|kind| Some((kind, kind.clearing()?))) {
        return Ok((kind, what));
    }
    let words: Vec<&str> = HindranceKind::clearable().collect();
    let words = words.join(", ");
    Err(match kind {
        Some(_) => Error::invalid(
            format!("lu clear cannot end the state {word}"),
            format!("sandstone lu list {name} tells how to end it; lu clear ends {words}"),
        ),
        None => Error::invalid(
            format!("{word:?} is not a state of a logical unit"),
            format!("choose one of {words}"),
        ),
    })
}

fn missing(name: &str) -> Error {
    Error::not_found(
        format!("logical unit {name} does not exist"),
        "sandstone lu list shows the logical units",
    )
}

fn view(unit: &UnitSpec, state: Option<&UnitStatus>, maps: Vec<MapSpec>) -> UnitView {
    let unknown = || UnitStatus {
        name: unit.name.clone(),
        fault: (!unit.offline).then(|| "the data plane does not know the logical unit".to_owned()),
        size: unit.backend.size().unwrap_or(0),
        ..UnitStatus::default()
    };
    UnitView {
        spec: unit.clone(),
        status: state.cloned().unwrap_or_else(unknown),
        maps,
    }
}

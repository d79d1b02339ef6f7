//! Handlers of requests about logical units.

use std::collections::HashMap;

use super::routes::Routes;
use crate::answer::UnitView;
use crate::call::Call;
use crate::endpoint::lu::{self as at, Clear};
use crate::gate::sees_unit;
use crate::transaction::{Commit, Committed};
use config::change::{Change, CreateUnit, ModifyUnit};
use model::Error;
use model::config::{MapSpec, UnitSpec};
use model::data_plane::UnitStatus;
use model::hindrance::{Cleared, Clearing, HindranceKind};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::CREATE, create)
        .serve(&at::SHOW, show)
        .serve(&at::MODIFY, modify)
        .change(&at::DELETE, |[name], ()| Change::DeleteUnit(name))
        .serve(&at::CLEAR, clear)
}

pub(super) fn list(call: Call) -> Result<Vec<UnitView>, Error> {
    let Call { plane, asker, .. } = call;
    let grant = &asker.principal()?.grant;
    let sees = |unit: &&UnitSpec| grant.as_ref().is_none_or(|it| sees_unit(it, unit));
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
    let views = config.units.iter().filter(sees).map(|unit| {
        let name = unit.name.as_str();
        let maps = maps.remove(name).unwrap_or_default();
        view(unit, states.get(name).copied(), maps)
    });
    Ok(views.collect())
}

pub(super) fn show(call: Call) -> Result<UnitView, Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    let config = plane.config();
    let unit = config.unit(&name).ok_or_else(|| missing(&name))?;
    let state = plane.transactions.data_plane().unit(&name);
    let maps = config.maps.iter().filter(|map| map.unit == name);
    Ok(view(unit, state.as_ref(), maps.cloned().collect()))
}

pub(super) fn create(call: Call<Commit, CreateUnit>) -> Result<Committed, Error> {
    let Call {
        plane,
        asker,
        query: how,
        body: request,
        ..
    } = call;
    let deed = asker.deed(&request);
    // A volume may have to be made first, which takes time.
    plane.create_unit(request, &how, &deed)
}

pub(super) fn modify(call: Call<Commit, ModifyUnit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        asker,
        query: how,
        body: request,
        ..
    } = call;
    let [name] = at.names();
    let deed = asker.deed(&request);
    plane.modify_unit(&name, request, &how, &deed)
}

pub(super) fn clear(call: Call<Clear>) -> Result<Cleared, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [name, kind] = at.names();
    if plane.config().unit(&name).is_none() {
        return Err(missing(&name));
    }
    let (kind, what) = clearable(&name, &kind)?;
    // The state of the unit is stored, which may block.
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

//! States of units and pools, and the words for them, the same on every page.

use control::answer::UnitView;
use model::health::Health;
use model::hindrance::Stops;
use model::pool::status::PoolView;

use crate::mark::State;

/// Returns the state of a unit and the word for it.
pub(crate) fn unit(view: &UnitView) -> (State, String) {
    let status = &view.status;
    if view.spec.offline {
        return (State::Quiet, "offline".to_owned());
    }
    if status.fault.is_some() {
        return (State::Bad, "faulted".to_owned());
    }
    let worst = status
        .hindrances
        .iter()
        .max_by_key(|it| (it.kind.health(), it.stops != Stops::Nothing));
    match worst {
        None if status.online => (State::Good, "online".to_owned()),
        None => (State::Warn, "not ready".to_owned()),
        Some(hindrance) => {
            let state = match hindrance.kind.health() {
                Health::Impaired => State::Bad,
                Health::Attention => State::Warn,
                Health::Healthy => State::Quiet,
            };
            (state, hindrance.kind.word().replace('-', " "))
        }
    }
}

/// Returns the place of a unit's data.
pub(crate) fn place_of_unit(view: &UnitView) -> String {
    let backend = &view.spec.backend;
    let place = || backend.place().map(|path| path.display().to_string());
    let named = backend
        .volume()
        .or(backend.disk_of_initiator())
        .map(str::to_owned);
    named.or_else(place).unwrap_or_else(|| "memory".to_owned())
}

/// Returns the state of a pool.
pub(crate) fn pool(pool: &PoolView) -> State {
    match pool.health() {
        Health::Healthy => State::Good,
        Health::Attention => State::Warn,
        Health::Impaired => State::Bad,
    }
}

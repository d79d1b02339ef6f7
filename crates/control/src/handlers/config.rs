//! Routes for the configuration as a whole.

use axum::Json;
use axum::extract::{Path, State};

use super::{Answer, Shared, apart};
use crate::answer::{Body, ConfigDocument, Params, Problem};
use crate::asker::Asker;
use crate::endpoint::config::{self as at, Apply};
use crate::transaction::{Commit, Committed};
use config::backup::Backup;
use config::change::{Change, SetDiscovery};
use config::history::GenerationView;
use config::redact::redacted;
use model::{Config, Error, ErrorKind};

/// Returns the configuration in force.
#[utoipa::path(get, path = at::SHOW.path, tag = at::SHOW.tag, operation_id = at::SHOW.id,
    responses((status = 200, body = ConfigDocument), (status = "5XX", body = Problem)))]
pub(super) async fn show(State(plane): State<Shared>) -> Answer<ConfigDocument> {
    let config = plane.config();
    let toml = toml::to_string(&redacted(&config)).map_err(|e| {
        Error::invalid(
            format!("the configuration cannot be written as TOML: {e}"),
            "report this as a defect",
        )
    })?;
    Ok(Json(ConfigDocument {
        generation: config.generation,
        toml,
    }))
}

/// Returns the whole configuration of this machine with its secrets, as a backup. Only the control
/// socket gives it, because a TCP address does not identify the caller.
#[utoipa::path(get, path = at::EXPORT.path, tag = at::EXPORT.tag, operation_id = at::EXPORT.id,
    responses((status = 200, body = Backup), (status = "4XX", body = Problem)))]
pub(super) async fn export(State(plane): State<Shared>, asker: Asker) -> Answer<Backup> {
    let Some(user) = asker.known_user() else {
        return Err(Error::new(
            ErrorKind::Refused,
            "secrets leave the daemon only through its control socket: a TCP address does not identify the \
             user",
            "run sandstone config export on the daemon's machine as its user, with --state DIR",
        )
        .into());
    };
    tracing::warn!(user, "the configuration is exported with its secrets");
    apart(move || {
        let pools = pools::members(&plane.state_folder);
        Ok(Backup::new(&plane.config(), pools))
    })
    .await
    .map(Json)
}

/// Restores a backup on a machine that serves nothing yet. Its pools, disks and addresses may come
/// later.
#[utoipa::path(put, path = at::RESTORE.path, tag = at::RESTORE.tag, operation_id = at::RESTORE.id, params(Commit), request_body = Backup,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn restore(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<Backup>,
) -> Answer<Committed> {
    apart(move || plane.transactions.restore(request.config, &how))
        .await
        .map(Json)
}

/// Puts this configuration into force. Identities and secrets that it omits are kept.
#[utoipa::path(put, path = at::APPLY.path, tag = at::APPLY.tag, operation_id = at::APPLY.id, params(Commit), request_body = Apply,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn apply(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<Apply>,
) -> Answer<Committed> {
    let wanted = match request {
        Apply::Config(config) => config,
        Apply::Toml(text) => {
            let parsed: Config = toml::from_str(&text).map_err(|e| {
                Error::invalid(
                    format!(
                        "the file is not a configuration: {}",
                        e.to_string().trim_end()
                    ),
                    "sandstone config show prints a valid configuration",
                )
            })?;
            Box::new(parsed)
        }
    };
    plane.commit(Change::Replace(wanted), how).await
}

/// Sets the rules for discovery sessions, in which initiators ask for targets.
#[utoipa::path(put, path = at::SET_DISCOVERY.path, tag = at::SET_DISCOVERY.tag, operation_id = at::SET_DISCOVERY.id, params(Commit), request_body = SetDiscovery,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn set_discovery(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<SetDiscovery>,
) -> Answer<Committed> {
    plane.commit(Change::SetDiscovery(request), how).await
}

/// Lists the generations that are kept, in ascending order, with their times, authors and changes.
/// All but the one in force can be restored.
#[utoipa::path(get, path = at::GENERATIONS.path, tag = at::GENERATIONS.tag, operation_id = at::GENERATIONS.id,
    responses((status = 200, body = Vec<GenerationView>), (status = "5XX", body = Problem)))]
pub(super) async fn generations(State(plane): State<Shared>) -> Answer<Vec<GenerationView>> {
    apart(move || plane.transactions.history()).await.map(Json)
}

/// Puts an earlier generation into force again, as a new generation.
#[utoipa::path(post, path = at::ROLLBACK.path, tag = at::ROLLBACK.tag, operation_id = at::ROLLBACK.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn rollback(
    State(plane): State<Shared>,
    Path(generation): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    let wrong = |_| {
        Error::invalid(
            format!("{generation:?} is not the number of a generation"),
            "sandstone config history",
        )
    };
    let number = generation.parse::<u64>().map_err(wrong)?;
    apart(move || plane.transactions.rollback(number, &how))
        .await
        .map(Json)
}

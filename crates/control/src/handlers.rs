//! The HTTP/JSON API: its routes, its OpenAPI document, and the state and helpers that all routes
//! share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::{Json, Router};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Problem;
use super::author::{self, Author};
use super::names_in_use::NamesInUse;
use super::transaction::{Commit, Committed, Transactions};
use ::config::change::Change;
use model::{Config, Error, ErrorKind};
use pools::Pools;

mod config;
mod document;
mod host;
mod initiator;
mod lu;
mod map;
mod pool;
mod rules;
mod session;
mod status;
mod stream;
mod target;
mod target_group;
mod volume;

/// State that the routes work on.
#[derive(Debug)]
pub struct Plane {
    /// Configuration and its changes.
    pub transactions: Transactions,
    /// Pools of the daemon.
    pub pools: Arc<Pools>,
    /// Path of the state folder, as the status shows it.
    pub state_folder: PathBuf,
    /// Portals of a target that is made without any. An empty list means every address, at port
    /// 3260.
    pub default_portals: Vec<SocketAddr>,
    /// Time at which the daemon started.
    pub since: Instant,
    /// Names of units and volumes that are being made.
    pub making: NamesInUse,
}

impl Plane {
    fn config(&self) -> Arc<Config> {
        self.transactions.config()
    }

    /// Makes a change. Other requests continue meanwhile.
    async fn commit(self: Arc<Self>, change: Change, how: Commit) -> Answer<Committed> {
        apart(move || self.transactions.commit(&change, &how))
            .await
            .map(Json)
    }
}

/// Largest body that is read as a whole, in bytes: a configuration of a hundred thousand objects.
const LARGEST_BODY: usize = 64 << 20;

type Shared = Arc<Plane>;
type Answer<T> = Result<Json<T>, Problem>;

/// Runs work that may take long or wait for devices, on a thread where it delays no other request.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Problem> {
    let author = Author::current();
    let done = tokio::task::spawn_blocking(|| author.works(work)).await;
    let done = done.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            "the request failed for an unexpected reason",
            "see the daemon's log, and report this as a defect",
        )
        .not_changed("it is not known whether the request was carried out"))
    });
    Ok(done?)
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Sandstone control API",
        description = "Typed control of a Sandstone daemon. Every change is transactional: it is validated, \
            stored and put in force as a whole, or not at all. `dry_run=true` shows the effect of a change. \
            Problems are answered as JSON with kind, message, not_changed and next. Only the answer of \
            `config_export` contains secrets, and only the control socket gives it.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((
        url = "http://localhost",
        description = "The control socket of the daemon, `control.sock` in its state folder, or the loopback address that \
            `--control` names"
    )),
    tags(
        (name = "lu", description = "Logical units"),
        (name = "pool", description = "Pools of disks"),
        (name = "volume", description = "Volumes, snapshots and folders of pools"),
        (name = "target", description = "Targets and their portals"),
        (name = "host", description = "Groups of initiators"),
        (name = "map", description = "Access of hosts to logical units, and the reasons for it"),
        (name = "initiator", description = "This machine as an initiator: sessions at other targets, devices, paths, claim rules"),
        (name = "session", description = "Sessions of initiators that are logged in"),
        (name = "config", description = "The configuration as a whole"),
        (name = "status", description = "The daemon itself"),
    )
)]
struct Document;

fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(lu::list, lu::create))
        .routes(routes!(lu::show, lu::modify, lu::delete))
        .routes(routes!(lu::clear))
        .routes(routes!(pool::list, pool::create))
        .routes(routes!(pool::show, pool::destroy))
        .routes(routes!(pool::export))
        .routes(routes!(pool::change_vdevs))
        .routes(routes!(pool::set_property))
        .routes(routes!(pool::scrub))
        .routes(routes!(pool::trim))
        .routes(routes!(pool::sync))
        .routes(routes!(pool::upgrade))
        .routes(routes!(pool::events))
        .routes(routes!(pool::history))
        .routes(routes!(pool::import, pool::waits))
        .routes(routes!(pool::reguid))
        .routes(routes!(volume::list, volume::change))
        .routes(routes!(stream::send))
        .routes(routes!(stream::estimate))
        .routes(routes!(stream::receive))
        .routes(routes!(stream::abort))
        .routes(routes!(stream::salvage))
        .routes(routes!(target::list, target::create))
        .routes(routes!(target::show, target::modify, target::delete))
        .routes(routes!(target::add_portal))
        .routes(routes!(target::remove_portal))
        .routes(routes!(target::set_alua_state))
        .routes(routes!(target_group::list, target_group::create))
        .routes(routes!(target_group::show, target_group::delete))
        .routes(routes!(
            target_group::add_target,
            target_group::remove_target
        ))
        .routes(routes!(host::list, host::create))
        .routes(routes!(host::show, host::delete))
        .routes(routes!(host::add_initiator))
        .routes(routes!(host::remove_initiator))
        .routes(routes!(host::set_chap, host::remove_chap))
        .routes(routes!(map::list, map::add, map::remove))
        .routes(routes!(map::explain))
        .routes(routes!(map::share))
        .routes(routes!(session::list))
        .routes(routes!(session::kill))
        .routes(routes!(session::logout))
        .routes(routes!(initiator::adapter, initiator::set_adapter))
        .routes(routes!(initiator::logins, initiator::log_in))
        .routes(routes!(initiator::modify_login, initiator::log_out))
        .routes(routes!(initiator::sessions))
        .routes(routes!(initiator::rescan))
        .routes(routes!(initiator::devices))
        .routes(routes!(
            initiator::device,
            initiator::set_device,
            initiator::reset_device
        ))
        .routes(routes!(rules::list, rules::add, rules::remove))
        .routes(routes!(rules::satps))
        .routes(routes!(rules::set_satp))
        .routes(routes!(config::show, config::apply))
        .routes(routes!(config::export, config::restore))
        .routes(routes!(config::set_discovery))
        .routes(routes!(config::generations))
        .routes(routes!(config::rollback))
        .routes(routes!(status::status))
        .routes(routes!(status::metrics))
}

/// Returns the OpenAPI document, generated from the types and routes.
pub fn openapi() -> utoipa::openapi::OpenApi {
    document::completed(routes().into_openapi())
}

/// Returns the router of the whole API.
pub fn router(plane: Shared) -> Router {
    let (router, document) = routes().split_for_parts();
    let document = Arc::new(document::completed(document));
    router
        .route(
            "/openapi.json",
            axum::routing::get(move || async move { Json(document.as_ref().clone()) }),
        )
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "this path does not exist") })
        .method_not_allowed_fallback(|| async {
            refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not accept this method",
            )
        })
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(plane)
        .layer(axum::middleware::from_fn(author::carry))
}

fn refuse(status: StatusCode, message: &str) -> (StatusCode, Json<Problem>) {
    (
        status,
        Json(
            Error::not_found(
                message,
                "see GET /openapi.json for the paths and their methods",
            )
            .into(),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A macro of the server's repeats the method, and its list of routes could forget one.
    #[test]
    fn each_endpoint_is_served_as_it_is_described() {
        let document = serde_json::to_value(openapi()).expect("JSON");
        let mut served = Vec::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                let (id, tag) = (&operation["operationId"], &operation["tags"][0]);
                let text = |of: &serde_json::Value| of.as_str().unwrap_or_default().to_owned();
                served.push([method.to_uppercase(), path.clone(), text(id), text(tag)]);
            }
        }
        let mut described = crate::endpoint::all();
        described.sort();
        served.sort();
        assert_eq!(served, described);
    }
}

//! The HTTP/JSON API: its routes, its OpenAPI document, and the state and helpers that all routes
//! share.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use serde_json::Value;
use utoipa::OpenApi as _;

use super::answer::Problem;
use super::author::{self, Author};
use super::door::Door;
use super::plane::Shared;
use crate::endpoint::description::Description;
use crate::handlers::routes::Routes;
use model::{Error, ErrorKind};

mod access;
mod alert;
mod alert_way;
mod benchmark;
mod config;
mod disk;
mod document;
mod event;
mod history;
mod host;
mod initiator;
mod lu;
mod map;
mod pool;
mod routes;
mod rules;
mod session;
mod status;
mod stream;
mod summary;
mod target;
mod target_group;
mod tls;
mod volume;

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
            Problems are answered as JSON with kind, message, not_changed and next. `x-role` of an operation \
            is the least role that may ask: viewer, operator or admin. `x-folder` is what a token with a folder \
            meets, if its role suffices: refused, filtered (the answer holds only what the token reaches), or checked \
            (all that the request names must be within its reach). Only the answer of `config_export` \
            contains secrets, and only the control socket gives it.",
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
        (name = "disk", description = "Disks of this machine"),
        (name = "volume", description = "Volumes, snapshots and folders of pools"),
        (name = "target", description = "Targets and their portals"),
        (name = "host", description = "Groups of initiators"),
        (name = "map", description = "Access of hosts to logical units, and the reasons for it"),
        (name = "initiator", description = "This machine as an initiator: sessions at other targets, devices, paths, claim rules"),
        (name = "history", description = "Figures of the past two years"),
        (name = "benchmark", description = "Benchmarks that the daemon runs on its own logical units"),
        (name = "session", description = "Sessions of initiators that are logged in"),
        (name = "access", description = "Users, tokens, roles, and the audit log"),
        (name = "tls", description = "Certificate of the console"),
        (name = "config", description = "The configuration as a whole"),
        (name = "alert", description = "States of objects that need an administrator"),
        (name = "event", description = "Events of the whole daemon"),
        (name = "status", description = "The daemon itself"),
    )
)]
struct Document;

fn routes() -> Routes {
    let each = [
        lu::serve,
        disk::serve,
        pool::serve,
        volume::serve,
        stream::serve,
        target::serve,
        target_group::serve,
        history::serve,
        host::serve,
        map::serve,
        session::serve,
        initiator::serve,
        rules::serve,
        alert::serve,
        alert_way::serve,
        benchmark::serve,
        config::serve,
        event::serve,
        status::serve,
        access::serve,
        tls::serve,
    ];
    each.into_iter()
        .fold(Routes::default(), |routes, serve| serve(routes))
}

/// Returns the OpenAPI document. It follows from the endpoints that are served.
pub fn openapi() -> Value {
    written(routes().described)
}

/// Writes the document of these endpoints. Its fields are sorted: utoipa keeps extensions in no
/// order, and the same program prints the same document.
fn written(described: Vec<Description>) -> Value {
    let document = document::of(Document::openapi(), described);
    // All parts of the document can be written as JSON.
    serde_json::to_value(document).expect("a document")
}

/// Returns a router of pages whose requests have an [`Asker`], as those of the API have.
///
/// [`Asker`]: crate::Asker
pub fn identify(router: Router, plane: Shared) -> Router {
    router.layer(axum::middleware::from_fn_with_state(
        plane,
        author::introduce,
    ))
}

/// Returns the door to all endpoints for pages of this process.
pub fn door(plane: Shared) -> Door {
    Door::new(plane, routes().functions)
}

/// Returns the router of the whole API.
pub fn router(plane: Shared) -> Router {
    let Routes {
        router, described, ..
    } = routes();
    let document: Bytes = written(described).to_string().into();
    let shown =
        move || std::future::ready(([(CONTENT_TYPE, "application/json")], document.clone()));
    router
        .route("/openapi.json", axum::routing::get(shown))
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "this path does not exist") })
        .method_not_allowed_fallback(|| async {
            refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not accept this method",
            )
        })
        .with_state(Arc::clone(&plane))
        .layer(axum::middleware::from_fn_with_state(plane, author::carry))
}

fn refuse(status: StatusCode, message: &str) -> Response {
    let next = "see GET /openapi.json for the paths and their methods";
    Problem::from(Error::not_found(message, next)).with_status(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of routes could forget one.
    #[test]
    fn each_endpoint_is_served() {
        let routes = routes().described.into_iter();
        let mut served: Vec<_> = routes.filter_map(|it| it.operation.operation_id).collect();
        let mut endpoints = crate::endpoint::all();
        endpoints.sort();
        served.sort();
        assert_eq!(served, endpoints);
    }
}

//! Routes: each path of the console with the function that makes its page.
//!
//! A page is one line here or in `pages/`: `routes.page("/units", &lu::LIST, list)`. The endpoint
//! says which role its reader needs. A form is sent to an act:
//! `routes.act(path, &lu::CLEAR, clear)`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, get, on};
use axum::{Router, middleware};
use control::{Asker, Endpoint, origin};
use model::access::Role;
use model::{Error, ErrorKind};

use super::answer::{Answer, Told};
use super::assets::{self, takes_gzip};
use super::frame::error;
use super::state::Console;
use super::visit::{Fields, Theme, Visit, cookie};
use super::{entry, headers, live, pages, wizards};

/// Most bytes of a form.
const MOST_OF_A_FORM: usize = 64 << 10;

/// Function that makes an answer to a visit. It may block: it runs on a thread of its own.
pub(crate) type Function = fn(&Visit) -> Result<Answer, Error>;

/// Check of a reader before a function runs.
type Check = Arc<dyn Fn(&Visit) -> Result<(), Error> + Send + Sync>;

/// Route of the console, for tests that walk all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// `GET` or `POST`.
    pub method: Method,
    /// Path, with a name in braces for each argument.
    pub path: &'static str,
    /// Least role that may come in; `None` for pages that precede a login.
    pub role: Option<Role>,
    /// Operation of the API for which the route stands, by its name in the OpenAPI document.
    pub operation: Option<&'static str>,
}

/// Routes as they are put together.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<Arc<Console>>,
    known: Vec<Known>,
}

impl Routes {
    /// Adds a page that shows what an endpoint answers.
    pub(crate) fn page<Q, B, A>(
        self,
        path: &'static str,
        endpoint: &'static Endpoint<Q, B, A>,
        function: Function,
    ) -> Self {
        self.guarded(Method::GET, path, endpoint, function)
    }

    /// Adds an act, to which a form is sent. It stands for the endpoint, and needs its role.
    pub(crate) fn act<Q, B, A>(
        self,
        path: &'static str,
        endpoint: &'static Endpoint<Q, B, A>,
        function: Function,
    ) -> Self {
        self.guarded(Method::POST, path, endpoint, function)
    }

    /// Adds a page for everybody, logged in or not.
    pub(crate) fn open_page(self, path: &'static str, function: Function) -> Self {
        self.add(Method::GET, path, None, Arc::new(|_| Ok(())), function)
    }

    /// Adds an act for everybody, logged in or not.
    pub(crate) fn open_act(self, path: &'static str, function: Function) -> Self {
        self.add(Method::POST, path, None, Arc::new(|_| Ok(())), function)
    }

    fn guarded<Q, B, A>(
        self,
        method: Method,
        path: &'static str,
        endpoint: &'static Endpoint<Q, B, A>,
        function: Function,
    ) -> Self {
        // The gate refuses roles that are too low, and notes the attempt. All others reach the gate
        // again with what they really ask.
        let check = move |visit: &Visit| match visit.console.door.may_ask(&visit.asker, endpoint)? {
            true => Ok(()),
            false => visit.console.door.admit(&visit.asker, endpoint),
        };
        let stands_for = Some((endpoint.role, endpoint.id));
        self.add(method, path, stands_for, Arc::new(check), function)
    }

    fn add(
        mut self,
        method: Method,
        path: &'static str,
        stands_for: Option<(Role, &'static str)>,
        check: Check,
        function: Function,
    ) -> Self {
        let filter = match method {
            Method::POST => MethodFilter::POST,
            _ => MethodFilter::GET,
        };
        let is_open = stands_for.is_none();
        let run = move |State(console): State<Arc<Console>>, request: Request| {
            answer(console, request, is_open, check, function)
        };
        self.router = self.router.route(path, on(filter, run));
        self.known.push(Known {
            method,
            path,
            role: stands_for.map(|(role, _)| role),
            operation: stands_for.map(|(_, operation)| operation),
        });
        self
    }
}

fn routes() -> Routes {
    wizards::routes(pages::routes(entry::routes(Routes::default())))
}

/// Returns all routes of pages and acts.
pub fn known() -> Vec<Known> {
    routes().known
}

/// Returns the router of the console.
pub(crate) fn router(console: Arc<Console>) -> Router {
    let plane = Arc::clone(console.door.plane());
    let router = routes()
        .router
        .route(control::endpoint::live::PATH, get(live::stream::serve))
        .layer(from_fn_with_state(
            Arc::clone(&console),
            entry::wait_for_first,
        ))
        .route("/assets/{name}", get(assets::serve))
        .with_state(console);
    control::handlers::identify(router, plane).layer(from_fn(headers::protect))
}

/// Returns the pages and the API as one router.
pub(crate) fn with_api(console: Arc<Console>, api: Router) -> Router {
    let plane = Arc::clone(console.door.plane());
    let missing = from_fn_with_state(console.clone(), show_missing);
    control::handlers::identify(api.merge(router(console)).layer(missing), plane)
        .layer(from_fn(headers::protect))
}

/// Shows browsers a page in place of the API's answer that a path does not exist.
async fn show_missing(
    State(console): State<Arc<Console>>,
    request: Request,
    next: middleware::Next,
) -> Response {
    let accepted = request
        .headers()
        .get(ACCEPT)
        .and_then(|it| it.to_str().ok());
    let is_browser = accepted.is_some_and(|it| it.contains("text/html"));
    let is_packed = takes_gzip(request.headers());
    let (mut parts, body) = request.into_parts();
    let visit = visit(console, &mut parts).await;
    let answer = next.run(Request::from_parts(parts, body)).await;
    let is_page = answer.headers().contains_key(axum::http::header::VARY);
    if !is_browser || is_page || answer.status() != StatusCode::NOT_FOUND {
        return answer;
    }
    let missing = Error::not_found(
        format!("there is no page {}", visit.path()),
        "choose a page from the navigation",
    );
    write_error(missing, visit, is_packed).await
}

/// Writes the page of an error on a thread where it delays no other request: the page shows the
/// health, which may have to be asked.
async fn write_error(error: Error, visit: Visit, is_packed: bool) -> Response {
    let work = move || error::page(&error).write(&visit, is_packed);
    let written = tokio::task::spawn_blocking(work).await;
    written.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Answers a request for a page on a thread where it delays no other request.
async fn answer(
    console: Arc<Console>,
    request: Request,
    is_open: bool,
    check: Check,
    function: Function,
) -> Response {
    let is_packed = takes_gzip(request.headers());
    let (mut parts, body) = request.into_parts();
    let mut visit = visit(console, &mut parts).await;
    let is_form = parts.method == Method::POST;
    let entered = enter(&visit, &parts, is_open);
    let entered = match (entered, is_form) {
        (Ok(()), true) => read_form(body).await.map(|form| visit.form = form),
        (entered, _) => entered,
    };
    let shown = visit.clone();
    let work = move || {
        let result = entered
            .and_then(|()| check(&visit))
            .and_then(|()| function(&visit));
        result
            .unwrap_or_else(|error| refusal(&error, &visit, is_open || is_form))
            .write(&visit, is_packed)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(_) => {
            let error = Error::new(
                ErrorKind::Corrupt,
                "the page failed for an unexpected reason",
                "see the daemon's log, and report this as a defect",
            );
            let error = error.not_changed("it is not known whether anything was changed");
            write_error(error, shown, is_packed).await
        }
    }
}

/// Lets a visit in, or refuses it before its form is read.
fn enter(visit: &Visit, parts: &Parts, is_open: bool) -> Result<(), Error> {
    if !is_open {
        visit.asker.principal()?;
    }
    // Browsers never send a token by themselves.
    match parts.headers.contains_key(AUTHORIZATION) && visit.reader().is_some() {
        true => Ok(()),
        false => origin::require_own(parts),
    }
}

async fn read_form(body: Body) -> Result<Fields, Error> {
    // A form is small, and everybody may send one: it has no more time than the head of a request.
    let bytes = listener::read_whole(body, MOST_OF_A_FORM, listener::HEAD).await;
    let bytes = bytes.map_err(|fault| {
        Error::invalid(
            format!("the form could not be read: {fault}"),
            "send less at once, or use the command line",
        )
    })?;
    Ok(Fields::read(&bytes))
}

/// Puts together what a page needs to know of its request.
async fn visit(console: Arc<Console>, parts: &mut Parts) -> Visit {
    let Ok(asker) = Asker::from_request_parts(parts, &()).await;
    let arguments = RawPathParams::from_request_parts(parts, &()).await;
    let at = arguments.map(|all| all.iter().map(|(_, value)| value.to_owned()).collect());
    let query = parts.uri.query().unwrap_or_default();
    let theme = cookie(&parts.headers, Theme::COOKIE).map(Theme::of);
    Visit {
        console,
        asker,
        at: at.unwrap_or_default(),
        address: parts
            .uri
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default(),
        query: Fields::read(query.as_bytes()),
        form: Fields::default(),
        theme: theme.unwrap_or_default(),
        told: cookie(&parts.headers, Told::COOKIE).and_then(Told::read),
        disks: Arc::default(),
    }
}

/// Answers a visit that failed: by the login page if nobody is logged in, else by the error. Forms,
/// and pages for everybody, always get the error.
fn refusal(error: &Error, visit: &Visit, is_told: bool) -> Answer {
    let is_nobody = error.kind == ErrorKind::NotAuthenticated && visit.reader().is_none();
    match is_nobody && !is_told {
        true => entry::log_in_first(visit),
        false => error::page(error),
    }
}

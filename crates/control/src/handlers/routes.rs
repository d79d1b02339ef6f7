//! Routes: each endpoint with the function that carries it out.
//!
//! The types of an endpoint are those of its function. So the OpenAPI document, which follows from
//! the endpoint, describes what the function takes and returns.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest as _, FromRequestParts as _, RawPathParams, Request, State};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::{Shared, apart};
use crate::answer::{Problem, json};
use crate::asker::Asker;
use crate::call::{Arguments, Arrived, Call};
use crate::endpoint::description::{Description, media_type};
use crate::endpoint::{Endpoint, Query};
use crate::transaction::{Commit, Committed};
use config::change::Change;
use model::Error;

/// Function that carries out a request, from its undecoded parts to its answer.
type Work = Arc<dyn Fn(Arrived) -> Result<Response, Error> + Send + Sync>;

/// Endpoints that are served, and their descriptions.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) router: axum::Router<Shared>,
    pub(super) described: Vec<Description>,
}

impl Routes {
    /// Serves an endpoint by a function, which may block: it runs on a thread of its own.
    pub(super) fn serve<Q, B, A>(
        self,
        endpoint: &'static Endpoint<Q, B, A>,
        function: fn(Call<Q, B>) -> Result<A, Error>,
    ) -> Self
    where
        Q: Query,
        B: DeserializeOwned + ToSchema + 'static,
        A: Serialize + ToSchema + 'static,
    {
        self.serve_by(endpoint, function)
    }

    /// Serves an endpoint that is one change of the configuration, made of the arguments in the
    /// path and of the body.
    pub(super) fn change<B, const N: usize>(
        self,
        endpoint: &'static Endpoint<Commit, B, Committed>,
        change: fn([String; N], B) -> Change,
    ) -> Self
    where
        B: DeserializeOwned + ToSchema + 'static,
    {
        // A defect shows at each start, and in each test of the routes.
        assert_eq!(endpoint.path.matches('{').count(), N, "{endpoint:?}");
        self.serve_by(endpoint, move |call: Call<Commit, B>| {
            let change = change(call.at.names(), call.body);
            call.plane.transactions.commit(&change, &call.query)
        })
    }

    fn serve_by<Q, B, A>(
        self,
        endpoint: &'static Endpoint<Q, B, A>,
        function: impl Fn(Call<Q, B>) -> Result<A, Error> + Send + Sync + 'static,
    ) -> Self
    where
        Q: Query,
        B: DeserializeOwned + ToSchema + 'static,
        A: Serialize + ToSchema + 'static,
    {
        let work: Work = Arc::new(move |arrived| Ok(answer(&function(arrived.decode()?)?)));
        let method = method_filter(&endpoint.method);
        let run =
            move |State(plane): State<Shared>, request: Request| carry_out(plane, request, work);
        self.add(endpoint.describe(), on(method, run))
    }

    /// Serves an endpoint whose body or answer may have any length, and so moves in pieces.
    pub(super) fn stream<Q, B, A, T, H>(
        self,
        endpoint: &'static Endpoint<Q, B, A>,
        handler: H,
    ) -> Self
    where
        Q: Query,
        B: ToSchema + 'static,
        A: ToSchema + 'static,
        T: 'static,
        H: Handler<T, Shared>,
    {
        let method = method_filter(&endpoint.method);
        self.add(endpoint.describe(), on(method, handler))
    }

    fn add(mut self, described: Description, by: axum::routing::MethodRouter<Shared>) -> Self {
        self.router = self.router.route(described.path, by);
        self.described.push(described);
        self
    }
}

fn method_filter(method: &hyper::Method) -> MethodFilter {
    // A method that axum cannot route is a defect, which each start of a daemon shows.
    MethodFilter::try_from(method.clone()).expect("a method of HTTP")
}

async fn carry_out(plane: Shared, request: Request, work: Work) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let Ok(asker) = Asker::from_request_parts(&mut parts, &()).await;
    let arguments = RawPathParams::from_request_parts(&mut parts, &()).await;
    let arguments = arguments.map_err(|error| unreadable("the path", &error))?;
    let arguments = arguments.iter().map(|(_, value)| value.to_owned());
    let at = Arguments(arguments.collect());
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let body = Bytes::from_request(Request::from_parts(parts, body), &()).await;
    let arrived = Arrived {
        plane,
        asker,
        at,
        query,
        body: body.map_err(|error| unreadable("the body", &error))?,
    };
    apart(move || work(arrived)).await
}

fn unreadable(part: &str, error: &dyn std::fmt::Display) -> Error {
    Error::invalid(
        format!("{part} could not be read: {error}"),
        "see GET /openapi.json for what this request takes",
    )
}

/// Writes an answer as its type wants it: nothing, or JSON.
fn answer<A: Serialize + 'static>(answer: &A) -> Response {
    match media_type::<A>() {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(_) => json(answer),
    }
}

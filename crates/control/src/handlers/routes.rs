//! Routes: each endpoint with the function that carries it out.
//!
//! The types of an endpoint are those of its function. So the OpenAPI document, which follows from
//! the endpoint, describes what the function takes and returns.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::apart;
use crate::answer::{Problem, json};
use crate::asker::Asker;
use crate::call::{Arguments, Arrived, Call};
use crate::door::{Function, Functions};
use crate::endpoint::Rule;
use crate::endpoint::description::{Description, media_type};
use crate::endpoint::{Endpoint, Query};
use crate::gate::{self, Attempt};
use crate::plane::Shared;
use crate::transaction::{Commit, Committed};
use config::change::Change;
use model::{Error, ErrorKind};

/// Function that carries out a request, from its undecoded parts to its answer.
type Work = Arc<dyn Fn(Arrived) -> Result<Response, Error> + Send + Sync>;

/// Endpoints that are served, their descriptions, and the functions that carry them out.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) router: axum::Router<Shared>,
    pub(super) described: Vec<Description>,
    pub(super) functions: Functions,
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
        mut self,
        endpoint: &'static Endpoint<Q, B, A>,
        function: impl Fn(Call<Q, B>) -> Result<A, Error> + Send + Sync + 'static,
    ) -> Self
    where
        Q: Query,
        B: DeserializeOwned + ToSchema + 'static,
        A: Serialize + ToSchema + 'static,
    {
        let function = Arc::new(function);
        let same = Arc::clone(&function);
        let within: Function<Q, B, A> = Box::new(move |call| same(call));
        self.functions.insert(endpoint.id, Box::new(within));
        let work: Work = Arc::new(move |arrived| Ok(answer(&function(arrived.decode()?)?)));
        let method = method_filter(&endpoint.method);
        let rule = endpoint.rule();
        let run = move |State(plane): State<Shared>, request: Request| {
            carry_out(plane, request, rule, work)
        };
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
        let rule = endpoint.rule();
        let pass = move |plane: Extension<Shared>, asker: Asker, request: Request, next: Next| {
            pass(plane.0, asker, rule, request, next)
        };
        let handler = on(method, handler).layer(from_fn(pass));
        self.add(endpoint.describe(), handler)
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

async fn carry_out(
    plane: Shared,
    request: Request,
    rule: Rule,
    work: Work,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let Ok(asker) = Asker::from_request_parts(&mut parts, &()).await;
    // Only an author whom the gate lets through by the role makes the daemon read a body.
    let may_ask = asker.principal().and_then(|it| it.require(rule.role));
    let body = match may_ask {
        Ok(()) => listener::read_whole(body, rule.largest_body, listener::BODY).await,
        Err(_) => Ok(Bytes::new()),
    };
    let arguments = RawPathParams::from_request_parts(&mut parts, &()).await;
    let arguments = arguments.map_err(|error| unreadable("the path", &error))?;
    let arguments = arguments.iter().map(|(_, value)| value.to_owned());
    let at = Arguments(arguments.collect());
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let arrived = Arrived {
        plane,
        asker,
        at,
        query,
        body: body.map_err(|error| unreadable("the body", &error))?,
    };
    apart(move || {
        let plane = Arc::clone(&arrived.plane);
        let request = gate::Request {
            asker: &arrived.asker,
            at: &arrived.at.0,
            query: &arrived.query,
            body: &arrived.body,
        };
        let attempt = Attempt::begin(&plane, rule, &request);
        let result = match gate::admit(&plane, rule, &request) {
            Ok(()) => work(arrived),
            Err(error) => Err(error),
        };
        attempt.end(&plane, result.as_ref().map(drop));
        result
    })
    .await
}

/// Lets a request whose body moves in pieces through the gate.
async fn pass(plane: Shared, asker: Asker, rule: Rule, request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let at_gate = gate::Request {
        asker: &asker,
        at: &[],
        query: &query,
        body: &[],
    };
    let attempt = Attempt::begin(&plane, rule, &at_gate);
    let refused = gate::admit(&plane, rule, &at_gate).err();
    let answer = match &refused {
        None => next.run(request).await,
        Some(error) => Problem::from(error.clone()).into_response(),
    };
    let failed = (!answer.status().is_success()).then(|| {
        let message = format!("answered with the status {}", answer.status());
        refused.unwrap_or_else(|| Error::new(ErrorKind::Refused, message, ""))
    });
    let noted = apart(move || {
        attempt.end(&plane, failed.as_ref().map_or(Ok(()), Err));
        Ok(())
    });
    // The answer is the same whether or not the attempt could be noted, which a notice tells.
    drop(noted.await);
    answer
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

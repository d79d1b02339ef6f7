//! One connection, served until it ends, rests for too long, or the listener ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use super::HEAD;
use super::body::Counted;
use super::places::{Place, Rest, Work};

/// Most bytes of the head of a request. Addresses of live figures name up to 400 objects.
const HEAD_BYTES: usize = 64 << 10;
/// Most requests at once on one connection of HTTP/2.
const STREAMS: u32 = 64;
/// Bytes that a client of HTTP/2 may send before they are taken, on one connection.
const WINDOW: u32 = 256 << 10;

/// Versions of HTTP that a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// HTTP/1.1 alone.
    One,
    /// HTTP/1.1 and HTTP/2.
    Both,
}

/// Extension of an answer of any length, whose reader may take nothing for long: a stream of
/// snapshots into a pool whose disks are away.
#[derive(Clone, Copy, Debug)]
pub struct MayRest;

/// Serves a connection. `answer` is given each request.
pub async fn serve<S, A, F>(
    stream: S,
    wire: Wire,
    place: &Place,
    mut stopped: watch::Receiver<bool>,
    answer: A,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Body>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let work = Arc::clone(&place.work);
    let service = service_fn(move |request: Request<Incoming>| {
        let (answer, work) = (answer.clone(), Arc::clone(&work));
        async move { Ok::<_, Infallible>(noted(&work, answer, request).await) }
    });
    let builder = builder(wire);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // Errors of a connection end that connection only.
        _ = connection.as_mut() => return,
        _ = stopped.changed() => {}
        () = rests(place) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(place.bounds().last_answers, connection).await;
}

fn builder(wire: Wire) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_BYTES as u32)
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW)
        .keep_alive_interval(HEAD * 3)
        .keep_alive_timeout(HEAD);
    match wire {
        Wire::One => builder.http1_only(),
        Wire::Both => builder,
    }
}

/// Returns once the peer has asked for nothing, or has taken nothing, for too long.
async fn rests(place: &Place) {
    let bounds = *place.bounds();
    loop {
        let now = Instant::now();
        let end = match place.work.rest() {
            Rest::Idle(since) => since + bounds.idle,
            Rest::Stalled(since) => since + bounds.stall,
            Rest::Works => now + bounds.stall,
        };
        if end <= now {
            return;
        }
        // A connection at rest may begin to work, and stall, long before its rest is over.
        let look = now + bounds.stall.min(bounds.idle);
        sleep_until(end.min(look).into()).await;
    }
}

/// Answers a request, and notes until when the answer is on its way.
async fn noted<A, F>(work: &Arc<Work>, answer: A, request: Request<Incoming>) -> Response<Counted>
where
    A: Fn(Request<Body>) -> F,
    F: Future<Output = Response<Body>>,
{
    let asked = work.begin();
    let answer = answer(request.map(Body::new)).await;
    let sending = asked.answered(answer.extensions().get::<MayRest>().is_some());
    answer.map(|body| Counted { body, sending })
}

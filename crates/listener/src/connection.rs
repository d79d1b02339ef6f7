//! One connection, served until it ends, rests for too long, or the listener ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

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
    let builder = builder(wire, place.bounds().idle + HEAD);
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

/// Returns the settings of a connection. `silence` is the longest time from the end of one answer
/// to the end of the next request's head: HTTP/1 counts the rest before a head as part of it.
fn builder(wire: Wire, silence: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
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
        sleep_until(end.min(look)).await;
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

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::*;
    use crate::Bounds;
    use crate::places::{Origin, Places};

    const BOUNDS: Bounds = Bounds {
        most: 4,
        most_of_origin: 4,
        idle: Duration::from_secs(60),
        stall: Duration::from_secs(60),
        last_answers: Duration::from_secs(2),
    };

    /// Runs `client` at one end of a connection and a server at the other, by a clock that passes
    /// over all waits.
    fn with_server<F: Future<Output = ()>>(client: impl FnOnce(DuplexStream) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (near, far) = duplex(64 << 10);
            let (_open, stopped) = watch::channel(false);
            let place = Places::new(BOUNDS).take(Origin::Unknown).expect("a place");
            let answer = |_| async { "here".into_response() };
            tokio::join!(
                serve(far, Wire::Both, &place, stopped, answer),
                client(near)
            );
        });
    }

    /// Sends a request and reports whether an answer comes.
    async fn is_answered(stream: &mut DuplexStream) -> bool {
        let request = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
        if stream.write_all(request).await.is_err() {
            return false;
        }
        let mut answer = [0; 4096];
        matches!(stream.read(&mut answer).await, Ok(1..))
    }

    #[test]
    fn a_connection_may_rest_between_requests_for_as_long_as_its_bounds_say() {
        with_server(|mut stream| async move {
            for rest in [0, 1, 11, 30, 59] {
                sleep(Duration::from_secs(rest)).await;
                assert!(is_answered(&mut stream).await, "after a rest of {rest} s");
            }
            sleep(Duration::from_secs(61)).await;
            assert!(!is_answered(&mut stream).await, "after a rest of 61 s");
        });
    }
}

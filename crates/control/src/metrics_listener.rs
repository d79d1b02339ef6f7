//! The listener of metrics: an address of their own, which Prometheus on another machine may
//! reach.
//!
//! It serves `/metrics` and nothing else, and asks for no password: metrics hold names, but no
//! secrets. A thread of its own serves it, with few connections at a time and a limit on the time
//! of each. So a client that is slow or hostile costs metrics, and nothing else.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use super::endpoint::status;
use super::metrics::Format;
use super::plane::Plane;
use hint::Place;
use model::{Error, ErrorKind};

/// Most connections at a time. Others wait until one ends.
const MOST_CONNECTIONS: usize = 8;
/// Longest time for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// Longest time of a connection. Prometheus gives up after 10 seconds unless told otherwise.
const CONNECTION: Duration = Duration::from_secs(15);
/// Most bytes of a request.
const REQUEST: usize = 16 << 10;
/// Pause after a connection that could not be accepted, as when descriptors are short.
const PAUSE: Duration = Duration::from_millis(200);

/// An address that is bound, and not served yet.
#[derive(Debug)]
pub struct MetricsListener(StdListener);

impl MetricsListener {
    /// Binds an address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let bind = || {
            let listener = StdListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        bind().map(Self).map_err(|error| failed(address, &error))
    }

    /// Serves the metrics of `plane` on a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be had.
    pub fn serve(self, plane: Arc<Plane>) -> Result<MetricsServer, Error> {
        let start = || {
            let address = self.0.local_addr()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(MOST_CONNECTIONS)
                .build()?;
            let (stop, stopped) = oneshot::channel();
            let serve = move || {
                runtime.block_on(accept(self.0, plane, stopped));
                // An answer that is still being made must not delay the end.
                runtime.shutdown_background();
            };
            let thread = std::thread::Builder::new()
                .name("metrics".into())
                .spawn(serve)?;
            Ok(MetricsServer {
                address,
                stop: Some(stop),
                thread: Some(thread),
            })
        };
        start().map_err(|error: io::Error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the thread that serves metrics cannot start: {error}"),
                Place::Process.next(&error),
            )
        })
    }
}

/// The running listener. Dropping it stops the thread.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Returns the address on which the server listens. If port 0 was requested, it holds the
    /// chosen port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already said so.
            let _ = thread.join();
        }
    }
}

fn failed(address: SocketAddr, error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("metrics cannot be served at {address}: {error}"),
        format!(
            "{}; or choose another address with --metrics, or leave the option out: the control socket has \
             the metrics too",
            Place::Address(address).next(error)
        ),
    )
    .not_changed("the daemon has not started")
}

/// Accepts connections until the server stops.
async fn accept(listener: StdListener, plane: Arc<Plane>, mut stopped: oneshot::Receiver<()>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "metrics are not served"),
    };
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            _ = &mut stopped => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let plane = Arc::clone(&plane);
                tokio::spawn(async move {
                    // A client that takes too long loses its connection.
                    let _ = timeout(CONNECTION, serve(stream, plane)).await;
                    drop(place);
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Serves one request.
async fn serve(stream: TcpStream, plane: Arc<Plane>) -> Result<(), hyper::Error> {
    let answer = service_fn(move |request: Request<Incoming>| {
        let plane = Arc::clone(&plane);
        async move { Ok::<_, Infallible>(answer(&request, plane).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(REQUEST)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

async fn answer(request: &Request<Incoming>, plane: Arc<Plane>) -> Response<Full<Bytes>> {
    let path = status::METRICS.path;
    if request.uri().path() != path {
        let words = format!("this address has {path}, and nothing else\n");
        return plain(StatusCode::NOT_FOUND, words);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "metrics can only be read: use GET\n",
        );
        refused
            .headers_mut()
            .insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let accept = request.headers().get(ACCEPT);
    let format = Format::preferred(accept.and_then(|value| value.to_str().ok()));
    match tokio::task::spawn_blocking(move || plane.metrics(format)).await {
        Ok(text) => text_answer(StatusCode::OK, format.content_type(), text),
        Err(_) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics could not be made: see the daemon's log, and report this as a defect\n",
        ),
    }
}

fn plain(status: StatusCode, words: impl Into<String>) -> Response<Full<Bytes>> {
    text_answer(status, "text/plain; charset=utf-8", words.into())
}

fn text_answer(
    status: StatusCode,
    content_type: &'static str,
    text: String,
) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static(content_type),
    );
    answer
}

//! The listener: connections are taken, shaken hands with and served on a thread of their own.
//! Neither the data plane nor the control socket waits for it.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::certificates::Certificates;
use super::names::host_of;
use hint::Place;
use model::{Error, ErrorKind};

/// Most connections at once. A browser opens one, or six without HTTP/2.
const MOST: usize = 512;
/// Longest time of a handshake, and of the headers of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between looks at the files of the certificate.
const LOOK: Duration = Duration::from_secs(10);
/// Longest time that answers may take when the server ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Most streams of one HTTP/2 connection.
const STREAMS: u32 = 64;

/// Running server. Dropping it ends its thread.
pub struct HttpsServer {
    address: SocketAddr,
    stop: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for HttpsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an HTTPS server at {}", self.address)
    }
}

impl HttpsServer {
    /// Listens at an address, and serves `router` there. Requests carry the address of their client
    /// as `ConnectInfo<SocketAddr>`.
    ///
    /// # Errors
    /// The address cannot be listened at, or the system has no thread left.
    pub fn start(
        address: SocketAddr,
        certificates: Arc<Certificates>,
        router: Router,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the console cannot listen at {address}: {error}"),
                format!(
                    "{}; or choose another address with --console",
                    Place::Address(address).next(&error)
                ),
            )
        };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let config = tls(Arc::clone(&certificates))
            .map_err(io::Error::other)
            .map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(failed)?;
        let serve = move || {
            runtime.block_on(async move {
                // Only a runtime that does not run refuses the listener.
                let Ok(listener) = TcpListener::from_std(listener) else {
                    return;
                };
                let acceptor = TlsAcceptor::from(Arc::new(config));
                accept(listener, acceptor, certificates, router, stopped).await;
            });
            // Blocking work of a request must not delay the end of the daemon.
            runtime.shutdown_timeout(LAST_ANSWERS);
        };
        let thread = std::thread::Builder::new()
            .name("console".into())
            .spawn(serve)
            .map_err(failed)?;
        Ok(Self {
            address: bound,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the address at which the server listens, with the chosen port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(true);
        }
        // A thread that panicked has already said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn tls(certificates: Arc<Certificates>) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(MOST));
    let looking = Arc::clone(&certificates);
    let look = tokio::spawn(async move {
        loop {
            sleep(LOOK).await;
            let certificates = Arc::clone(&looking);
            let _ = tokio::task::spawn_blocking(move || certificates.look_again()).await;
        }
    });
    loop {
        // A connection is only taken when there is room for it.
        let permit = tokio::select! {
            permit = Arc::clone(&room).acquire_owned() => permit,
            _ = stopped.changed() => break,
        };
        let Ok(permit) = permit else { break };
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            _ = stopped.changed() => break,
        };
        let Ok((stream, from)) = taken else {
            // Out of descriptors, most likely: others may end meanwhile.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (acceptor, certificates) = (acceptor.clone(), Arc::clone(&certificates));
        let (router, stopped) = (router.clone(), stopped.clone());
        tokio::spawn(async move {
            serve(stream, from, acceptor, certificates, router, stopped).await;
            drop(permit);
        });
    }
    look.abort();
    // All permits are back when all connections have ended.
    let _ = timeout(LAST_ANSWERS, room.acquire_many(MOST as u32)).await;
}

async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    // Small answers must not wait for the acknowledgement of others.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(PATIENCE, acceptor.accept(stream)).await else {
        return;
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, certificates) = (router.clone(), Arc::clone(&certificates));
        async move { Ok::<_, Infallible>(answer(router, &certificates, from, request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(PATIENCE);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // Errors of a connection end that connection only.
        _ = connection.as_mut() => return,
        _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = timeout(LAST_ANSWERS, connection).await;
}

async fn answer(
    router: Router,
    certificates: &Certificates,
    from: SocketAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    let host = host_of(request.uri(), request.headers());
    if !certificates.is_own_host(host) {
        let told = format!(
            "the request names the host {host:?}, which is not this machine\nnext: use an address of this \
             machine, or add the name: --console-name NAME\n"
        );
        return (StatusCode::MISDIRECTED_REQUEST, told).into_response();
    }
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(from));
    let service = TowerToHyperService::new(router);
    match hyper::service::Service::call(&service, request).await {
        Ok(answer) => answer,
    }
}

#[cfg(test)]
mod tests;

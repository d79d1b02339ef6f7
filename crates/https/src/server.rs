//! The listener: connections are taken, shaken hands with and served on a thread of their own.
//! Neither the data plane nor the control socket waits for it.

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
use hyper_util::service::TowerToHyperService;
use listener::{Bounds, HEAD, Place, Wire};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::certificates::Certificates;
use super::names::{SeveralHosts, host_of};
use model::{Error, ErrorKind};

/// Bounds of the console's listener. A browser opens one connection, or six without HTTP/2.
const BOUNDS: Bounds = Bounds {
    most: 512,
    most_of_origin: 128,
    idle: Duration::from_secs(60),
    stall: Duration::from_secs(60),
    last_answers: LAST_ANSWERS,
};
/// Time between looks at the files of the certificate.
const LOOK: Duration = Duration::from_secs(10);
/// Longest time that answers may take when the server ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

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
                    hint::Place::Address(address).next(&error)
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
    stopped: watch::Receiver<bool>,
) {
    let looking = Arc::clone(&certificates);
    let look = tokio::spawn(async move {
        loop {
            sleep(LOOK).await;
            let certificates = Arc::clone(&looking);
            let _ = tokio::task::spawn_blocking(move || certificates.look_again()).await;
        }
    });
    let ending = stopped.clone();
    let serve = move |(stream, from), place: Arc<Place>| {
        let (acceptor, certificates) = (acceptor.clone(), Arc::clone(&certificates));
        let (router, stopped) = (router.clone(), ending.clone());
        async move {
            serve(
                stream,
                from,
                &place,
                acceptor,
                certificates,
                router,
                stopped,
            )
            .await
        }
    };
    listener::accept(listener, BOUNDS, stopped, serve).await;
    look.abort();
}

async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    place: &Place,
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
    router: Router,
    stopped: watch::Receiver<bool>,
) {
    // Small answers must not wait for the acknowledgement of others.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(HEAD, acceptor.accept(stream)).await else {
        return;
    };
    let answer = move |request| {
        let (router, certificates) = (router.clone(), Arc::clone(&certificates));
        async move { answer(router, &certificates, from, request).await }
    };
    listener::serve(stream, Wire::Both, place, stopped, answer).await;
}

async fn answer(
    router: Router,
    certificates: &Certificates,
    from: SocketAddr,
    mut request: Request<Body>,
) -> Response<Body> {
    let host = match host_of(request.uri(), request.headers()) {
        Ok(host) if certificates.is_own_host(host) => None,
        Ok(host) => Some(format!("the host {host:?}, which is not this machine")),
        Err(SeveralHosts) => Some("several hosts".to_owned()),
    };
    if let Some(host) = host {
        let told = format!(
            "the request names {host}\nnext: use an address of this machine, or add the name: --console-name NAME\n"
        );
        return (StatusCode::MISDIRECTED_REQUEST, told).into_response();
    }
    request.extensions_mut().insert(ConnectInfo(from));
    let service = TowerToHyperService::new(router);
    match hyper::service::Service::call(&service, request).await {
        Ok(answer) => answer,
    }
}

#[cfg(test)]
mod tests;

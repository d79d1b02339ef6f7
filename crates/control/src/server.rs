//! The control thread. It serves the API on a unix socket or a loopback address until it is
//! stopped. The socket knows its users; a loopback address asks for a token.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use access::Access;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::HOST;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use hyper_util::service::TowerToHyperService;
use listener::{Bounds, Incoming, Place, Wire};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixSocket};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::address::ControlAddress;
use super::answer::Problem;
use super::asker::Peer;
use crate::handlers::router;
use crate::plane::Plane;
use model::{Error, ErrorKind};
use process::watchdog::Round;

/// Bounds of the control socket, and of a loopback address.
const BOUNDS: Bounds = Bounds {
    most: 1024,
    most_of_origin: 512,
    idle: Duration::from_secs(60),
    stall: Duration::from_secs(60),
    // A client that does not take the rest of a stream must not delay the end of the daemon.
    last_answers: Duration::from_secs(20),
};

/// The running control thread. Dropping it stops the thread and removes the socket.
#[derive(Debug)]
pub struct ControlServer {
    address: ControlAddress,
    runtime: Handle,
    stop: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens on `address`, and serves `plane` on a thread of its own.
    pub fn start(address: ControlAddress, plane: Arc<Plane>) -> Result<Self, Error> {
        let failed = |e: io::Error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the control API cannot listen on {address}: {e}"),
                format!(
                    "{}; or choose another address with --control",
                    address.place().next(&e)
                ),
            )
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let (listener, bound) = {
            let _inside = runtime.enter();
            listen(&address, &plane.access).map_err(failed)?
        };
        let handle = runtime.handle().clone();
        let (stop, stopped) = watch::channel(false);
        let serve = move || {
            let router = router(plane);
            // The accept loop only ends through `stopped`. An error of one connection ends that
            // connection only.
            runtime.block_on(async move {
                match listener {
                    Listener::Unix(unix) => accept(unix, router, Peer::of_user, stopped).await,
                    Listener::Tcp(tcp) => {
                        accept(tcp, loopback_only(router), Peer::at, stopped).await;
                    }
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(serve)
            .map_err(failed)?;
        Ok(Self {
            address: bound,
            runtime: handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns a function that asks the control thread for a turn.
    pub fn asker(&self) -> impl Fn(&mut Round) + Send + 'static {
        let runtime = self.runtime.clone();
        move |round| {
            let turn = round.ask("control");
            runtime.spawn(async move { drop(turn) });
        }
    }

    /// Returns the address on which the server listens. If port 0 was requested, it holds the
    /// chosen port.
    pub fn address(&self) -> &ControlAddress {
        &self.address
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        if let ControlAddress::Unix(path) = &self.address {
            let _ = fs::remove_file(path);
        }
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(true);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Takes connections until the server is stopped. `peer` reads what is known of the other end.
async fn accept<L, S, K>(
    listener: L,
    router: Router,
    peer: fn(K) -> Peer,
    stopped: watch::Receiver<bool>,
) where
    L: Incoming<Connection = (S, K)>,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    K: Send + 'static,
{
    let ending = stopped.clone();
    let serve = move |(stream, known), place: Arc<Place>| {
        let (router, stopped, peer) = (router.clone(), ending.clone(), peer(known));
        async move {
            let answer = move |mut request: hyper::Request<Body>| {
                request.extensions_mut().insert(ConnectInfo(peer));
                let service = TowerToHyperService::new(router.clone());
                async move {
                    match hyper::service::Service::call(&service, request).await {
                        Ok(answer) => answer,
                    }
                }
            };
            listener::serve(stream, Wire::One, &place, stopped, answer).await;
        }
    };
    listener::accept(listener, BOUNDS, stopped, serve).await;
}

fn listen(address: &ControlAddress, access: &Access) -> io::Result<(Listener, ControlAddress)> {
    match address {
        ControlAddress::Unix(path) => {
            let listener = listen_unix(path)?;
            access.guard_socket(path)?;
            Ok((Listener::Unix(listener), address.clone()))
        }
        ControlAddress::Tcp(tcp) => {
            let listener = std::net::TcpListener::bind(tcp)?;
            listener.set_nonblocking(true)?;
            let bound = ControlAddress::Tcp(listener.local_addr()?);
            Ok((Listener::Tcp(TcpListener::from_std(listener)?), bound))
        }
        ControlAddress::Https(_) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the console listens there: --console says where",
        )),
    }
}

/// Binds a unix socket that no other user can reach at any moment. The socket first gets a
/// temporary name, and is closed to others. Only then can clients see it and connect to it.
fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        fs::create_dir_all(parent)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another daemon answers at this socket",
        ));
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(0o600))?;
    let listener = socket.listen(64)?;
    fs::rename(&new, path)?;
    Ok(listener)
}

/// Refuses requests that name a host other than the loopback. A web page could make a browser
/// resolve the page's own name to 127.0.0.1. It must not reach the API.
fn loopback_only(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| async move {
        let host = request.headers().get(HOST);
        let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let loopback = name == "localhost"
            || name
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback());
        if loopback {
            next.run(request).await
        } else {
            refuse(host)
        }
    }))
}

fn refuse(host: &str) -> Response {
    let message = format!("the request names the host {host:?}, which is not this machine");
    Problem::from(Error::invalid(
        message,
        "connect to the loopback address itself",
    ))
    .into_response()
}

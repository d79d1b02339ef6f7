//! The client side of the control API, as the command line uses it. Each request has its own
//! connection.

use std::fmt;
use std::io;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::http::request::Builder;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::address::ControlAddress;
use super::answer::Problem;
use super::asker;
use super::endpoint::{self, Endpoint};
use model::{Error, ErrorKind};

mod remote;

pub use remote::Trust;

/// Longest time for a connection to be accepted.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// A client of one daemon.
#[derive(Clone)]
pub struct Client {
    address: ControlAddress,
    /// Typed command line, for histories.
    command: Option<String>,
    /// Token that says whose requests these are, or why there is none.
    token: Result<Option<String>, Error>,
    /// Proof of the certificate of a daemon on another machine.
    trust: Trust,
}

/// Connection to a daemon.
pub(super) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection for S {}

/// Leaves out the token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a client of {}", self.address)
    }
}

impl Client {
    /// Returns a client of the daemon at `address`. It does not connect yet.
    pub fn new(address: ControlAddress) -> Self {
        Self {
            address,
            command: None,
            token: Ok(None),
            trust: Trust::default(),
        }
    }

    /// Sets the proof of the certificate of a daemon on another machine.
    pub fn trusting(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// Sets the command line that each request names as its origin.
    pub fn of_command(self, command: Option<String>) -> Self {
        Self { command, ..self }
    }

    /// Sets the token that each request shows. Each request fails with an error of it.
    pub fn with_token(self, token: Result<Option<String>, Error>) -> Self {
        Self { token, ..self }
    }

    /// Adds the headers that all requests have.
    ///
    /// # Errors
    /// There is no token where one was to be shown.
    pub(super) fn introduce(&self, request: Builder, host: &str) -> Result<Builder, Error> {
        let request = request.header(HOST, host);
        let request = match self.token.as_ref().map_err(Error::clone)? {
            None => request,
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
        };
        Ok(match &self.command {
            None => request,
            Some(command) => request.header(asker::COMMAND, asker::header_of(command)),
        })
    }

    /// Returns the address at which the client looks for the daemon.
    pub fn address(&self) -> &ControlAddress {
        &self.address
    }

    /// Asks an endpoint, with arguments in its path.
    ///
    /// # Errors
    /// The daemon cannot be reached, refuses, or cannot do it.
    pub fn ask<Q: Serialize, B: Serialize, A: DeserializeOwned>(
        &self,
        endpoint: &Endpoint<Q, B, A>,
        at: &[&str],
        query: &Q,
        body: &B,
    ) -> Result<A, Error> {
        let path = path(endpoint, at, query)?;
        decode(&self.exchange(&endpoint.method, &path, json(body)?)?)
    }

    /// Asks an endpoint that takes neither a query nor a body.
    ///
    /// # Errors
    /// Those of [`Client::ask`].
    pub fn call<A: DeserializeOwned>(
        &self,
        endpoint: &Endpoint<(), (), A>,
        at: &[&str],
    ) -> Result<A, Error> {
        self.ask(endpoint, at, &(), &())
    }

    fn exchange(&self, method: &Method, path: &str, body: Vec<u8>) -> Result<Bytes, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|e| self.unreachable(&e))?;
        runtime.block_on(async {
            let (stream, host) = self.connect().await?;
            self.over(stream, host, method, path, body).await
        })
    }

    /// Connects to the daemon. Returns the connection, and the host that requests name.
    pub(super) async fn connect(&self) -> Result<(Box<dyn Connection>, String), Error> {
        Ok(match &self.address {
            ControlAddress::Unix(socket) => {
                let stream = UnixStream::connect(socket).await;
                let stream = stream.map_err(|error| self.unreachable(&error))?;
                (Box::new(stream), "localhost".to_owned())
            }
            ControlAddress::Tcp(address) => {
                let stream = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
                let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                let stream = stream.map_err(|error| self.unreachable(&error))?;
                (Box::new(stream), address.to_string())
            }
            ControlAddress::Https(remote) => {
                // A token that cannot be read must not cost a handshake first.
                self.token.as_ref().map_err(Error::clone)?;
                let stream = remote::connect(remote, &self.trust).await?;
                (Box::new(stream), remote.to_string())
            }
        })
    }

    async fn over(
        &self,
        stream: Box<dyn Connection>,
        host: String,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Bytes, Error> {
        let broken = |e: hyper::Error| {
            Error::new(
                ErrorKind::Unavailable,
                format!(
                    "the connection to the daemon at {} was lost: {e}",
                    self.address
                ),
                "sandstone status",
            )
            .not_changed("it is not known whether the request was carried out")
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        tokio::spawn(connection);
        let request = Request::builder().method(method.clone()).uri(path);
        let request = self
            .introduce(request, &host)?
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)));
        let request = request.map_err(|e| {
            Error::invalid(
                format!("{path:?} is not a valid path: {e}"),
                "report this as a defect",
            )
        })?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        let bytes = answer
            .into_body()
            .collect()
            .await
            .map_err(broken)?
            .to_bytes();
        if status.is_success() {
            return Ok(bytes);
        }
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => Err(problem.into()),
            Err(_) => Err(strange(status)),
        }
    }

    pub(super) fn unreachable(&self, source: &io::Error) -> Error {
        let (message, next) = match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => (
                format!("no Sandstone daemon answers at {}", self.address),
                "start one with `sandstone serve --state DIR` (or `sandstone demo` to try it out), \
                 or say where it is with --state, --control, SANDSTONE_STATE or SANDSTONE_CONTROL"
                    .to_owned(),
            ),
            io::ErrorKind::PermissionDenied => (
                format!("this user may not use the control socket {}", self.address),
                "run the command as the user that runs the daemon, for instance with sudo".to_owned(),
            ),
            _ => (
                format!("the daemon at {} cannot be reached: {source}", self.address),
                "say where it is with --control or SANDSTONE_CONTROL".to_owned(),
            ),
        };
        Error::new(ErrorKind::Unavailable, message, next)
    }
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Error> {
    let bytes: &[u8] = if bytes.is_empty() { b"null" } else { bytes };
    serde_json::from_slice(bytes).map_err(|e| {
        let next = "use a command line and a daemon of the same version: sandstone --version, sandstone status";
        Error::new(ErrorKind::Unavailable, format!("the daemon's answer could not be read: {e}"), next)
            .not_changed("the request itself was carried out")
    })
}

pub(super) fn strange(status: StatusCode) -> Error {
    let message =
        format!("the server that answers is not a Sandstone daemon: HTTP status {status}");
    Error::new(
        ErrorKind::Unavailable,
        message,
        "say where the daemon is with --control or SANDSTONE_CONTROL",
    )
}

/// Returns the path of a request to an endpoint, with its query.
pub(super) fn path<Q: Serialize, B, A>(
    endpoint: &Endpoint<Q, B, A>,
    at: &[&str],
    query: &Q,
) -> Result<String, Error> {
    Ok(endpoint.at(at) + &endpoint::query(query).map_err(unwritten)?)
}

/// Returns a body as JSON; the body `()` is empty.
pub(super) fn json<B: Serialize>(body: &B) -> Result<Vec<u8>, Error> {
    let mut text = serde_json::to_vec(body).map_err(unwritten)?;
    if text == b"null" {
        text.clear();
    }
    Ok(text)
}

fn unwritten(error: serde_json::Error) -> Error {
    Error::invalid(
        format!("the request cannot be written: {error}"),
        "report this as a defect",
    )
}

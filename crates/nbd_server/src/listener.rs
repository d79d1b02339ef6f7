//! Listening sockets for clients: TCP, and unix sockets that only their owner may open.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use mio::event::Source as _;
use mio::{Interest, Registry, Token};

use super::stream::Socket;
use hint::Place;

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket at this path.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// Reason why listening failed.
#[derive(Debug)]
pub struct ListenError {
    endpoint: Endpoint,
    source: io::Error,
}

impl ListenError {
    /// Returns the step to try next, as a clause without a full stop.
    pub fn next(&self) -> String {
        let place = match &self.endpoint {
            Endpoint::Unix(path) => Place::SocketFile(path),
            Endpoint::Tcp(address) => Place::Address(*address),
        };
        place.next(&self.source)
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.endpoint, self.source)
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Listening socket. The file of a unix socket is removed with it.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(mio::net::UnixListener, PathBuf),
    Tcp(mio::net::TcpListener),
}

impl Listener {
    /// Begins to listen. An abandoned socket file is replaced; any other existing file is left
    /// alone.
    pub(super) fn bind(endpoint: &Endpoint) -> Result<Self, ListenError> {
        let bound = match endpoint {
            Endpoint::Unix(path) => bind_unix(path),
            Endpoint::Tcp(address) => mio::net::TcpListener::bind(*address).map(Self::Tcp),
        };
        bound.map_err(|source| ListenError {
            endpoint: endpoint.clone(),
            source,
        })
    }

    /// Returns the listening address, with the chosen port if port 0 was requested.
    pub(super) fn endpoint(&self) -> io::Result<Endpoint> {
        match self {
            Self::Unix(_, path) => Ok(Endpoint::Unix(path.clone())),
            Self::Tcp(listener) => listener.local_addr().map(Endpoint::Tcp),
        }
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
            Self::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
        }
    }

    /// Accepts the next waiting client.
    ///
    /// # Errors
    /// `WouldBlock` if no client waits.
    pub(super) fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener, _) => Ok(Socket::Unix(listener.accept()?.0)),
            Self::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                // Every answer leaves at once.
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// Binds under a temporary name, closes the socket to other users, and only then gives it its name.
/// So no other user can ever reach it.
fn bind_unix(path: &Path) -> io::Result<Listener> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(there) if !there.file_type().is_socket() => {
            let message = "the path exists and is not a socket";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(_) => match UnixStream::connect(path) {
            // Nobody listens: the process that created the socket is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            _ => {
                let message = "another process serves on this socket";
                return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
            }
        },
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = mio::net::UnixListener::bind(&new)?;
    let placed = fs::set_permissions(&new, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&new, path));
    if let Err(error) = placed {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    Ok(Listener::Unix(listener, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_or_a_file_respected() {
        let folder = tempfile::tempdir().expect("a folder");
        let endpoint = Endpoint::Unix(folder.path().join("socket"));
        let Endpoint::Unix(path) = &endpoint else {
            return;
        };
        // The socket is dropped without removing its file, as by a killed process.
        drop(std::os::unix::net::UnixListener::bind(path).expect("a socket"));
        assert!(path.exists());
        let listener = Listener::bind(&endpoint).expect("nobody serves there");
        let mode = fs::metadata(path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = Listener::bind(&endpoint).expect_err("we do");
        assert!(
            error.to_string().contains("another process serves"),
            "{error}"
        );
        drop(listener);
        assert!(!path.exists(), "it goes with its listener");
        fs::write(path, "precious").expect("a file");
        let error = Listener::bind(&endpoint).expect_err("no socket");
        assert_eq!(error.next(), "choose a path that does not exist yet");
        assert_eq!(fs::read(path).expect("still there"), b"precious");
    }
}

//! Addresses at which the control API listens, and at which clients look for it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use hint::Place;

/// Socket of a daemon that runs as a service.
pub const SERVICE_SOCKET: &str = "/run/sandstone/control.sock";

/// Name of the socket in a state folder.
pub const SOCKET_NAME: &str = "control.sock";

/// Address of the control API: a unix socket, or a TCP address if the administrator asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlAddress {
    /// A unix socket. The kernel tells its users.
    Unix(PathBuf),
    /// A TCP port on a loopback address. Each request shows a token.
    Tcp(SocketAddr),
}

impl ControlAddress {
    /// Returns the place to name in an error, if listening at the address is refused.
    pub fn place(&self) -> Place<'_> {
        match self {
            Self::Unix(path) => Place::SocketFile(path),
            Self::Tcp(address) => Place::Address(*address),
        }
    }
}

impl FromStr for ControlAddress {
    type Err = String;

    /// Parses an address. A path holds a slash or begins with a dot, and a TCP address has a port.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            if !address.ip().is_loopback() {
                return Err(format!(
                    "{address} is not a loopback address; the control API is not encrypted here, so it is not \
                     offered to a network: the console is, with TLS"
                ));
            }
            return Ok(Self::Tcp(address));
        }
        if text.contains('/') || text.starts_with('.') || text.ends_with(".sock") {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        Err(format!(
            "{text:?} is neither a path of a socket nor an address such as 127.0.0.1:3261"
        ))
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

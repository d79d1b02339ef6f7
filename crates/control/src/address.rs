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
    /// The console of a daemon, on any machine. Only clients use it, and show a token.
    Https(Remote),
}

/// Console of a daemon that a client reaches over a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Name or address of the machine.
    pub host: String,
    /// Port of the console.
    pub port: u16,
}

/// Port of the console.
pub const CONSOLE_PORT: u16 = 8443;

impl FromStr for Remote {
    type Err = String;

    /// Parses `HOST[:PORT]`. An IPv6 address is in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.strip_suffix('/').unwrap_or(text);
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = port.map_or(Ok(CONSOLE_PORT), str::parse);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_host = !host.is_empty() && !host.contains(['/', '@', '?', ' ']);
        match port {
            Ok(port) if is_host => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(format!(
                "{text:?} is not a host such as san1 or san1:{CONSOLE_PORT}"
            )),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl ControlAddress {
    /// Returns the place to name in an error, if listening at the address is refused.
    pub fn place(&self) -> Place<'_> {
        match self {
            Self::Unix(path) => Place::SocketFile(path),
            Self::Tcp(address) => Place::Address(*address),
            // A daemon does not listen there.
            Self::Https(_) => Place::Process,
        }
    }
}

impl FromStr for ControlAddress {
    type Err = String;

    /// Parses an address. A path holds a slash or begins with a dot, and a TCP address has a port.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(remote) = text.strip_prefix("https://") {
            return remote.parse().map(Self::Https);
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            if !address.ip().is_loopback() {
                return Err(format!(
                    "{address} is not a loopback address; the control API is not encrypted here, so it is not \
                     offered to a network: the console is, at https://{}:{CONSOLE_PORT}",
                    address.ip()
                ));
            }
            return Ok(Self::Tcp(address));
        }
        if text.contains('/') || text.starts_with('.') || text.ends_with(".sock") {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        Err(format!(
            "{text:?} is neither a path of a socket, nor an address such as 127.0.0.1:3261 or https://san1:{CONSOLE_PORT}"
        ))
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
            Self::Https(remote) => write!(f, "https://{remote}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consoles_of_other_machines_are_read_and_shown() {
        for (text, host, port) in [
            ("https://san1", "san1", 8443),
            ("https://san1.example:443/", "san1.example", 443),
            ("https://192.0.2.1", "192.0.2.1", 8443),
            ("https://[2001:db8::1]:9000", "2001:db8::1", 9000),
            ("https://[2001:db8::1]", "2001:db8::1", 8443),
        ] {
            let address: ControlAddress = text.parse().expect(text);
            let remote = Remote {
                host: host.to_owned(),
                port,
            };
            assert_eq!(address, ControlAddress::Https(remote), "{text}");
            assert_eq!(address.to_string().parse(), Ok(address), "{text}");
        }
        for wrong in [
            "https://",
            "https://a b",
            "https://san1:x",
            "https://u@san1",
            "https://:1",
            "192.0.2.1:8443",
        ] {
            wrong.parse::<ControlAddress>().expect_err(wrong);
        }
    }
}

//! The way in which a client finds its daemon.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use control::address::{SERVICE_SOCKET, SOCKET_NAME};
use control::{Client, ControlAddress, Trust};
use model::Error;

use crate::secret::from_file;

/// State folder of a daemon that runs as a service.
pub(super) const SERVICE_STATE: &str = "/var/lib/sandstone";

/// Location of the daemon.
#[derive(Clone, Debug, Default, Args)]
pub struct Connection {
    /// Control socket or loopback address of the daemon, or https://HOST for the console of another
    /// machine
    #[arg(
        long,
        global = true,
        value_name = "PATH|ADDR",
        env = "SANDSTONE_CONTROL",
        help_heading = "Daemon"
    )]
    pub control: Option<ControlAddress>,
    /// State folder of the daemon [default: /var/lib/sandstone]; its control socket is looked for
    /// there
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "SANDSTONE_STATE",
        help_heading = "Daemon"
    )]
    pub state: Option<PathBuf>,
    /// File with a token that says whose requests these are. The control socket needs none
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SANDSTONE_TOKEN_FILE",
        help_heading = "Daemon"
    )]
    pub control_token: Option<PathBuf>,
    /// Trust the certificates in this file for https://HOST: the daemon's own, or an authority's
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SANDSTONE_CONTROL_CA",
        help_heading = "Daemon"
    )]
    pub control_ca: Option<PathBuf>,
    /// Trust the certificate with this SHA-256 for https://HOST; `sandstone tls show` prints it
    #[arg(
        long,
        global = true,
        value_name = "SHA256",
        env = "SANDSTONE_CONTROL_FINGERPRINT",
        help_heading = "Daemon"
    )]
    pub control_fingerprint: Option<String>,
    /// Command line as the user typed it. The daemon keeps it if it changes a pool.
    #[arg(skip)]
    pub command: Option<String>,
}

impl Connection {
    /// Returns the state folder: the given one, or that of the service.
    pub fn state_folder(&self) -> &Path {
        self.state.as_deref().unwrap_or(Path::new(SERVICE_STATE))
    }

    /// Returns the address at which a daemon of this state folder listens by default.
    pub fn listening_address(&self) -> ControlAddress {
        self.control
            .clone()
            .unwrap_or_else(|| ControlAddress::Unix(self.state_folder().join(SOCKET_NAME)))
    }

    /// Forgets the settings of the environment. A demo must not use the state folder or the socket
    /// of a daemon that serves.
    pub(super) fn forget_environment(&mut self, matches: &ArgMatches) {
        let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        self.state = self.state.take().filter(|_| is_typed("state"));
        self.control = self.control.take().filter(|_| is_typed("control"));
    }

    fn client_at(&self, address: ControlAddress) -> Client {
        let client = Client::new(address).of_command(self.command.clone());
        let trust = Trust {
            ca: self.control_ca.clone(),
            fingerprint: self.control_fingerprint.clone(),
        };
        client.with_token(self.token()).trusting(trust)
    }

    /// Reads the token, if a file is named.
    fn token(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.control_token else {
            return Ok(None);
        };
        from_file(path).map(|token| Some(token.trim().to_owned()))
    }

    /// Returns a client of the daemon that `--control` or `--state` name. Without them, the daemon
    /// is that at the service's socket, or else that of the service's state folder.
    pub fn client(&self) -> Client {
        let service = Path::new(SERVICE_SOCKET);
        let unsaid = self.control.is_none() && self.state.is_none();
        if unsaid && service.exists() {
            return self.client_at(ControlAddress::Unix(service.to_owned()));
        }
        self.client_at(self.listening_address())
    }
}

//! `serve`: the options of the daemon, and the file that may hold them.

mod settings;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::target::portal;
use super::{Connection, report};
use crate::grammar::completion::size;
use model::{Error, ErrorKind};
use process::log::{self, Format};
use process::signals::StopSignals;

/// Levels of the log, the gravest first.
const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

/// Options of the daemon. [`Connection`] holds the state folder and the control address.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct Args {
    /// Listen at this address for targets that are made without a portal; may be given several
    /// times
    #[arg(long = "portal", value_name = "ADDR[:PORT]", value_parser = portal)]
    pub portals: Vec<SocketAddr>,
    /// Serve the console, and the API to tokens, over TLS at this address, or nowhere with off
    /// [default: [::]:8443]
    #[arg(long, value_name = "ADDR[:PORT]|off", value_parser = console_address)]
    pub console: Option<ConsoleAddress>,
    /// Certificate of the console, and the chain above it, as PEM [default: one that this machine
    /// makes]. The file is read again when it changes
    #[arg(long, value_name = "FILE", requires = "console_key")]
    pub console_cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "console_cert")]
    pub console_key: Option<PathBuf>,
    /// Further name under which people reach the console; may be given several times
    #[arg(long = "console-name", value_name = "NAME")]
    pub console_names: Vec<String>,
    /// Event loops [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// Most memory that data in flight of all sessions may take [default: 1G]. Up to 4,096
    /// sessions; with less than 64M, one session for each 16K
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_cap: Option<u64>,
    /// Most memory that blocks of pools may take [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub cache: Option<u64>,
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics, without a password: names of all
    /// objects, and no secrets [default: only at the control socket]
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_address)]
    pub metrics: Option<SocketAddr>,
    /// Least grave level to log [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = LEVELS)]
    pub log: Option<String>,
    /// Form of the log [default: auto, which is journal where stderr leads to the journal, and text
    /// elsewhere]
    #[arg(long, value_name = "auto|text|json|journal", value_parser = log_format)]
    pub log_format: Option<Format>,
    /// Use threads for file I/O even where io_uring works
    #[arg(long)]
    pub no_io_uring: bool,
    /// Settings file; options that are typed win over it [default: /etc/sandstone/sandstone.toml,
    /// if it exists and --state names no other folder than the service's]
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Check the options and the settings file, and serve nothing
    #[arg(long)]
    pub check: bool,
}

/// Reads the form of the log, for clap.
fn log_format(text: &str) -> Result<Format, String> {
    text.parse()
}

/// All that the daemon is told at its start.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Options of its own.
    pub args: Args,
    /// State folder and control address.
    pub connection: Connection,
}

impl Service {
    /// Returns the options of the command line, and of the settings file where the command line
    /// leaves them open.
    ///
    /// # Errors
    /// The settings file cannot be read, or a line of it is wrong.
    pub fn new(args: &Args, connection: &Connection) -> Result<Self, Error> {
        let mut service = Self {
            args: args.clone(),
            connection: connection.clone(),
        };
        settings::fill_in(&mut service)?;
        Ok(service)
    }

    /// Starts the log as the options want it.
    pub fn begin_log(&self) {
        let level = self.args.log.as_deref().unwrap_or("info");
        log::begin(level, self.args.log_format.unwrap_or_default());
    }
}

/// Address of the console, if it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleAddress {
    /// The console is not served.
    Off,
    /// The console is served at this address.
    At(SocketAddr),
}

pub use control::address::CONSOLE_PORT;

fn console_address(text: &str) -> Result<ConsoleAddress, String> {
    if text == "off" {
        return Ok(ConsoleAddress::Off);
    }
    let whole = text.parse::<SocketAddr>();
    let ip = text.trim_matches(['[', ']']).parse::<IpAddr>();
    let address = whole.or(ip.map(|ip| SocketAddr::new(ip, CONSOLE_PORT)));
    address.map(ConsoleAddress::At).map_err(|_| {
        format!(
            "{text:?} is not an address; write one such as 192.0.2.10:8443 or [::]:8443, or off"
        )
    })
}

/// Reads the address of `--metrics`. Metrics have no usual port, so it must be named.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not an address with a port, such as 127.0.0.1:9860, or [::]:9860 for every address \
             of this machine"
        )
    })
}

/// Catches the signals that end a daemon in order.
///
/// # Errors
/// The kernel refuses to catch them.
pub fn catch_signals() -> Result<StopSignals, Error> {
    signals(StopSignals::catch())
}

/// Returns the caught signals, or explains why the kernel refused to catch them.
///
/// # Errors
/// The kernel refused to catch them.
pub fn signals(caught: std::io::Result<StopSignals>) -> Result<StopSignals, Error> {
    caught.map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the process cannot wait for signals: {error}"),
            "report this as a defect; nothing is served",
        )
    })
}

/// Reports the error that ended a daemon.
pub fn failed(error: &Error) -> ExitCode {
    // If even this cannot be written, nothing is left to do.
    let _ = report(&mut std::io::stderr(), error);
    ExitCode::FAILURE
}

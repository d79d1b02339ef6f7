//! `serve`: the options of the daemon.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::report;
use super::target::portal;
use crate::grammar::completion::size;
use model::{Error, ErrorKind};
use process::signals::StopSignals;

/// Options of the daemon. [`Connection`] holds the state folder and the control address.
#[derive(Clone, Debug, ClapArgs)]
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
    /// Least grave level to log
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug"])]
    pub log: String,
    /// Use threads for file I/O even where io_uring works
    #[arg(long)]
    pub no_io_uring: bool,
}

/// Address of the console, if it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleAddress {
    /// The console is not served.
    Off,
    /// The console is served at this address.
    At(SocketAddr),
}

/// Port of the console.
pub const CONSOLE_PORT: u16 = 8443;

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

//! `serve`: the options of the daemon.

use std::net::SocketAddr;
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
    /// Least grave level to log
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug"])]
    pub log: String,
    /// Use threads for file I/O even where io_uring works
    #[arg(long)]
    pub no_io_uring: bool,
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

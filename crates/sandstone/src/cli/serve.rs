//! `serve`: the daemon.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::completion::size;
use super::target::portal;
use super::{Connection, report};
use crate::config::{Error, ErrorKind};

/// How to serve. The state folder and the control address are those of [`Connection`].
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Listen here for targets that are made without a portal; may be given several times
    #[arg(long = "portal", value_name = "ADDR[:PORT]", value_parser = portal)]
    pub portals: Vec<SocketAddr>,
    /// Event loops [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// Most memory that buffers of all sessions may take, as in 1G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_cap: Option<u64>,
    /// What to log
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug"])]
    pub log: String,
    /// Use threads for file I/O even where io_uring works
    #[arg(long)]
    pub no_io_uring: bool,
}

/// Serves until it is told to stop.
pub fn run(_args: &Args, _connection: &Connection) -> ExitCode {
    let error = Error::new(
        ErrorKind::Unavailable,
        "serving is not available in this build",
        "use a build that has the data plane",
    );
    let _ = report(&mut std::io::stderr(), &error);
    ExitCode::FAILURE
}

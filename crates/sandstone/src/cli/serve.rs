//! `serve`: the daemon.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::completion::size;
use super::target::portal;
use super::{Connection, report};
use crate::config::{Error, ErrorKind};
use crate::daemon::{DEFAULT_MEMORY_CAP, Daemon, DaemonOptions, StopSignals, default_cache};
use crate::target::try_listening;

/// How to serve. The state folder and the control address are those of [`Connection`].
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Listen here for targets that are made without a portal; may be given several times
    #[arg(long = "portal", value_name = "ADDR[:PORT]", value_parser = portal)]
    pub portals: Vec<SocketAddr>,
    /// Event loops [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// Most memory that data in flight of all sessions may take; below 64M there is a session for each 16K of it,
    /// instead of 4096 [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_cap: Option<u64>,
    /// Most memory that blocks of pools may take [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub cache: Option<u64>,
    /// What to log
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug"])]
    pub log: String,
    /// Use threads for file I/O even where io_uring works
    #[arg(long)]
    pub no_io_uring: bool,
}

/// Serves until it is told to stop.
pub fn run(args: &Args, connection: &Connection) -> ExitCode {
    log_to_stderr(&args.log);
    let options = DaemonOptions {
        state: connection.state_folder().to_owned(),
        control: connection.listening_address(),
        threads: args.threads.map(usize::from),
        memory_cap: args.memory_cap.unwrap_or(DEFAULT_MEMORY_CAP),
        cache: args.cache.map_or_else(default_cache, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        }),
        io_uring: !args.no_io_uring,
        default_portals: args.portals.clone(),
    };
    let started = catch_signals().and_then(|signals| Ok((signals, Daemon::start(options)?)));
    match started {
        Ok((signals, daemon)) => {
            let served = daemon.transactions().data_plane().portals();
            for portal in &served {
                if let Some(error) = &portal.error {
                    tracing::error!(portal = %portal.address, %error, "a portal is not served");
                }
            }
            let is_served = |address: &SocketAddr| served.iter().any(|of| of.address == *address);
            let idle = args.portals.iter().filter(|address| !is_served(address));
            idle.for_each(try_portal);
            tracing::info!(control = %daemon.control(), "serving");
            daemon.run_until(signals);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

/// Says so where nobody could listen at an address that no target uses yet: whoever makes one would wonder.
fn try_portal(address: &SocketAddr) {
    if let Err(error) = try_listening(*address) {
        tracing::warn!(
            portal = %address, %error,
            "targets that are made without a portal would not be reached here: free the address, or give another --portal"
        );
    }
}

/// Events go to stderr, for the journal of the machine.
pub(super) fn log_to_stderr(level: &str) {
    let level = level.parse().unwrap_or(tracing::Level::INFO);
    // A second subscriber in one process (tests) is refused; the first goes on.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .try_init();
}

/// Catches the signals that end a daemon in order.
pub(super) fn catch_signals() -> Result<StopSignals, Error> {
    StopSignals::catch().map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("signals cannot be waited for: {error}"),
            "report this; nothing is served",
        )
    })
}

pub(super) fn failed(error: &Error) -> ExitCode {
    // Nothing is left to do where even this cannot be written.
    let _ = report(&mut std::io::stderr(), error);
    ExitCode::FAILURE
}

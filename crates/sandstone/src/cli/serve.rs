//! `serve`: the daemon.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::completion::size;
use super::target::portal;
use super::{Connection, report};
use crate::config::{Error, ErrorKind};
use crate::control::ControlAddress;
use crate::daemon::{DEFAULT_MEMORY_CAP, Daemon, DaemonOptions, StopSignals, default_cache};
use crate::hint::Place;
use crate::log::{self, EACH};
use crate::notify;
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
    /// Most memory that data in flight of all sessions may take [default: 1G]. Up to 4,096 sessions; with less than 64M
    /// the limit is one for each 16K of it
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
    log::to_stderr(&args.log);
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
    tracing::info!(
        target: EACH,
        version = env!("CARGO_PKG_VERSION"),
        state = %options.state.display(),
        pid = std::process::id(),
        "Sandstone starts"
    );
    let signals = signals(StopSignals::catch_with_reload());
    let started = signals.and_then(|signals| Ok((signals, Daemon::start(options)?)));
    match started {
        Ok((signals, daemon)) => {
            tell_addresses(args, &daemon);
            notify::ready(&daemon.in_words());
            daemon.run_until(signals);
            ExitCode::SUCCESS
        }
        Err(error) => {
            log::flush();
            failed(&error)
        }
    }
}

/// Says where targets listen and where the control API and the metrics are.
fn tell_addresses(args: &Args, daemon: &Daemon) {
    let served = daemon.transactions().data_plane().portals();
    for portal in &served {
        let (address, iqn) = (portal.address, &portal.target);
        match &portal.error {
            None => tracing::info!(target: EACH, portal = %address, iqn, "a target listens"),
            Some(error) => {
                tracing::error!(target: EACH, portal = %address, iqn, %error, "a portal is not served");
            }
        }
    }
    let is_served = |address: &SocketAddr| served.iter().any(|of| of.address == *address);
    let idle = args.portals.iter().filter(|address| !is_served(address));
    idle.for_each(try_portal);
    let control = daemon.control();
    let metrics = match control {
        ControlAddress::Tcp(address) => format!("http://{address}/metrics"),
        ControlAddress::Unix(path) => {
            format!("http://localhost/metrics at the socket {}", path.display())
        }
    };
    let config = daemon.transactions().config();
    tracing::info!(
        target: EACH,
        %control,
        metrics,
        generation = config.generation,
        units = config.units.len(),
        targets = config.targets.len(),
        "serving"
    );
}

/// Says so where nobody could listen at an address that no target uses yet: whoever makes one would wonder.
fn try_portal(address: &SocketAddr) {
    if let Err(error) = try_listening(*address) {
        tracing::warn!(
            portal = %address, %error,
            "targets that are made without a portal would not be reached here: {}; or give another --portal",
            Place::Address(*address).next(&error)
        );
    }
}

/// Catches the signals that end a daemon in order.
pub(super) fn catch_signals() -> Result<StopSignals, Error> {
    signals(StopSignals::catch())
}

fn signals(caught: std::io::Result<StopSignals>) -> Result<StopSignals, Error> {
    caught.map_err(|error| {
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

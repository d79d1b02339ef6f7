//! `serve`: runs the daemon.

use std::net::SocketAddr;
use std::process::ExitCode;

use crate::console::ConsoleOptions;
use crate::daemon::{Daemon, DaemonOptions, default_cache};
use block::budget::DEFAULT_MEMORY_CAP;
use cli::Connection;
use cli::serve::{Args, Service, failed, signals};
use control::ControlAddress;
use hint::Place;
use https::Given;
use process::log::{self, EACH};
use process::notify;
use process::signals::StopSignals;
use target::try_listening;

/// Serves until it is told to stop. With `--check`, it only looks at the options and the settings
/// file.
pub(crate) fn run(args: &Args, connection: &Connection) -> ExitCode {
    let service = match Service::new(args, connection) {
        Ok(service) => service,
        Err(error) => return failed(&error),
    };
    if args.check {
        println!("the options and the settings file are right; nothing was started");
        return ExitCode::SUCCESS;
    }
    service.begin_log();
    let Service { args, connection } = service;
    let options = options(&args, &connection);
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
            tell_addresses(&args, &daemon);
            notify::ready(&daemon.in_words());
            if let Err(error) = daemon.watch() {
                tracing::error!(%error, "the watchdog is not fed: the service manager will restart the daemon");
            }
            daemon.run_until(signals);
            ExitCode::SUCCESS
        }
        Err(error) => {
            log::flush();
            failed(&error)
        }
    }
}

/// Returns the certificate that the command line names.
fn given(args: &Args) -> Option<Given> {
    let (certificate, key) = (args.console_cert.clone()?, args.console_key.clone()?);
    Some(Given { certificate, key })
}

fn options(args: &Args, connection: &Connection) -> DaemonOptions {
    DaemonOptions {
        state: connection.state_folder().to_owned(),
        control: connection.listening_address(),
        threads: args.threads.map(usize::from),
        memory_cap: args.memory_cap.unwrap_or(DEFAULT_MEMORY_CAP),
        cache: args.cache.map_or_else(default_cache, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        }),
        io_uring: !args.no_io_uring,
        default_portals: args.portals.clone(),
        console: ConsoleOptions {
            address: args.console,
            given: given(args),
            names: args.console_names.clone(),
            is_demo: false,
        },
        history_clock: None,
        metrics: args.metrics,
    }
}

/// Prints the addresses of targets, of the control API and of the metrics.
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
    let metrics = match (daemon.metrics(), control) {
        (Some(address), _) => format!("http://{address}/metrics"),
        (None, ControlAddress::Tcp(address)) => format!("http://{address}/metrics"),
        (None, ControlAddress::Https(console)) => format!("https://{console}/metrics"),
        (None, ControlAddress::Unix(path)) => {
            format!("http://localhost/metrics at the socket {}", path.display())
        }
    };
    if let (Some(url), Some(certificate)) = (daemon.console_url(), daemon.console_certificate()) {
        let fingerprint = certificate.fingerprint;
        tracing::info!(target: EACH, url, fingerprint, "the console listens");
    }
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

/// Warns if nobody can listen at an address that no target uses yet, because a later target there
/// would fail without an apparent reason.
fn try_portal(address: &SocketAddr) {
    if let Err(error) = try_listening(*address) {
        tracing::warn!(
            portal = %address, %error,
            "targets that are created without a portal would not be reachable here: {}; or give another \
             --portal",
            Place::Address(*address).next(&error)
        );
    }
}

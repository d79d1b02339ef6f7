//! `demo`: a pool on files, a volume, a logical unit, a target and a map, made and served by one command.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use serde::Serialize;

use super::Connection;
use super::client_instructions::{Access, instructions};
use super::completion::size;
use super::serve::{catch_signals, failed};
use crate::config::change::{AddMap, AddPortal, Change, CreateTarget, CreateUnit, NewVolume};
use crate::config::model::{AluaMode, BackendSpec, Config, TargetParameters};
use crate::config::quantity::format_size;
use crate::config::{Error, ErrorKind};
use crate::control::ControlAddress;
use crate::control::transaction::Commit;
use crate::daemon::{DEFAULT_MEMORY_CAP, Daemon, DaemonOptions, default_cache};
use crate::initiator::self_test;
use crate::pool::create::CreatePool;
use crate::pool::history::Deed;
use crate::pool::vdev_request::{VdevKind, VdevRequest};

const DEFAULT_PORT: u16 = 3260;
const UNIT: &str = "demo";
const POOL: &str = "tank";
const VOLUME: &str = "tank/demo";
/// The two disks of the pool, in the state folder.
const DISKS: [&str; 2] = ["disk-a.img", "disk-b.img"];
const TARGET: &str = "iqn.2026-01.io.sandstone:demo";

/// What to demonstrate. The state folder, where one is given, is that of [`Connection`].
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Print one line of JSON (url, portal, target, lun, control) once it serves
    #[arg(long)]
    pub json: bool,
    /// Serve this much memory instead of a volume
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "size")]
    pub memory: Option<u64>,
    /// Write, read back and verify over a real TCP session, then exit
    #[arg(long)]
    pub once: bool,
    /// TCP port on 127.0.0.1 [default: 3260, or the next free one]
    #[arg(long)]
    pub port: Option<u16>,
    /// Capacity of the volume
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "10G")]
    pub size: u64,
    /// Logical block size
    #[arg(long, value_name = "512|4096", default_value_t = 512, value_parser = block_size)]
    pub block_size: u32,
    /// Physical block size [default: 4096]
    #[arg(long, value_name = "512|4096", value_parser = block_size)]
    pub physical_block_size: Option<u32>,
    /// Acknowledge writes from volatile cache
    #[arg(long)]
    pub write_cache: bool,
    /// Event loops [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// Use threads for file I/O even where io_uring works
    #[arg(long)]
    pub no_io_uring: bool,
}

/// The line of `--json`.
#[derive(Debug, Serialize)]
struct Served {
    url: String,
    portal: SocketAddr,
    target: String,
    lun: u16,
    control: String,
}

pub(super) fn block_size(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4k" | "4K" => Ok(4096),
        _ => Err("choose 512 or 4096".into()),
    }
}

/// Runs until Ctrl-C, or with `--once` until the self-test is over.
pub fn run(args: &Args, connection: &Connection) -> ExitCode {
    crate::log::to_stderr(if args.once || args.json {
        "warn"
    } else {
        "info"
    });
    let (state, temporary) = match &connection.state {
        Some(state) => (state.clone(), false),
        None => match state_folder(args) {
            Ok(state) => (state, args.once || args.memory.is_some()),
            Err(error) => return failed(&error),
        },
    };
    let code = match start(args, connection, &state) {
        Ok((daemon, access)) => serve(args, daemon, &access, &state),
        Err(error) => failed(&error),
    };
    if temporary {
        // Made for this run only, and nobody can want it back: the unit was memory or a test.
        let _ = std::fs::remove_dir_all(&state);
    }
    code
}

/// `./sandstone-demo`, so that the user finds it; a folder of its own where nothing is to be kept.
fn state_folder(args: &Args) -> Result<PathBuf, Error> {
    if !args.once && args.memory.is_none() {
        return Ok(PathBuf::from("sandstone-demo"));
    }
    let name = format!("sandstone-demo-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder)
        .map_err(|error| Error::storage(format!("make {}", folder.display()), error))?;
    Ok(folder)
}

fn start(args: &Args, connection: &Connection, state: &Path) -> Result<(Daemon, Access), Error> {
    let control = connection
        .control
        .clone()
        .unwrap_or_else(|| ControlAddress::Unix(state.join(crate::control::address::SOCKET_NAME)));
    let daemon = Daemon::start(DaemonOptions {
        state: state.to_owned(),
        control,
        threads: args.threads.map(usize::from),
        memory_cap: DEFAULT_MEMORY_CAP,
        cache: default_cache(),
        io_uring: !args.no_io_uring,
        default_portals: Vec::new(),
    })?;
    if daemon.transactions().config().unit(UNIT).is_none() {
        configure(args, &daemon, state)?;
    } else {
        move_portal(args, &daemon)?;
    }
    let access = access(&daemon.transactions().config())?;
    Ok((daemon, access))
}

/// Makes the pool, the unit, the target and the map in a fresh state folder.
fn configure(args: &Args, daemon: &Daemon, state: &Path) -> Result<(), Error> {
    let volume = match args.memory {
        Some(_) => None,
        None => {
            make_pool(args.size, daemon, state)?;
            Some(NewVolume {
                size: args.size,
                ..NewVolume::default()
            })
        }
    };
    let unit = CreateUnit {
        name: UNIT.into(),
        backend: match args.memory {
            Some(size) => BackendSpec::Memory { size },
            None => BackendSpec::Volume {
                volume: VOLUME.into(),
            },
        },
        block_size: args.block_size,
        physical_block_size: args.physical_block_size,
        new_volume: volume,
        write_cache: args.write_cache,
        read_only: false,
        thin: None,
        threshold_percent: None,
        naa: None,
        serial: None,
    };
    let map = AddMap {
        unit: UNIT.into(),
        host: None,
        target: Some(TARGET.into()),
        lun: Some(0),
        read_only: false,
    };
    daemon
        .plane()
        .create_unit(unit, &Commit::default(), &deed())?;
    at_a_port(args.port, |portal| {
        let target = CreateTarget {
            iqn: TARGET.into(),
            alias: "Sandstone demo".into(),
            portals: vec![portal],
            alua: AluaMode::default(),
            parameters: TargetParameters::default(),
        };
        commit(daemon, &Change::CreateTarget(target))
    })?;
    commit(daemon, &Change::AddMap(map))
}

/// A mirror of two sparse files that can hold all of a volume of `size` bytes.
fn make_pool(size: u64, daemon: &Daemon, state: &Path) -> Result<(), Error> {
    if daemon.plane().pools.get(POOL).is_ok() {
        // An earlier demo came that far.
        return Ok(());
    }
    let folder = state
        .canonicalize()
        .map_err(|error| Error::storage(format!("find {}", state.display()), error))?;
    daemon.plane().pools.create(&CreatePool {
        name: POOL.into(),
        vdevs: vec![VdevRequest {
            kind: VdevKind::Mirror,
            paths: DISKS.iter().map(|name| folder.join(name)).collect(),
        }],
        logs: Vec::new(),
        caches: Vec::new(),
        spares: Vec::new(),
        force: false,
        multihost: None,
        file_size: Some(size + size / 8 + (256 << 20)),
        dry_run: false,
    })?;
    daemon.plane().pools.note(POOL, &deed());
    Ok(())
}

/// What the histories of pools say of it.
fn deed() -> Deed {
    Deed {
        text: "sandstone demo".into(),
        ..Deed::default()
    }
}

/// Moves the target of an earlier demo to the port asked for now, or to a free one where somebody else
/// has taken its own meanwhile.
fn move_portal(args: &Args, daemon: &Daemon) -> Result<(), Error> {
    let Some(old) = access(&daemon.transactions().config())?
        .portals
        .first()
        .copied()
    else {
        return Ok(());
    };
    let portals = daemon.transactions().data_plane().portals();
    let taken = portals.iter().any(|portal| portal.error.is_some());
    let asked = args.port.filter(|port| *port != 0);
    if asked.map_or(!taken, |port| port == old.port()) {
        return Ok(());
    }
    at_a_port(asked, |portal| {
        tracing::info!(from = %old, to = %portal, taken, "the demo moves");
        let add = AddPortal {
            portal,
            tag: 1,
            target_port_group: None,
            alua_state: None,
        };
        commit(daemon, &Change::AddPortal(TARGET.into(), add))
    })?;
    commit(daemon, &Change::RemovePortal(TARGET.into(), old))
}

fn commit(daemon: &Daemon, change: &Change) -> Result<(), Error> {
    let committed = daemon.transactions().commit(change, &Commit::default());
    committed.map(|_| ())
}

/// Has `listen` use the port asked for, or the first from 3260 on that it gets: another demo that begins at the same
/// moment sees the same one free.
fn at_a_port(
    wanted: Option<u16>,
    mut listen: impl FnMut(SocketAddr) -> Result<(), Error>,
) -> Result<(), Error> {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    if let Some(port) = wanted.filter(|port| *port != 0) {
        return listen(at(port));
    }
    let is_free = |port: u16| TcpListener::bind(at(port)).is_ok();
    let last = DEFAULT_PORT + 999;
    for port in (DEFAULT_PORT..=last).filter(|port| is_free(*port)) {
        let listens = listen(at(port));
        if listens.is_ok() || is_free(port) {
            return listens;
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("no port from {DEFAULT_PORT} to {last} is free on 127.0.0.1"),
        "give one with --port",
    ))
}

fn access(config: &Config) -> Result<Access, Error> {
    let broken = || {
        Error::not_found(
            "the demo's target or logical unit is not in this state folder",
            "use another --state",
        )
    };
    let unit = config.unit(UNIT).ok_or_else(broken)?;
    let target = config.target(TARGET).ok_or_else(broken)?;
    let portals = target
        .portal_groups
        .iter()
        .flat_map(|group| group.portals.clone())
        .collect();
    Ok(Access {
        portals,
        target: TARGET.into(),
        lun: 0,
        naa: unit.naa.clone(),
        block_size: unit.block_size,
        chap_user: None,
        initiator: None,
    })
}

fn serve(args: &Args, daemon: Daemon, access: &Access, state: &Path) -> ExitCode {
    let portal = access.portals.first().copied();
    let states = daemon.transactions().data_plane().units();
    if let Some(fault) = states.into_iter().find_map(|unit| unit.fault) {
        let error = Error::new(
            ErrorKind::Unavailable,
            format!("the demo's logical unit cannot be served: {fault}"),
            "put back what was there, or use another --state",
        );
        daemon.stop();
        return failed(&error);
    }
    let unserved = daemon
        .transactions()
        .data_plane()
        .portals()
        .into_iter()
        .find_map(|portal| portal.error);
    let (Some(portal), None) = (portal, &unserved) else {
        let error = Error::new(
            ErrorKind::Unavailable,
            format!(
                "the demo's portal cannot be bound: {}",
                unserved.unwrap_or_default()
            ),
            "stop what listens there, or use another --state and --port",
        );
        daemon.stop();
        return failed(&error);
    };
    if args.once {
        return self_test(args, daemon, portal);
    }
    let signals = match catch_signals() {
        Ok(signals) => signals,
        Err(error) => return failed(&error),
    };
    if args.json {
        let served = Served {
            url: access.url(),
            portal,
            target: access.target.clone(),
            lun: access.lun,
            control: daemon.control().to_string(),
        };
        println!("{}", serde_json::json!(served));
    } else {
        announce(access, state, &daemon);
    }
    daemon.run_until(signals);
    ExitCode::SUCCESS
}

fn announce(access: &Access, state: &Path, daemon: &Daemon) {
    // The unit may be an earlier demo's.
    let config = daemon.transactions().config();
    let size = daemon.transactions().data_plane().units().into_iter();
    let size = size.map(|unit| format_size(unit.size)).next();
    let size = size.unwrap_or_default();
    let what = match config.unit(UNIT).map(|unit| &unit.backend) {
        Some(BackendSpec::Memory { .. }) => format!("{size} of memory"),
        Some(BackendSpec::File { .. }) => {
            format!("a thin volume of {size} in {}", state.display())
        }
        Some(BackendSpec::Device { path }) => path.display().to_string(),
        Some(BackendSpec::Iscsi { device }) => device.clone(),
        Some(BackendSpec::Volume { volume }) => format!(
            "{volume}, a thin volume of {size} in a pool mirrored over two files in {},",
            state.display()
        ),
        None => state.display().to_string(),
    };
    println!("Serving {what} as");
    println!("    {}", access.url());
    println!();
    print!("{}", instructions(access, None));
    println!("Control it from another terminal:");
    for verb in verbs(&config) {
        println!("    sandstone --control {} {verb}", daemon.control());
    }
    println!();
    println!("Ctrl-C ends it.");
}

/// What to look at first.
fn verbs(config: &Config) -> Vec<&'static str> {
    let unit = config.unit(UNIT).map(|unit| &unit.backend);
    match unit {
        Some(BackendSpec::Volume { .. }) => {
            vec!["session list", "pool status", "volume list"]
        }
        _ => vec!["session list"],
    }
}

fn self_test(args: &Args, daemon: Daemon, portal: SocketAddr) -> ExitCode {
    let result = self_test::run(portal, TARGET);
    daemon.stop();
    match result {
        Ok(report) if args.json => {
            println!(
                "{}",
                serde_json::json!({
                    "verified_bytes": report.verified_bytes,
                    "blocks": report.blocks,
                    "block_size": report.block_len,
                })
            );
            ExitCode::SUCCESS
        }
        Ok(report) => {
            println!(
                "{} written, read back over TCP in another session and found equal, with header and data digests.",
                format_size(report.verified_bytes)
            );
            println!(
                "The logical unit has {} blocks of {} bytes.",
                report.blocks, report.block_len
            );
            ExitCode::SUCCESS
        }
        Err(error) => failed(&Error::new(
            ErrorKind::Unavailable,
            format!("the self-test failed: {error}"),
            "run it again with RUST_BACKTRACE=1 and report what it prints",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_another_takes_meanwhile_is_passed_over() {
        let mut others = Vec::new();
        let mut tried = Vec::new();
        let listen = |portal: SocketAddr| {
            tried.push(portal.port());
            if tried.len() < 3 {
                others.push(TcpListener::bind(portal));
                return Err(Error::invalid("it is taken", "try another"));
            }
            Ok(())
        };
        at_a_port(None, listen).expect("the third is free");
        assert!(tried.is_sorted_by(|a, b| a < b), "{tried:?}");
        assert_eq!(tried.len(), 3);
    }

    #[test]
    fn what_fails_at_a_port_that_stays_free_fails_once() {
        let mut tried = 0;
        let listen = |_| {
            tried += 1;
            Err(Error::invalid("no", "never"))
        };
        assert_eq!(at_a_port(None, listen).expect_err("it fails").message, "no");
        assert_eq!(tried, 1);
        let asked = at_a_port(Some(7), |portal| {
            assert_eq!(portal.port(), 7);
            Err(Error::invalid("asked for", "never"))
        });
        assert_eq!(asked.expect_err("no other").message, "asked for");
    }
}

//! `demo`: a pool on files, a volume, a logical unit, a target and a map, made and served by one
//! command.

mod existing;
mod folder;
mod portal;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;

use self::folder::Folder;
use self::portal::Wanted;
use crate::console::ConsoleOptions;
use crate::daemon::{Daemon, DaemonOptions, default_cache};
use block::budget::DEFAULT_MEMORY_CAP;
use cli::Connection;
use cli::demo::Args;
use cli::print::client_instructions::{Access, instructions, reachable};
use cli::serve::{catch_signals, failed};
use config::change::{AddMap, AddPortal, Change, CreateTarget, CreateUnit, NewVolume};
use control::transaction::Commit;
use control::{Author, ControlAddress};
use initiator::self_test;
use model::config::{AluaMode, BackendSpec, Config, TargetParameters, default_block_size};
use model::pool::create::CreatePool;
use model::pool::history::Deed;
use model::pool::status::PoolView;
use model::pool::vdev_request::{VdevKind, VdevRequest};
use model::quantity::format_size;
use model::{Error, ErrorKind};
use process::log::Format;

/// Default size of the volume, in bytes.
const DEFAULT_SIZE: u64 = 10 << 30;
/// Command in the histories.
const COMMAND: &str = "sandstone demo";
const UNIT: &str = "demo";
const POOL: &str = "tank";
const VOLUME: &str = "tank/demo";
/// Names of the two disks of the pool, in the state folder.
const DISKS: [&str; 2] = ["disk-a.img", "disk-b.img"];
const TARGET: &str = "iqn.2026-01.io.sandstone:demo";

/// Line of `--json`.
#[derive(Debug, Serialize)]
struct Served {
    url: String,
    portal: SocketAddr,
    target: String,
    lun: u16,
    control: String,
    /// Link that logs in at the console.
    console: Option<String>,
}

/// Runs until Ctrl-C, or with `--once` until the self-test is over.
pub(crate) fn run(args: &Args, connection: &Connection) -> ExitCode {
    let level = if args.once || args.json {
        "warn"
    } else {
        "info"
    };
    process::log::begin(level, Format::Text);
    let started = Folder::choose(args, connection).and_then(|folder| {
        let (daemon, access) = start(args, connection, &folder.path)?;
        Ok((folder, daemon, access))
    });
    match started {
        Ok((folder, daemon, access)) => serve(args, daemon, &access, &folder.path),
        Err(error) => failed(&error),
    }
}

fn start(args: &Args, connection: &Connection, state: &Path) -> Result<(Daemon, Access), Error> {
    let control = connection
        .control
        .clone()
        .unwrap_or_else(|| ControlAddress::Unix(state.join(control::address::SOCKET_NAME)));
    let daemon = Daemon::start(DaemonOptions {
        state: state.to_owned(),
        control,
        threads: args.threads.map(usize::from),
        memory_cap: DEFAULT_MEMORY_CAP,
        cache: default_cache(),
        io_uring: !args.no_io_uring,
        default_portals: Vec::new(),
        console: match args.once {
            true => ConsoleOptions::off(),
            false => ConsoleOptions::demo(),
        },
        history_clock: None,
        metrics: None,
    })?;
    let author = Arc::new(Author::here(COMMAND));
    match author.works(|| bring_up(args, &daemon, state)) {
        Ok(access) => Ok((daemon, access)),
        Err(error) => {
            daemon.stop();
            Err(error.not_changed("nothing is served"))
        }
    }
}

/// Makes missing parts of the demo, and moves it to the address wanted now.
fn bring_up(args: &Args, daemon: &Daemon, state: &Path) -> Result<Access, Error> {
    let wanted = Wanted::of(args);
    let config = daemon.transactions().config();
    if let Some(unit) = config.unit(UNIT) {
        existing::refuse_contradictions(args, daemon, unit, state)?;
    }
    match config.target(TARGET) {
        Some(_) if config.unit(UNIT).is_some() => move_portal(wanted, daemon)?,
        _ => {
            wanted.check()?;
            configure(args, wanted, daemon, state)?;
        }
    }
    access(&daemon.transactions().config())
}

/// Makes the pool, the unit, the target and the map, as far as an earlier demo did not make them.
fn configure(args: &Args, wanted: Wanted, daemon: &Daemon, state: &Path) -> Result<(), Error> {
    let config = daemon.transactions().config();
    if config.unit(UNIT).is_none() {
        make_unit(args, daemon, state)?;
    }
    if config.target(TARGET).is_none() {
        wanted.listen(|portal| {
            let target = CreateTarget {
                iqn: TARGET.into(),
                alias: "Sandstone demo".into(),
                portals: vec![portal],
                alua: AluaMode::default(),
                parameters: TargetParameters::default(),
            };
            commit(daemon, &Change::CreateTarget(target))
        })?;
    }
    if config.maps.iter().any(|map| map.unit == UNIT) {
        return Ok(());
    }
    let map = AddMap {
        unit: UNIT.into(),
        host: None,
        target: Some(TARGET.into()),
        lun: Some(0),
        read_only: false,
    };
    commit(daemon, &Change::AddMap(map))
}

fn make_unit(args: &Args, daemon: &Daemon, state: &Path) -> Result<(), Error> {
    let size = args.size.unwrap_or(DEFAULT_SIZE);
    let volume = match args.memory {
        Some(_) => None,
        None => {
            make_pool(size, daemon, state)?;
            Some(NewVolume {
                size,
                ..NewVolume::default()
            })
        }
    };
    let unit = CreateUnit {
        name: UNIT.into(),
        backend: match args.memory {
            Some(size) => BackendSpec::memory(size),
            None => BackendSpec::on_volume(VOLUME),
        },
        block_size: args.block_size.unwrap_or_else(default_block_size),
        physical_block_size: args.physical_block_size,
        new_volume: volume,
        write_cache: args.write_cache,
        read_only: false,
        thin: None,
        threshold_percent: None,
        naa: None,
        serial: None,
    };
    let made = daemon
        .plane()
        .create_unit(unit, &Commit::default(), &deed());
    made.map(|_| ())
}

/// Makes a mirror of two sparse files that can hold all of a volume of `size` bytes.
fn make_pool(size: u64, daemon: &Daemon, state: &Path) -> Result<(), Error> {
    if daemon.plane().pools.get(POOL).is_ok() {
        // An earlier demo made it already.
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

/// Returns the entry of the demo in the histories of pools.
fn deed() -> Deed {
    Deed {
        text: COMMAND.into(),
        ..Deed::default()
    }
}

/// Moves the target of an earlier demo to the address that the user names. If another program has
/// taken its port, the target moves to a free one.
fn move_portal(wanted: Wanted, daemon: &Daemon) -> Result<(), Error> {
    let Some(old) = access(&daemon.transactions().config())?
        .portals
        .first()
        .copied()
    else {
        return Ok(());
    };
    let portals = daemon.transactions().data_plane().portals();
    let taken = portals.iter().any(|portal| portal.error.is_some());
    match wanted.named() {
        Some(named) if named == old && taken => return wanted.check(),
        Some(named) if named == old => return Ok(()),
        Some(_) => wanted.check()?,
        None if !taken => return Ok(()),
        None => {}
    }
    let mut moved_to = None;
    wanted.listen(|portal| {
        let add = AddPortal {
            portal,
            tag: 1,
            target_port_group: None,
            alua_state: None,
        };
        commit(daemon, &Change::AddPortal(TARGET.into(), add))?;
        moved_to = Some(portal);
        Ok(())
    })?;
    if let Some(to) = moved_to {
        tracing::info!(from = %old, %to, "the demo moved to another portal");
    }
    commit(daemon, &Change::RemovePortal(TARGET.into(), old))
}

fn commit(daemon: &Daemon, change: &Change) -> Result<(), Error> {
    let committed = daemon.transactions().commit(change, &Commit::default());
    committed.map(|_| ())
}

fn access(config: &Config) -> Result<Access, Error> {
    let broken = || {
        Error::not_found(
            "the demo's target or logical unit is not in this state folder",
            "use another state folder with --state",
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
            "restore the missing parts, or use another state folder with --state",
        )
        .not_changed("nothing is served");
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
            "stop the program that listens there, or use another --state and --port",
        )
        .not_changed("nothing is served");
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
        let access = reached(access);
        let served = Served {
            url: access.url(),
            portal: access.portals.first().copied().unwrap_or(portal),
            target: access.target.clone(),
            lun: access.lun,
            control: daemon.control().to_string(),
            console: daemon.console_link(),
        };
        println!("{}", serde_json::json!(served));
    } else {
        announce(&reached(access), portal, state, &daemon);
    }
    daemon.run_until(signals);
    ExitCode::SUCCESS
}

/// Returns the access with addresses that other machines reach.
fn reached(access: &Access) -> Access {
    let portals = access.portals.iter().map(|portal| reachable(*portal));
    Access {
        portals: portals.collect(),
        ..access.clone()
    }
}

fn announce(access: &Access, portal: SocketAddr, state: &Path, daemon: &Daemon) {
    // The unit may be an earlier demo's.
    let config = daemon.transactions().config();
    let size = daemon.transactions().data_plane().units().into_iter();
    let size = size.map(|unit| format_size(unit.size)).next();
    let size = size.unwrap_or_default();
    let what = match config.unit(UNIT).map(|unit| &unit.backend) {
        Some(memory) if memory.is_volatile() => format!("{size} of memory"),
        Some(backend) => match (backend.volume(), backend.size(), backend.place()) {
            (Some(volume), ..) => format!(
                "{volume}, a thin volume of {size} in a pool mirrored over two files in {},",
                state.display()
            ),
            (None, Some(_), _) => format!("a thin volume of {size} in {}", state.display()),
            (None, None, place) => place.unwrap_or(state).display().to_string(),
        },
        None => state.display().to_string(),
    };
    println!("Serving {what} as");
    println!("    {}", access.url());
    if !portal.ip().is_loopback() {
        println!("Every host that reaches {portal} can read and write it.");
    }
    println!();
    print!("{}", instructions(access, None));
    if let Some(link) = daemon.console_link() {
        println!("Open the console, which asks once whether to trust its certificate:");
        println!("    {link}");
        println!();
    }
    println!("Control it from another terminal:");
    for verb in verbs(&config) {
        println!("    sandstone --control {} {verb}", daemon.control());
    }
    println!();
    println!("Ctrl-C ends it.");
}

/// Returns verbs to look at first.
fn verbs(config: &Config) -> Vec<&'static str> {
    let volume = config.unit(UNIT).and_then(|unit| unit.backend.volume());
    match volume {
        Some(_) => vec!["session list", "pool status", "volume list"],
        None => vec!["session list"],
    }
}

fn self_test(args: &Args, daemon: Daemon, portal: SocketAddr) -> ExitCode {
    let result = self_test::run(portal, TARGET);
    // A pool that has stopped knows the reason, but only as long as it is open.
    let pool = daemon.plane().pools.view(POOL).ok();
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
        Err(error) => failed(&self_test_failed(&error, pool.as_ref())),
    }
}

/// Returns the error of a self-test that failed. A pool that is not well is the likely reason.
fn self_test_failed(error: &io::Error, pool: Option<&PoolView>) -> Error {
    let unwell = pool.and_then(|pool| Some((pool, pool.status.as_ref()?)));
    let (reason, next) = match unwell {
        Some((pool, status)) => (
            format!(". Pool {} is {}: {status}", pool.name, pool.state),
            pool.action.clone(),
        ),
        None => (String::new(), None),
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("the self-test failed: {error}{reason}"),
        next.unwrap_or_else(|| {
            "see what the daemon logged above; \
             another folder for the demo's files may do: --state DIR"
                .to_owned()
        }),
    )
    .not_changed("only the blocks of the demo's unit that the test writes may have changed")
}

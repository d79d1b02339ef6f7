//! The verbs of `pool` that change its vdevs and devices, or verify it, in zpool's manner.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use serde::Serialize;

use super::super::{Connection, Done, Terminal};
use super::absolute;
use super::layout::layout;
use super::named_vdevs::NamedVdevs;
use super::waiting;
use crate::grammar::completion::{pool_names, size, vdev_names};
use crate::print::table::{Column, ListArgs, Numbers, extra, left, print};
use control::endpoint::pool;
use model::pool::history::Happening;
use model::pool::scan::{self, ScrubAction};
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;
use model::pool::vdev_change::VdevChange;
use model::{Error, ErrorKind};

#[derive(Debug, Args)]
pub(in super::super) struct Scrub {
    /// Stop the scrub
    #[arg(short = 's', long, conflicts_with_all = ["pause", "wait"])]
    stop: bool,
    /// Pause the scrub; `pool scrub` resumes it
    #[arg(short = 'p', long, conflicts_with = "wait")]
    pause: bool,
    /// Return when the scrub is done
    #[arg(short = 'w', long)]
    wait: bool,
    /// Name of the pool
    #[arg(add = pool_names())]
    pool: String,
}

#[derive(Debug, Args)]
pub(in super::super) struct Device {
    /// Name of the pool
    #[arg(add = pool_names())]
    pool: String,
    /// Device: its path, the last part of its path, or its number
    #[arg(add = vdev_names())]
    device: String,
}

#[derive(Debug, Args)]
pub(in super::super) struct Devices {
    /// Name of the pool
    #[arg(add = pool_names())]
    pool: String,
    /// Devices: their paths, the last parts of their paths, or their numbers
    #[arg(required = true, value_name = "DEVICE", add = vdev_names())]
    devices: Vec<String>,
}

#[derive(Debug, Args)]
pub(in super::super) struct Online {
    /// Use all of the space that the devices have by now
    #[arg(short = 'e', long)]
    expand: bool,
    #[command(flatten)]
    which: Devices,
}

#[derive(Debug, Args)]
pub(in super::super) struct NewDevice {
    /// Use a device that holds another pool's labels, a file system or other data
    #[arg(short = 'f', long)]
    force: bool,
    /// Make a file of this size if the path does not exist
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Return when the device is resilvered
    #[arg(short = 'w', long)]
    wait: bool,
}

#[derive(Debug, Args)]
pub(in super::super) struct Attach {
    #[command(flatten)]
    how: NewDevice,
    #[command(flatten)]
    to: Device,
    /// New device
    #[arg(value_hint = ValueHint::FilePath)]
    new: PathBuf,
}

#[derive(Debug, Args)]
pub(in super::super) struct Replace {
    #[command(flatten)]
    how: NewDevice,
    #[command(flatten)]
    old: Device,
    /// New device, or a spare; without it, another device at the old path
    #[arg(value_hint = ValueHint::FilePath)]
    new: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in super::super) struct Add {
    /// Use devices that hold another pool's labels, a file system or other data, and vdevs that
    /// differ in redundancy
    #[arg(short = 'f', long)]
    force: bool,
    /// Show only how the pool would be laid out; change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Make files of this size if paths do not exist
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Name of the pool
    #[arg(add = pool_names())]
    pool: String,
    /// Devices and files; `mirror`, `raidz1`, `raidz2` or `raidz3` before those that form one vdev;
    /// `log` before those that answer durable writes, `cache` before those that keep what memory
    /// gives up, `spare` before those that stand ready
    #[arg(required = true, value_name = "VDEV", value_hint = ValueHint::FilePath)]
    vdevs: Vec<String>,
}

#[derive(Debug, Args)]
pub(in super::super) struct Clear {
    /// Name of the pool
    #[arg(add = pool_names())]
    pool: String,
    /// Devices whose errors are cleared [default: all]
    #[arg(value_name = "DEVICE", add = vdev_names())]
    devices: Vec<String>,
}

#[derive(Debug, Args)]
pub(in super::super) struct Events {
    /// Pools to show; without a name, all
    #[arg(add = pool_names())]
    pools: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

/// Time within which a resilver that follows another one has begun.
const PATIENCE: Duration = Duration::from_secs(5);

fn send(connection: &Connection, pool: &str, change: &VdevChange) -> Result<PoolView, Error> {
    connection
        .client()
        .ask(&pool::CHANGE_VDEVS, &[pool], &(), change)
}

pub(in super::super) fn scrub(connection: &Connection, args: &Scrub) -> Done {
    let action = match (args.stop, args.pause) {
        (true, _) => ScrubAction::Stop,
        (_, true) => ScrubAction::Pause,
        _ => ScrubAction::Start,
    };
    let request = scan::Scrub { action };
    let client = connection.client();
    client.ask(&pool::SCRUB, &[&args.pool], &(), &request)?;
    if args.wait {
        wait_for_scan(connection, &args.pool)?;
    }
    Ok(())
}

/// Waits until no scrub or resilver is at work, and no scrub waits for its turn.
fn wait_for_scan(connection: &Connection, pool: &str) -> Result<(), Error> {
    loop {
        let view: PoolView = connection.client().call(&pool::SHOW, &[pool])?;
        if !view.scan_status.as_ref().is_some_and(is_at_work) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

pub(in super::super) fn offline(connection: &Connection, args: Devices) -> Done {
    let devices = named(args.devices)?;
    send(connection, &args.pool, &VdevChange::Offline { devices })?;
    Ok(())
}

pub(in super::super) fn online(connection: &Connection, args: Online) -> Done {
    let change = VdevChange::Online {
        devices: named(args.which.devices)?,
        expand: args.expand,
    };
    send(connection, &args.which.pool, &change)?;
    Ok(())
}

pub(in super::super) fn attach(connection: &Connection, args: Attach) -> Done {
    let change = VdevChange::Attach {
        device: name(args.to.device)?,
        new: absolute(&args.new)?,
        force: args.how.force,
        file_size: args.how.size,
    };
    bring(connection, &args.to.pool, &change, args.how.wait)
}

pub(in super::super) fn replace(connection: &Connection, args: Replace) -> Done {
    let new = args.new.as_deref().map(absolute).transpose()?;
    let change = VdevChange::Replace {
        device: name(args.old.device)?,
        new,
        force: args.how.force,
        file_size: args.how.size,
    };
    bring(connection, &args.old.pool, &change, args.how.wait)
}

/// Makes a change that adds a device. Waits until the device is whole, if the user asked for that.
fn bring(connection: &Connection, pool: &str, change: &VdevChange, is_awaited: bool) -> Done {
    if !is_awaited {
        send(connection, pool, change)?;
        return Ok(());
    }
    let before: PoolView = connection.client().call(&pool::SHOW, &[pool])?;
    let after = send(connection, pool, change)?;
    let before: Vec<&String> = leaves(&before)
        .filter_map(|leaf| leaf.guid.as_ref())
        .collect();
    let mut new = leaves(&after).filter_map(|leaf| leaf.guid.clone());
    let Some(guid) = new.find(|guid| !before.contains(&guid)) else {
        return Ok(());
    };
    let mut until = Instant::now() + PATIENCE;
    loop {
        let view: PoolView = connection.client().call(&pool::SHOW, &[pool])?;
        let is_running = view.scan_status.as_ref().is_some_and(is_at_work);
        let leaf = leaves(&view).find(|leaf| leaf.guid.as_ref() == Some(&guid));
        let message = match leaf {
            Some(leaf) if leaf.is_incomplete => {
                format!(
                    "the device is {}, and its data is still incomplete",
                    leaf.state
                )
            }
            Some(leaf) if !["ONLINE", "DEGRADED"].contains(&leaf.state.as_str()) => {
                format!("the device is {}", leaf.state)
            }
            Some(_) if is_running => String::new(),
            Some(_) => return Ok(()),
            None => "the device was removed before its data was complete".to_owned(),
        };
        if is_running {
            until = Instant::now() + PATIENCE;
        } else if leaf.is_none() || Instant::now() >= until {
            let next = format!("see `sandstone pool status -v {pool}`");
            return Err(Error::new(ErrorKind::Unavailable, message, next)
                .not_changed("the pool serves its data as before")
                .into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn leaves(view: &PoolView) -> impl Iterator<Item = &VdevView> {
    let tops = view.vdevs.iter().chain(&view.logs);
    tops.flat_map(VdevView::all)
        .filter(|vdev| vdev.guid.is_some())
}

/// Reports whether a scrub or resilver is at work, or a scrub waits for its turn.
fn is_at_work(scan: &scan::ScanView) -> bool {
    scan.state == "running" || scan.is_scrub_waiting
}

pub(in super::super) fn detach(connection: &Connection, args: Device) -> Done {
    let device = name(args.device)?;
    send(connection, &args.pool, &VdevChange::Detach { device })?;
    Ok(())
}

pub(in super::super) fn add(t: &mut Terminal<'_>, connection: &Connection, args: &Add) -> Done {
    let named = NamedVdevs::read(&args.vdevs)?;
    let change = VdevChange::Add {
        vdevs: named.vdevs,
        logs: named.logs,
        caches: named.caches,
        spares: named.spares,
        force: args.force,
        file_size: args.size,
        dry_run: args.dry_run,
    };
    let pool = send(connection, &args.pool, &change)?;
    if args.dry_run {
        write!(t.out, "{}", layout("would update", &pool))?;
    }
    Ok(())
}

pub(in super::super) fn remove(connection: &Connection, args: Devices) -> Done {
    let devices = named(args.devices)?;
    send(connection, &args.pool, &VdevChange::Remove { devices })?;
    Ok(())
}

pub(in super::super) fn clear(t: &mut Terminal<'_>, connection: &Connection, args: Clear) -> Done {
    let devices = named(args.devices)?;
    waiting::told(t, connection, || {
        send(connection, &args.pool, &VdevChange::Clear { devices })
    })?;
    Ok(())
}

fn named(words: Vec<String>) -> Result<Vec<String>, Error> {
    words.into_iter().map(name).collect()
}

/// Returns a device as the daemon expects it: a path in full, anything else as typed.
pub(super) fn name(word: String) -> Result<String, Error> {
    if !word.contains('/') {
        return Ok(word);
    }
    let path = absolute(Path::new(&word))?;
    Ok(path.display().to_string())
}

pub(in super::super) fn events(
    t: &mut Terminal<'_>,
    connection: &Connection,
    args: &Events,
) -> Done {
    let mut pools = args.pools.clone();
    if pools.is_empty() {
        let all: Vec<PoolView> = connection.client().call(&pool::LIST, &[])?;
        let open = all.into_iter().filter(|pool| pool.open_for_us.is_some());
        pools.extend(open.map(|pool| pool.name));
    }
    let mut rows = Vec::new();
    for pool in &pools {
        let events: Vec<Happening> = connection.client().call(&pool::EVENTS, &[pool])?;
        rows.extend(events.into_iter().map(|event| EventRow {
            pool: pool.clone(),
            event,
        }));
    }
    rows.sort_by_key(|row| row.event.time_s);
    let none = "no events since the pools were opened";
    let pool: Column<EventRow> = left("pool", |row, _| row.pool.clone());
    let pool = match args.pools.len() {
        1 => extra(pool),
        _ => pool,
    };
    let columns = [
        left("time", |row: &EventRow, numbers| match numbers {
            Numbers::Short => model::date::utc(row.event.time_s),
            Numbers::Exact => row.event.time_s.to_string(),
        }),
        pool,
        left("event", |row, _| row.event.text.clone()),
    ];
    print(t, &args.list, &columns, &rows, none)
}

/// Event of a pool.
#[derive(Debug, Serialize)]
struct EventRow {
    pool: String,
    #[serde(flatten)]
    event: Happening,
}

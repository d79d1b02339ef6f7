//! `lu`: logical units.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::edit::{EditArgs, Request, make, remove};
use super::gateway::{self, Remote, remote};
use super::{Connection, Done, Failure, Terminal};
use crate::grammar::completion::{lu_names, size};
use crate::print::hindrances::{self, Clear};
use crate::print::table::{Column, ListArgs, extra, left, or_dash, print, right};
use config::change::{CreateUnit, ModifyUnit, NewVolume};
use control::Client;
use control::answer::UnitView;
use control::endpoint::{lu, pool};
use model::config::BackendSpec;
use model::hindrance::HindranceKind;
use model::pool::status::PoolView;
use model::quantity::format_size;
use model::{Error, ErrorKind};

#[derive(Debug, Subcommand)]
pub(super) enum LuVerb {
    /// Make a logical unit: on a volume of the pool, over a file, a block device, memory or another
    /// array
    Create(Create),
    /// Change a logical unit, live
    Modify(Modify),
    /// Serve a logical unit again
    Online(Named),
    /// Stop serving a logical unit; initiators are told, the data stays
    Offline(Named),
    /// End a state that stops its I/O: a stop, a write protection, reservations, ALUA states that
    /// initiators chose, a failed SANITIZE, lost writes
    Clear(Clear),
    /// List logical units, and the states that stop or refuse their I/O
    #[command(visible_alias = "show")]
    List(List),
    /// Remove a logical unit; the volume, file or device behind it stays
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Name of the logical unit
    name: String,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    edit: EditArgs,
}

/// Make-up of a logical unit; also used by `share`.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Shape {
    /// Capacity, as in 10G (K, M, G, T are powers of 1024); not for a device. Given alone, it makes
    /// the volume POOL/NAME in the pool
    #[arg(short, long, value_parser = size)]
    pub(super) size: Option<u64>,
    /// Use this volume of a pool, as in tank/vm1, or with --size make it; a snapshot, as in
    /// tank/vm1@monday, is read-only
    #[arg(
        long = "volume",
        id = "pool_volume",
        value_name = "POOL/NAME",
        group = "made_of"
    )]
    volume: Option<String>,
    /// volblocksize of a new volume: size of the pieces that it is stored and checked in [default:
    /// 16K, on raidz 64K]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "size", conflicts_with_all = ["file", "device", "backend", "memory"])]
    volblocksize: Option<u64>,
    /// Keep the data in a file; a relative path is below the state folder [without a path:
    /// volumes/NAME.img]
    #[arg(long, value_name = "PATH", num_args = 0..=1, group = "made_of")]
    file: Option<Option<PathBuf>>,
    /// Use this block device: a disk, a partition, a zvol
    #[arg(long, value_name = "PATH", group = "made_of", conflicts_with = "size")]
    device: Option<PathBuf>,
    /// Serve a device of another machine on: its name (naa.…), or iscsi://HOST[:PORT]/IQN/LUN,
    /// which logs in to the target; options after a ? are those of the login and the device
    #[arg(long, value_name = "NAME|URL", group = "made_of", conflicts_with_all = ["size", "preallocate"], value_parser = remote, add = crate::grammar::completion::device_names())]
    backend: Option<Remote>,
    /// Keep the data in memory; it vanishes with the daemon
    #[arg(long, group = "made_of")]
    memory: bool,
    /// Reserve the space of the volume or file now instead of at its first write
    #[arg(long, requires = "size", conflicts_with_all = ["device", "memory"])]
    preallocate: bool,
    /// Logical block size; 4096 is not accepted by ESXi
    #[arg(long, value_name = "512|4096", default_value = "512", value_parser = size)]
    block_size: u64,
    /// Physical block size: the bytes that the storage below writes as a whole [default: the
    /// device's or volume's, at most 4K, above which ESXi and SQL Server support none]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    physical_block_size: Option<u64>,
    /// Acknowledge writes from volatile cache (flushes and FUA are still obeyed)
    #[arg(long)]
    write_cache: bool,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Offer UNMAP so that clients can give space back [default: yes, unless preallocated]
    #[arg(long, value_name = "yes|no", value_parser = yes_no)]
    thin: Option<bool>,
    /// Warn initiators when this share of the space is in use, in percent
    #[arg(long, value_name = "PERCENT")]
    threshold: Option<u8>,
    /// Take over this NAA type 6 designator from another target
    #[arg(long)]
    naa: Option<String>,
    /// Take over this serial number from another target
    #[arg(long)]
    serial: Option<String>,
}

impl Shape {
    /// Reports whether the command line says what to make.
    pub(super) fn given(&self) -> bool {
        self.size.is_some()
            || self.device.is_some()
            || self.backend.is_some()
            || self.volume.is_some()
    }

    /// Returns the device that `--backend` names.
    pub(super) fn remote_device(
        &self,
        client: &Client,
        edit: &EditArgs,
        t: &mut Terminal<'_>,
    ) -> Result<Option<String>, Failure> {
        let remote = self.backend.as_ref();
        remote
            .map(|remote| gateway::find(remote, client, edit, t))
            .transpose()
    }

    /// Returns the request for the unit. `device` is the other machine's device to lie on, if any.
    pub(super) fn unit(
        &self,
        name: &str,
        device: Option<String>,
        client: &Client,
    ) -> Result<CreateUnit, Error> {
        let mut new_volume = None;
        let backend = match (&self.device, &self.file) {
            _ if device.is_some() => BackendSpec::remote_disk(device.unwrap_or_default()),
            (Some(path), _) => BackendSpec::device(path),
            (None, Some(path)) => {
                let path = path
                    .clone()
                    .unwrap_or_else(|| PathBuf::from(format!("volumes/{name}.img")));
                let size = self.needed_size(name)?;
                match self.preallocate {
                    true => BackendSpec::reserved_file(path, size),
                    false => BackendSpec::file(path, size),
                }
            }
            (None, None) if self.memory => BackendSpec::memory(self.needed_size(name)?),
            (None, None) => {
                let volume = match &self.volume {
                    Some(volume) => volume.clone(),
                    None => {
                        let size = self.needed_size(name)?;
                        format!("{}/{name}", only_pool(client, name, size)?)
                    }
                };
                new_volume = self.new_volume()?;
                BackendSpec::on_volume(volume)
            }
        };
        let physical = self.physical_block_size;
        Ok(CreateUnit {
            name: name.to_owned(),
            backend,
            block_size: small("block size", self.block_size)?,
            physical_block_size: physical
                .map(|bytes| small("physical block size", bytes))
                .transpose()?,
            new_volume,
            write_cache: self.write_cache,
            read_only: self.read_only,
            thin: self.thin,
            threshold_percent: self.threshold,
            naa: self.naa.clone(),
            serial: self.serial.clone(),
        })
    }

    fn needed_size(&self, name: &str) -> Result<u64, Error> {
        self.size.ok_or_else(|| {
            Error::invalid(
                format!("logical unit {name} needs a size"),
                format!("sandstone lu create {name} --size 10G"),
            )
        })
    }

    /// Returns the volume to make, if a size asks for one.
    fn new_volume(&self) -> Result<Option<NewVolume>, Error> {
        let Some(size) = self.size else {
            return Ok(None);
        };
        let block_size = self.volblocksize.map(|bytes| small("volblocksize", bytes));
        Ok(Some(NewVolume {
            size,
            block_size: block_size.transpose()?,
            reserve: self.preallocate,
        }))
    }
}

/// Returns the pool for a new volume if the command line names none.
fn only_pool(client: &Client, name: &str, size: u64) -> Result<String, Error> {
    let size = format_size(size);
    if let Some((_, unit)) = name.rsplit_once('/').filter(|(_, unit)| !unit.is_empty()) {
        return Err(Error::invalid(
            format!("{name} is the name of a volume, not of a logical unit"),
            format!("sandstone lu create {unit} --volume {name} --size {size}"),
        ));
    }
    let pools: Vec<PoolView> = client.call(&pool::LIST, &[])?;
    match pools.as_slice() {
        [pool] => Ok(pool.name.clone()),
        [] => Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no pool for the volume of logical unit {name}"),
            format!(
                "make one (sandstone pool create tank mirror DISK DISK), or keep the data in a file: sandstone lu create {name} --file --size {size}"
            ),
        )),
        [first, ..] => {
            let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
            Err(Error::invalid(
                format!(
                    "there are several pools ({}), and none is named for the volume of logical unit {name}",
                    names.join(", ")
                ),
                format!(
                    "sandstone lu create {name} --volume {}/{name} --size {size}",
                    first.name
                ),
            ))
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Modify {
    /// Name of the logical unit
    #[arg(add = lu_names())]
    name: String,
    /// New, larger capacity
    #[arg(short, long, value_parser = size)]
    size: Option<u64>,
    /// Acknowledge writes from volatile cache
    #[arg(long, value_name = "yes|no", value_parser = yes_no)]
    write_cache: Option<bool>,
    /// Refuse writes
    #[arg(long, value_name = "yes|no", value_parser = yes_no)]
    read_only: Option<bool>,
    /// Soft threshold in percent; 0 turns it off
    #[arg(long, value_name = "PERCENT")]
    threshold: Option<u8>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    edit: EditArgs,
}

/// New place of a logical unit's data. The unit's NAA, serial number and maps stay.
#[derive(Debug, Default, Args)]
#[group(id = "place", multiple = false)]
struct Place {
    /// Point it to this volume of a pool, or to a snapshot if the logical unit is read-only
    #[arg(long = "volume", id = "other_volume", value_name = "POOL/NAME")]
    volume: Option<String>,
    /// Point it to this existing file; a relative path is below the state folder
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Point it to this block device
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// Point it to this device of another machine: its name (naa.…), or iscsi://HOST[:PORT]/IQN/LUN
    #[arg(long, value_name = "NAME|URL", value_parser = remote, add = crate::grammar::completion::device_names())]
    backend: Option<Remote>,
}

impl Place {
    fn backend(
        self,
        client: &Client,
        edit: &EditArgs,
        t: &mut Terminal<'_>,
    ) -> Result<Option<BackendSpec>, Failure> {
        if let Some(remote) = &self.backend {
            let device = gateway::find(remote, client, edit, t)?;
            return Ok(Some(BackendSpec::remote_disk(device)));
        }
        let volume = self.volume.map(BackendSpec::on_volume);
        // The daemon looks for the size.
        let file = self.file.map(|path| BackendSpec::file(path, 0));
        let device = self.device.map(BackendSpec::device);
        Ok(volume.or(file).or(device))
    }
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// Name of the logical unit
    #[arg(add = lu_names())]
    name: String,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Logical units to list [default: all]
    #[arg(add = lu_names())]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Name of the logical unit
    #[arg(add = lu_names())]
    name: String,
    #[command(flatten)]
    removal: EditArgs,
}

pub(super) fn run(verb: LuVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        LuVerb::Create(args) => {
            let device = args.shape.remote_device(&client, &args.edit, t)?;
            let body = args.shape.unit(&args.name, device, &client)?;
            let request = Request::with(&lu::CREATE, &[], &body);
            make(t, &client, &args.edit, &request)
        }
        LuVerb::Modify(args) => {
            let body = ModifyUnit {
                size: args.size,
                write_cache: args.write_cache,
                read_only: args.read_only,
                threshold_percent: args.threshold,
                offline: None,
                backend: args.place.backend(&client, &args.edit, t)?,
            };
            modify(t, connection, &args.name, &args.edit, &body)
        }
        LuVerb::Online(args) => {
            let body = ModifyUnit {
                offline: Some(false),
                ..ModifyUnit::default()
            };
            modify(t, connection, &args.name, &args.edit, &body)
        }
        LuVerb::Offline(args) => {
            let body = ModifyUnit {
                offline: Some(true),
                ..ModifyUnit::default()
            };
            modify(t, connection, &args.name, &args.edit, &body)
        }
        LuVerb::Clear(args) => hindrances::clear(&args, connection, t),
        LuVerb::List(args) => list(t, connection, &args),
        LuVerb::Delete(args) => delete(t, connection, &args),
    }
}

fn modify(
    t: &mut Terminal<'_>,
    connection: &Connection,
    name: &str,
    edit: &EditArgs,
    body: &ModifyUnit,
) -> Done {
    let request = Request::with(&lu::MODIFY, &[name], body);
    make(t, &connection.client(), edit, &request)
}

fn list(t: &mut Terminal<'_>, connection: &Connection, args: &List) -> Done {
    let client = connection.client();
    let units: Vec<UnitView> = match args.names.as_slice() {
        [] => client.call(&lu::LIST, &[])?,
        names => names
            .iter()
            .map(|name| client.call(&lu::SHOW, &[name]))
            .collect::<Result<_, _>>()?,
    };
    print(
        t,
        &args.list,
        &COLUMNS,
        &units,
        "no logical units; make one with `sandstone lu create NAME --size 10G`",
    )?;
    if args.list.is_for_people() {
        let found = units.iter().flat_map(|unit| {
            let name = unit.spec.name.as_str();
            unit.status.hindrances.iter().map(move |it| (name, it))
        });
        for line in hindrances::lines(found) {
            writeln!(t.err, "{line}")?;
        }
    }
    Ok(())
}

fn delete(t: &mut Terminal<'_>, connection: &Connection, args: &Delete) -> Done {
    let client = connection.client();
    let at = [args.name.as_str()];
    let view: UnitView = client.call(&lu::SHOW, &at)?;
    let backend = &view.spec.backend;
    let grave = backend.is_volatile();
    if grave && !args.removal.yes {
        writeln!(
            t.err,
            "{} is in memory: its data is lost with it.",
            args.name
        )?;
    }
    remove(
        t,
        &client,
        &args.removal,
        &Request::bare(&lu::DELETE, &at),
        grave,
    )?;
    // A disk of another machine was never here.
    let place = backend
        .place()
        .filter(|_| backend.disk_of_initiator().is_none());
    let Some(place) = place.filter(|_| !args.removal.dry_run && !args.removal.json) else {
        return Ok(());
    };
    let place = place.display();
    match &view.status.fault {
        None => writeln!(t.err, "its data stays in {place}")?,
        // The unit was not served, so nobody has seen its data.
        Some(fault) => writeln!(t.err, "the unit was not served from {place}: {fault}")?,
    }
    Ok(())
}

const COLUMNS: [Column<UnitView>; 20] = [
    left("name", |u, _| u.spec.name.clone()),
    right("size", |u, n| n.size(u.status.size)),
    right("used", |u, n| {
        u.status.allocated.map_or("-".into(), |b| n.size(b))
    }),
    left("state", |u, _| state(u)),
    left("backend", |u, _| u.spec.backend.to_string()),
    right("block", |u, _| u.spec.block_size.to_string()),
    right("maps", |u, _| u.maps.len().to_string()),
    left("naa", |u, _| format!("naa.{}", u.spec.naa)),
    extra(left("serial", |u, _| u.spec.serial.clone())),
    extra(right("physical", |u, n| {
        let told = u.status.physical_block_size;
        n.size(told.unwrap_or(u.spec.physical_block_size).into())
    })),
    extra(right("avail", |u, n| {
        u.status.available.map_or("-".into(), |b| n.size(b))
    })),
    extra(left("cache", |u, _| {
        if u.status.write_cache {
            "write-back"
        } else {
            "write-through"
        }
        .into()
    })),
    extra(left("thin", |u, _| {
        if u.spec.thin { "yes" } else { "no" }.into()
    })),
    extra(right("threshold", |u, _| {
        u.spec
            .threshold_percent
            .map_or("-".into(), |p| format!("{p}%"))
    })),
    extra(right("reads", |u, _| u.status.reads.to_string())),
    extra(right("writes", |u, _| u.status.writes.to_string())),
    extra(right("errors", |u, _| u.status.errors.to_string())),
    extra(left("reservation", |u, _| {
        or_dash(u.status.reservation.as_deref().unwrap_or_default())
    })),
    extra(left("hindrances", |u, _| {
        let words = u.status.hindrances.iter().map(|it| it.kind.word());
        or_dash(&words.collect::<Vec<_>>().join(","))
    })),
    extra(left("remedy", |u, _| {
        or_dash(u.status.remedy.as_deref().unwrap_or_default())
    })),
];

fn state(unit: &UnitView) -> String {
    let is_read_only = unit.spec.read_only || unit.status.read_only;
    let mut state = match (&unit.status.fault, unit.status.online, is_read_only) {
        (Some(fault), ..) => return format!("fault: {fault}"),
        (None, false, _) => "offline".to_owned(),
        (None, true, true) => "online,ro".to_owned(),
        (None, true, false) => "online".to_owned(),
    };
    for hindrance in &unit.status.hindrances {
        if is_out_of_order(hindrance.kind) {
            state.push(',');
            state.push_str(hindrance.kind.word());
        }
    }
    state
}

/// Reports whether the state stops everybody without an administrator's wish, and is not one that
/// clusters set every day.
fn is_out_of_order(kind: HindranceKind) -> bool {
    matches!(
        kind,
        HindranceKind::Stopped
            | HindranceKind::LostWrites
            | HindranceKind::Sanitize
            | HindranceKind::SanitizeFailed
            | HindranceKind::Full
    )
}

fn small(what: &str, bytes: u64) -> Result<u32, Error> {
    u32::try_from(bytes).map_err(|_| {
        Error::invalid(
            format!("a {what} of {bytes} bytes is too large"),
            "use 512 or 4096",
        )
    })
}

/// Reads yes or no, and the words that other tools use for them.
pub(super) fn yes_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "on" | "true" | "1" => Ok(true),
        "no" | "off" | "false" | "0" => Ok(false),
        _ => Err("write yes or no".into()),
    }
}

//! `pool reguid`: makes a copy of a pool's devices a pool of its own, so that one machine can use
//! both.
//!
//! The store (`Reguid`) decides what the labels become, and what a power cut leaves of the change.
//! This file opens the devices exclusively and writes their labels in the store's order: one round
//! on all devices, a flush of each device, then the other round.

use std::path::PathBuf;
use std::sync::Arc;

use pages::Pages;
use store::engine::reguid::{NewIdentity, Reguid};
use store::engine::{LeafLabels, OpenError, OpenErrorKind, PoolConfig, torn_identity};
use store::format::label::LABEL_SIZE;

use super::found::{Candidate, describe};
use super::twins::options;
use crate::devices::identity::{Located, locate};
use crate::devices::label;
use crate::devices::system::key;
use crate::import::request::open_all;
use crate::random_u64;
use crate::registry::Pools;
use block::lane::ask;
use block::{BlockDevice, BlockError, Request};
use model::device_name::is_remote;
use model::pool::reguid::{ReguidPool, ReguidView};
use model::{Error, ErrorKind};

/// Device of the copy, opened exclusively.
struct Own {
    path: PathBuf,
    device: Arc<dyn BlockDevice>,
    labels: LeafLabels,
}

impl Pools {
    /// Gives a new identity to a copy of a pool that is not open.
    ///
    /// # Errors
    /// A refusal or a failed write. If labels could not be written, a repeated request goes on with
    /// the change.
    pub fn reguid(&self, request: &ReguidPool) -> Result<ReguidView, Error> {
        let _changing = self.changing();
        if let Some(new) = &request.new_name {
            self.check_name(new)?;
        }
        self.check_named(request)?;
        let devices = self.open_copies(request)?;
        let (guid, config) = meant(&devices, request)?;
        self.check_owner(&config, request.force)?;
        let labels: Vec<LeafLabels> = devices.iter().map(|own| own.labels.clone()).collect();
        let is_torn = labels.iter().any(|labels| torn_identity(labels).is_some());
        let candidates: Vec<Candidate> = devices.iter().map(Candidate::from).collect();
        let described = describe(guid, &candidates);
        if let Some(problem) = described.problem.filter(|_| !is_torn) {
            return Err(Error::new(
                ErrorKind::Refused,
                format!("the named devices do not form a pool that can be opened: {problem}"),
                "name all devices of the copy, each with -d, and no device of the original",
            ));
        }
        let new = NewIdentity {
            guid: random_u64(),
            name: request.new_name.clone(),
            host: self.host_id(),
            paths: request
                .paths
                .iter()
                .map(|at| at.display().to_string())
                .collect(),
        };
        let plan = Reguid::plan(&labels, guid, new).map_err(|error| unplanned(request, &error))?;
        write(&devices, &plan).map_err(|(own, error)| {
            label::failed("write", &own.path, error).not_changed(
                "some labels already have the new number, and the pool does not open before all of them have \
                 it: run this command again",
            )
        })?;
        Ok(ReguidView {
            name: plan.config.name.clone(),
            guid: format!("{:016x}", plan.config.guid),
            was: format!("{guid:016x}"),
            devices: devices.into_iter().map(|own| own.path).collect(),
            missing: if is_torn {
                Vec::new()
            } else {
                described.missing
            },
            is_continued: plan.is_continued,
        })
    }

    /// Refuses folders, and devices that this machine does not know as copies.
    fn check_named(&self, request: &ReguidPool) -> Result<(), Error> {
        let pool = &request.pool;
        if request.paths.is_empty() {
            return Err(Error::invalid(
                "no device of the copy is named",
                format!(
                    "name each device of the copy: `sandstone pool reguid -d PATH {pool} NEWNAME`"
                ),
            ));
        }
        if let Some(folder) = request.paths.iter().find(|path| path.is_dir()) {
            let found = self.importable(std::slice::from_ref(folder)).into_iter();
            let inside = found.filter(|of| of.name == *pool || of.guid == *pool);
            let inside: Vec<PathBuf> = inside.flat_map(|of| of.devices).collect();
            let named = options(inside.iter().map(PathBuf::as_path));
            return Err(Error::invalid(
                format!(
                    "{} is a folder, which may hold both the original and the copy",
                    folder.display()
                ),
                match named.is_empty() {
                    true => "name each device of the copy with -d".to_owned(),
                    false => format!(
                        "name each device of the copy; these devices of pool {pool} are in the folder:{named}"
                    ),
                },
            ));
        }
        for path in &request.paths {
            let own = key(path);
            for (name, open) in self.all() {
                let mut places = open.host.places().into_values();
                if places.any(|place| own.is_some() && key(&place.path) == own) {
                    return Err(Error::new(
                        ErrorKind::InUse,
                        format!("{} is in use by pool {name}, which is open", path.display()),
                        "name the copy, not the original",
                    ));
                }
            }
            let absent = self.absent().into_iter().map(|absent| absent.known);
            let is_here =
                |at: Located| matches!(at, Located::At(at) if own.is_some() && key(&at) == own);
            let is_it = |on: &crate::devices::known::KnownDevice| {
                is_here(locate(&on.path, on.identity.as_ref()))
            };
            let mut known = absent.filter(|known| known.devices.iter().any(is_it));
            if let Some(known) = known.next().filter(|_| !request.force) {
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!(
                        "{} is not a copy: it is a device of pool {}, which this host knows and has not \
                         opened",
                        path.display(),
                        known.name
                    ),
                    format!(
                        "name the copy; to make this device another pool anyway, use -f, or forget the pool \
                         first: `sandstone pool export {}`",
                        known.name
                    ),
                ));
            }
            if !request.force && is_remote(path) {
                self.lent().refuse(path)?;
            }
        }
        Ok(())
    }

    fn open_copies(&self, request: &ReguidPool) -> Result<Vec<Own>, Error> {
        let opened = open_all(&self.options.disks, &request.paths).into_iter();
        let opened = opened.map(|(path, opened)| {
            let (device, labels) = opened?;
            Ok(Own {
                path,
                device,
                labels,
            })
        });
        opened.collect()
    }
}

impl From<&Own> for Candidate {
    fn from(own: &Own) -> Self {
        Self {
            path: own.path.clone(),
            labels: own.labels.clone(),
            is_named: true,
        }
    }
}

/// Returns the number and configuration of the devices' pool, if it is the requested pool.
fn meant(devices: &[Own], request: &ReguidPool) -> Result<(u64, PoolConfig), Error> {
    let wanted = &request.pool;
    let mut other = None;
    for own in devices {
        let Some((config, _)) = label::newest(&own.labels) else {
            continue;
        };
        let torn = torn_identity(&own.labels);
        let numbers = torn.map_or([config.guid; 2], |(old, new)| [old, new]);
        let is_number = numbers.iter().any(|of| format!("{of:016x}") == *wanted);
        // Once all labels of one round are new, the old name is gone.
        if config.name == *wanted || is_number || torn.is_some() {
            return Ok((numbers[0], config));
        }
        other = Some((own.path.clone(), config));
    }
    Err(match other {
        Some((path, config)) => Error::not_found(
            format!(
                "{} is a device of pool {}, not of {wanted}",
                path.display(),
                config.name
            ),
            match request.new_name.as_ref() == Some(&config.name) {
                true => format!(
                    "it already has its new name: see `sandstone pool import -d {}`",
                    path.display()
                ),
                false => format!(
                    "name that pool by its name, or by its number {:016x}",
                    config.guid
                ),
            },
        ),
        None => Error::not_found(
            format!("no label of pool {wanted} was found on the named devices"),
            "check the paths; `sandstone pool import -d PATH` lists the pools there",
        ),
    })
}

fn unplanned(request: &ReguidPool, error: &OpenError) -> Error {
    let next = match error.kind {
        OpenErrorKind::Twins => "name only one of them",
        OpenErrorKind::Reguid => {
            "name exactly the devices that were named the first time, each with -d"
        }
        _ => "name all devices of the copy, each with -d, and no device of another pool",
    };
    Error::new(
        ErrorKind::Refused,
        format!("pool {} cannot get a new number: {error}", request.pool),
        next,
    )
}

/// Writes the labels in the store's order.
fn write<'a>(devices: &'a [Own], plan: &Reguid) -> Result<(), (&'a Own, BlockError)> {
    for (number, round) in Reguid::rounds().into_iter().enumerate() {
        for (own, label) in devices.iter().zip(&plan.labels) {
            let bytes = label.encode();
            let places = own.labels.offsets();
            // Inner labels with the old number would bring the old number back.
            let inner = plan.config.inner_offsets(label.leaf).map(|all| all[number]);
            let inner = inner.filter(|at| at + LABEL_SIZE as u64 <= own.labels.size);
            for offset in round.iter().filter_map(|copy| places[*copy]).chain(inner) {
                let write = Request::Write {
                    offset,
                    data: Pages::from_bytes(&bytes),
                    durable: false,
                };
                ask(&*own.device, write).map_err(|error| (own, error))?;
            }
        }
        for own in devices {
            ask(&*own.device, Request::Flush).map_err(|error| (own, error))?;
        }
    }
    Ok(())
}

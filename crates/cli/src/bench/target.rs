//! The target of a measurement: opened or made, and never written if that would destroy the user's
//! data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use crate::grammar::completion::size;
use crate::initiator::configured::configured;
use crate::{Connection, Terminal};
use backends::locate;
use bench::contents;
use bench::reached::{Reached, Unit};
use bench::results;
use block::file::{FileDevice, FileOptions};
use block::{BlockDevice, Lane, OpenError};
use hint::Place;
use initiator::device::MultipathDevice;
use initiator::named::NamedDevice;
use initiator::write_cache::WriteCache;
use model::device_name;
use model::initiator::InitiatorSpec;
use model::quantity::format_size;
use model::{Error, ErrorKind};

/// Options that name the target to measure.
#[derive(Clone, Debug, Args)]
pub(super) struct TargetArgs {
    /// File, block device, memory:SIZE,
    /// iscsi://[user%secret@]host[:port]/target/lun[?option=value&…], or a device of `initiator
    /// device list`: naa.…[?option=value&…]
    target: String,
    /// Make the file with this size, and remove it afterwards
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Do not remove the file that was made
    #[arg(long, requires = "size")]
    keep: bool,
    /// Block size [default: 512, or the device's]
    #[arg(long, value_name = "512|4096", value_parser = block_size)]
    block_size: Option<u32>,
    /// Overwrite the data that the target holds
    #[arg(long)]
    destroy_data: bool,
}

fn block_size(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4k" | "4K" => Ok(4096),
        _ => Err("choose 512 or 4096".into()),
    }
}

/// A device, and its logical unit if it is one.
type Device = (Arc<dyn BlockDevice>, Option<Arc<MultipathDevice>>);

/// Open target.
pub(super) struct Opened {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) lane: Lane,
    pub(super) identity: results::Target,
    /// Configuration of the device, if the user named it by its name.
    configured: InitiatorSpec,
    /// Logical unit of the device, if it is one.
    unit: Option<Arc<MultipathDevice>>,
    /// Whether the target holds nobody's data, because it is memory or was made for this run.
    pub(super) is_ours: bool,
    /// File that was made for this run, to be removed after it.
    remove: Option<PathBuf>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(path) = &self.remove {
            // This run made the file. If it cannot be removed it stays, as the user can see.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Opened {
    /// Returns the way in which the logical unit is reached now.
    pub(super) fn reached(&self) -> Option<Reached> {
        let (device, sessions) = self.unit.as_ref()?.view();
        Some(Reached::of(&device, &sessions))
    }

    /// Returns the name of the logical unit (`naa.…`), if it is one.
    pub(super) fn unit_name(&self) -> Option<String> {
        self.unit.as_ref().map(|unit| unit.name())
    }

    /// Warns of paths that were asked for and are missing, and of options of the URL that are not
    /// in force.
    pub(super) fn warn(&self, t: &mut Terminal<'_>) -> std::io::Result<()> {
        let Some(reached) = self.reached() else {
            return Ok(());
        };
        for missing in reached.missing() {
            writeln!(
                t.err,
                "warning: {missing}; the figures come from the other paths"
            )?;
        }
        let asked = self.identity.options.iter();
        let asked = asked.map(|(name, value)| (name.as_str(), value.as_str()));
        for remark in reached.not_as_asked(asked) {
            writeln!(t.err, "warning: {remark}")?;
        }
        Ok(())
    }
}

fn new_lane() -> Result<Lane, Error> {
    Lane::standing()
        .map_err(|error| Error::system(Place::Process, "make an event descriptor", error))
}

fn refused(error: OpenError) -> Error {
    let next = error.next().to_owned();
    Error::new(ErrorKind::Refused, error.message(), next).caused_by(error)
}

impl TargetArgs {
    /// Opens the target. Makes the file first if the user gave a size.
    pub(super) fn open(&self, connection: &Connection) -> Result<Opened, Error> {
        let mut lane = new_lane()?;
        let configured = configured(&self.target, connection)?;
        let is_memory = self.target.starts_with("memory:");
        let made = match self.size {
            None => None,
            Some(len) if !is_memory && !self.target.contains("://") && !self.is_logical_unit() => {
                Some(self.make(Path::new(&self.target), len)?)
            }
            Some(_) => {
                return Err(Error::invalid(
                    format!("--size makes a file, and {} is not a file", self.target),
                    "omit --size",
                ));
            }
        };
        let remove = made.clone().filter(|_| !self.keep);
        let is_ours = made.is_some() || is_memory;
        let opened = self.device(&self.target, &configured, &mut lane);
        let (device, unit) = opened.map_err(|error| {
            if let Some(path) = &remove {
                let _ = std::fs::remove_file(path);
            }
            refused(error)
        })?;
        let geometry = device.geometry();
        let identity = results::Target {
            name: locate::shown(&self.target),
            len: geometry.len,
            granularity: geometry.granularity,
            physical: geometry.physical,
            thin: geometry.thin,
            volatile_cache: geometry.volatile_cache,
            options: locate::shown_options(&self.target),
            unit: unit.as_ref().map(|unit| Unit::of(&unit.view().0)),
        };
        Ok(Opened {
            device,
            lane,
            identity,
            configured,
            unit,
            is_ours,
            remove,
        })
    }

    /// Reports whether the target has sessions, whose settings can be turned.
    pub(super) fn is_logical_unit(&self) -> bool {
        locate::is_logical_unit(&self.target)
    }

    /// Returns the write cache of a logical unit.
    pub(super) fn write_cache(&self, opened: &Opened) -> Result<WriteCache, Error> {
        let next = "name a logical unit: iscsi://host/target/lun, or naa.…";
        let Some(unit) = opened
            .unit
            .as_ref()
            .filter(|_| device_name::is_one(&self.target))
        else {
            return WriteCache::of(&self.target)
                .map_err(|error| Error::invalid(error.to_string(), next));
        };
        let named = NamedDevice::parse(&self.target, &opened.configured);
        let targets = named.map(|named| named.targets).unwrap_or_default();
        WriteCache::reached_by(&unit.view().0, &targets)
            .ok_or_else(|| Error::invalid(format!("no path to {} is left", unit.name()), next))
    }

    /// Returns the target as the user named it.
    pub(super) fn typed(&self) -> &str {
        &self.target
    }

    /// Opens a logical unit with other sessions, which replace the last ones. If this fails, the
    /// last sessions still exist. `place` names the unit, or another one to measure instead.
    pub(super) fn open_anew(
        &self,
        place: &str,
        last: &Opened,
        options: &BTreeMap<String, String>,
    ) -> Result<Opened, Error> {
        let mut lane = new_lane()?;
        let mut url = place.to_owned();
        for (at, (name, value)) in options.iter().enumerate() {
            let first = at == 0 && !url.contains('?');
            url.push_str(&format!("{}{name}={value}", if first { '?' } else { '&' }));
        }
        let opened = self.device(&url, &last.configured, &mut lane);
        let (device, unit) = opened.map_err(refused)?;
        Ok(Opened {
            device,
            lane,
            unit,
            identity: last.identity.clone(),
            configured: last.configured.clone(),
            is_ours: last.is_ours,
            remove: None,
        })
    }

    /// Opens the named device, and recognizes a logical unit.
    fn device(
        &self,
        what: &str,
        configured: &InitiatorSpec,
        lane: &mut Lane,
    ) -> Result<Device, OpenError> {
        if locate::is_logical_unit(what) {
            let unit = locate::logical_unit(what, self.block_size, configured, lane)?;
            return Ok((Arc::clone(&unit) as Arc<dyn BlockDevice>, Some(unit)));
        }
        let device = locate::open(what, self.block_size, configured, lane)?;
        Ok((device, None))
    }

    fn make(&self, path: &Path, len: u64) -> Result<PathBuf, Error> {
        let options = FileOptions {
            block_size: self.block_size.unwrap_or(512),
            preallocate: false,
            direct: true,
        };
        FileDevice::create(path, len, options).map_err(refused)?;
        Ok(path.to_owned())
    }

    /// Refuses to write if that would destroy data that the user did not give up. The error names
    /// the data.
    pub(super) fn may_write(&self, opened: &mut Opened, t: &mut Terminal<'_>) -> Result<(), Error> {
        if opened.is_ours {
            return Ok(());
        }
        let name = locate::shown(&self.target);
        let holds = contents::describe(&opened.device, &mut opened.lane);
        let holds = holds.unwrap_or_else(|error| format!("data that cannot be read ({error})"));
        let len = format_size(opened.identity.len);
        if self.destroy_data {
            // Repeated for the user's log.
            let _ = writeln!(t.err, "overwriting {name}: {len}, which held {holds}");
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Refused,
            contents::would_destroy(&name, opened.identity.len, &holds),
            "if the data is no longer needed, add --destroy-data; or measure a new file with --size 10G",
        ))
    }
}

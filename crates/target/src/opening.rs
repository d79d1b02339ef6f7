//! From a configured unit to one at work: opens the backend, makes the device server, restores its
//! persistent state.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scsi::alua::TargetPortGroups;
use scsi::logical_unit::LogicalUnit;
use unit::loops::Loops;

use super::gateway;
use backends::backing::Backing;
use block::{self, BlockDevice};
use config::placement::Placed;
use initiator::host::Host;
use model::config::{BackendSpec, UnitSpec};
use model::data_plane::ApplyError;
use model::volume_id::VolumeId;
use pools::Pools;
use unit::shape::unit_config;
use unit::state;
use unit::unit::Unit;

/// The saved state of a unit, in words.
const STATE: &str = "its saved state (reservations, mode pages, a SANITIZE that did not end)";

/// Puts a device (a wrapper of [`block`], most likely) on the backend of a unit.
#[derive(Clone)]
pub struct DeviceLayer(Arc<Stack>);

type Stack = dyn Fn(&UnitSpec, Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> + Send + Sync;

impl DeviceLayer {
    /// A layer that makes what `stack` returns of a unit's backend.
    pub fn new(
        stack: impl Fn(&UnitSpec, Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(stack))
    }
}

impl std::fmt::Debug for DeviceLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceLayer")
    }
}

/// Everything that opening needs beside the unit itself.
#[derive(Clone)]
pub(super) struct Opener {
    /// The state folder.
    pub state: PathBuf,
    /// What lies between units and their backends.
    pub layer: Option<DeviceLayer>,
    /// Devices of other machines.
    pub host: Arc<Host>,
    /// Volumes of pools.
    pub pools: Arc<Pools>,
    /// Target port groups, shared by all units.
    pub groups: Arc<TargetPortGroups>,
    /// Event loops that serve the units.
    pub loops: Arc<Loops>,
    /// Damage to the saved state of units that are served all the same.
    pub notices: Arc<Mutex<Vec<String>>>,
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Opener {
    /// Makes what a new unit needs (its file, unless it exists; enough memory). Returns the file that
    /// was made.
    ///
    /// # Errors
    /// What went wrong; nothing was left behind.
    pub(super) fn create(&self, spec: &UnitSpec) -> Result<Option<PathBuf>, ApplyError> {
        let file = match &spec.backend {
            BackendSpec::File { path, .. } => Some(self.state.join(path)),
            BackendSpec::Memory { .. }
            | BackendSpec::Device { .. }
            | BackendSpec::Iscsi { .. }
            | BackendSpec::Volume { .. } => None,
        };
        if file.as_ref().is_some_and(|path| path.exists()) {
            return Ok(None);
        }
        backends::open::create(&spec.backend, &self.state, spec.block_size)
            .map_err(|error| apply_error(spec, &error))?;
        Ok(file)
    }

    /// Opens a unit. One on a volume is opened on the volume that is noted, never on another that has the name now.
    /// `others` are the units that are open already. A device of another machine is waited for up to `patience`, while
    /// sessions are still coming up.
    ///
    /// # Errors
    /// What went wrong and what to try.
    pub(super) fn open<'a>(
        &self,
        Placed {
            spec,
            volume: noted,
        }: Placed<'_>,
        mut others: impl Iterator<Item = &'a Arc<Unit>>,
        patience: Duration,
    ) -> Result<Arc<Unit>, ApplyError> {
        let backing = Backing::of(&spec.backend, &self.state);
        if let Some(other) = others.find(|other| other.backing.overlaps(&backing)) {
            return Err(shared(spec, other));
        }
        let device = match &spec.backend {
            BackendSpec::Iscsi { device } => {
                let opened = gateway::open(&self.host, spec, device, patience)?;
                // Noted before the unit can write anything.
                let lent = self.pools.lend(device, &spec.name);
                lent.map_err(|error| ApplyError {
                    object: format!("lu {}", spec.name),
                    message: error.message,
                    next: error.next,
                })?;
                opened
            }
            BackendSpec::Volume { volume } => self.volume(spec, volume, noted)?,
            own => self.local(spec, own)?,
        };
        let device = match &self.layer {
            Some(DeviceLayer(stack)) => stack(spec, device),
            None => device,
        };
        let rest = device.geometry().len % u64::from(spec.block_size);
        if rest > 0 {
            tracing::warn!(
                unit = spec.name,
                rest_bytes = rest,
                block_size = spec.block_size,
                "what is behind the unit is no multiple of its blocks: the rest is left out"
            );
        }
        let config = unit_config(spec, device.geometry()).map_err(|message| ApplyError {
            object: format!("lu {}", spec.name),
            message,
            next: "run `sandstone lu list -o name,naa,backend` and restore the configuration from an older generation"
                .into(),
        })?;
        let logical = LogicalUnit::new(config, self.groups.clone());
        let mut epoch = [0; 16];
        // Without random numbers a token of an earlier run might be taken for one of this: then
        // offer none.
        if getrandom::fill(&mut epoch).is_ok() {
            logical.enable_tokens(epoch);
        }
        let state_file = self.state_file(&spec.naa);
        let loaded = state::load(&state_file).map_err(|lost| ApplyError {
            object: format!("lu {}", spec.name),
            message: format!("{STATE} is lost: {}", lost.reason),
            next: lost.next,
        })?;
        self.note(loaded.notice);
        if let Some(image) = loaded.image {
            logical
                .restore(&image)
                .map_err(|error| damaged(spec, &state_file, &error))?;
        }
        logical.set_offline(spec.offline);
        logical.set_soft_threshold(spec.threshold_percent);
        let unit = Unit::new(
            spec.name.clone(),
            logical,
            device,
            backing,
            state_file,
            Arc::clone(&self.loops),
        );
        unit.follow_device();
        Ok(Arc::new(unit))
    }

    fn note(&self, notice: Option<String>) {
        // A line more or less is no harm.
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.extend(notice);
    }

    /// Opens memory, a file or a device node of this machine.
    fn local(
        &self,
        spec: &UnitSpec,
        own: &BackendSpec,
    ) -> Result<Arc<dyn BlockDevice>, ApplyError> {
        let path = match own {
            BackendSpec::File { path, .. } => Some(self.state.join(path)),
            BackendSpec::Device { path } => Some(Path::new("/dev").join(path)),
            BackendSpec::Memory { .. } | BackendSpec::Iscsi { .. } | BackendSpec::Volume { .. } => {
                None
            }
        };
        self.pools
            .refuse_own(path.as_deref())
            .map_err(|error| ApplyError {
                object: format!("lu {}", spec.name),
                message: error.message,
                next: error.next,
            })?;
        backends::open::open(own, &self.state, spec.block_size)
            .map_err(|error| apply_error(spec, &error))
    }

    /// Opens a volume, or a snapshot for a unit that is only read.
    fn volume(
        &self,
        spec: &UnitSpec,
        name: &str,
        noted: Option<&VolumeId>,
    ) -> Result<Arc<dyn BlockDevice>, ApplyError> {
        let volume = self.pools.open_noted_volume(name, spec.block_size, noted);
        Ok(Arc::new(volume.map_err(|error| apply_error(spec, &error))?))
    }

    /// Where the persistent state of the unit with this NAA is.
    pub(super) fn state_file(&self, naa: &str) -> PathBuf {
        self.state.join("units").join(format!("{naa}.state"))
    }
}

fn apply_error(spec: &UnitSpec, error: &block::OpenError) -> ApplyError {
    ApplyError {
        object: format!("lu {}", spec.name),
        message: error.problem(),
        next: error.advice().to_owned(),
    }
}

fn shared(spec: &UnitSpec, other: &Unit) -> ApplyError {
    ApplyError {
        object: format!("lu {}", spec.name),
        message: format!(
            "its file or device is that of lu {}, by another path; two units would destroy each other's data",
            other.name
        ),
        next: format!(
            "map lu {} to more hosts instead (sandstone map add), or choose another file",
            other.name
        ),
    }
}

fn damaged(spec: &UnitSpec, path: &Path, error: &dyn std::fmt::Display) -> ApplyError {
    ApplyError {
        object: format!("lu {}", spec.name),
        message: format!("{STATE} cannot be read: {error}"),
        next: format!(
            "move {} away if no cluster relies on its persistent reservations and no SANITIZE was under way, then start again",
            path.display()
        ),
    }
}

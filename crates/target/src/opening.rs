//! The opening of a configured unit: opens the backend, makes the device server, restores its
//! persistent state.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scsi::alua::TargetPortGroups;
use scsi::logical_unit::LogicalUnit;
use unit::loops::Loops;

use backends::Backends;
use backends::backend::Opening;
use block::backing::Backing;
use block::{self, BlockDevice};
use config::placement::Placed;
use model::backend::Capabilities;
use model::config::UnitSpec;
use model::data_plane::ApplyError;
use unit::shape::unit_config;
use unit::state_file;
use unit::unit::Unit;

/// Saved state of a unit, in words.
const STATE: &str = "its saved state (reservations, mode pages, an unfinished SANITIZE)";

/// Layer that puts a device on the backend of a unit, most likely a wrapper of [`block`].
#[derive(Clone)]
pub struct DeviceLayer(Arc<Stack>);

type Stack = dyn Fn(&UnitSpec, Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> + Send + Sync;

impl DeviceLayer {
    /// Returns a layer with the devices that `stack` makes of units' backends.
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
    /// Backends of all kinds.
    pub backends: Backends,
    /// Layer between units and their backends.
    pub layer: Option<DeviceLayer>,
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
            .field("backends", &self.backends)
            .finish_non_exhaustive()
    }
}

impl Opener {
    /// Makes what a new unit needs: its file, unless it exists, and enough memory. Returns the file
    /// that was made.
    ///
    /// # Errors
    /// The error tells the reason. Nothing was left behind.
    pub(super) fn create(&self, spec: &UnitSpec) -> Result<Option<PathBuf>, ApplyError> {
        let made = self.backends.of(&spec.backend).create(spec.block_size);
        made.map_err(|error| apply_error(spec, &error))
    }

    /// Opens a unit. A unit on a volume is opened on the volume that is noted, never on another
    /// that has the name now. `others` are the units that are open already. A device of another
    /// machine is waited for up to `patience`, while sessions are still coming up.
    ///
    /// # Errors
    /// The error tells the reason and what to try.
    pub(super) fn open<'a>(
        &self,
        Placed {
            spec,
            volume: noted,
        }: Placed<'_>,
        mut others: impl Iterator<Item = &'a Arc<Unit>>,
        patience: Duration,
    ) -> Result<Arc<Unit>, ApplyError> {
        let path = spec.backend.path(&self.backends.state);
        let backing = path.as_deref().map_or_else(Backing::default, Backing::at);
        if let Some(other) = others.find(|other| other.backing.overlaps(&backing)) {
            return Err(shared(spec, other));
        }
        let own = self.backends.pools.refuse_own(path.as_deref());
        own.map_err(|error| ApplyError {
            object: format!("lu {}", spec.name),
            message: error.message,
            next: error.next,
        })?;
        let backend = self.backends.of(&spec.backend);
        let device = backend.open(&Opening {
            unit: &spec.name,
            block_size: spec.block_size,
            volume: noted,
            patience,
        });
        let device = device.map_err(|error| apply_error(spec, &error))?;
        let device = match &self.layer {
            Some(DeviceLayer(stack)) => stack(spec, device),
            None => device,
        };
        let storage = Storage {
            device,
            capabilities: backend.capabilities(),
            backing,
            state_file: self.state_file(&spec.naa),
        };
        let note = |notice| self.note(notice);
        serve_from(storage, spec, &self.groups, &self.loops, note)
    }

    fn note(&self, notice: Option<String>) {
        // One line too many or too few does no harm.
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.extend(notice);
    }

    /// Returns the path of the persistent state of the unit with this NAA.
    pub(super) fn state_file(&self, naa: &str) -> PathBuf {
        self.backends
            .state
            .join("units")
            .join(format!("{naa}.state"))
    }
}

/// Places in which a unit keeps its data and its state.
pub(super) struct Storage {
    pub device: Arc<dyn BlockDevice>,
    pub capabilities: Capabilities,
    pub backing: Backing,
    pub state_file: PathBuf,
}

/// Makes a unit on an open device, with the state that was saved for it. `note` is told of damage
/// to that state by which nothing was lost: the file is right again, so no later opening tells it.
///
/// # Errors
/// The error tells the reason and what to try.
pub(super) fn serve_from(
    storage: Storage,
    spec: &UnitSpec,
    groups: &Arc<TargetPortGroups>,
    loops: &Arc<Loops>,
    note: impl FnOnce(Option<String>),
) -> Result<Arc<Unit>, ApplyError> {
    let Storage {
        device,
        capabilities,
        backing,
        state_file,
    } = storage;
    let rest = device.geometry().len % u64::from(spec.block_size);
    if rest > 0 {
        tracing::warn!(
            unit = spec.name,
            rest_bytes = rest,
            block_size = spec.block_size,
            "the size of the backend is not a multiple of the block size: the rest is not used"
        );
    }
    let config = unit_config(spec, capabilities, device.geometry());
    let config = config.map_err(|message| ApplyError {
        object: format!("lu {}", spec.name),
        message,
        next: "run `sandstone lu list -o name,naa,backend` and restore the configuration from an older generation"
            .into(),
    })?;
    let logical = LogicalUnit::new(config, Arc::clone(groups));
    let mut epoch = [0; 16];
    // Without random numbers, a token of an earlier run might be taken for one of this run. No
    // tokens are offered then.
    if getrandom::fill(&mut epoch).is_ok() {
        logical.enable_tokens(epoch);
    }
    let loaded = state_file::load(&state_file).map_err(|lost| ApplyError {
        object: format!("lu {}", spec.name),
        message: format!("{STATE} is lost: {}", lost.reason),
        next: lost.next,
    })?;
    note(loaded.notice);
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
        Arc::clone(loops),
    );
    unit.follow_device();
    Ok(Arc::new(unit))
}

fn apply_error(spec: &UnitSpec, error: &block::OpenError) -> ApplyError {
    ApplyError {
        object: format!("lu {}", spec.name),
        message: error.message(),
        next: error.next().to_owned(),
    }
}

fn shared(spec: &UnitSpec, other: &Unit) -> ApplyError {
    ApplyError {
        object: format!("lu {}", spec.name),
        message: format!(
            "its file or device already serves lu {}, by another path; two logical units would destroy each \
             other's data",
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

//! Backend of a logical unit, whatever its kind: what it can do, and how it is made, opened and
//! extended.
//!
//! Everything that an open device tells itself (discards, the space that it uses, its physical
//! blocks) is asked of the [`BlockDevice`]. A backend only answers what has no open device to ask.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, OpenError};
use model::backend::Capabilities;
use model::volume_id::VolumeId;

/// Logical unit that a backend is opened for.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Name of the unit.
    pub unit: &'a str,
    /// Logical block length of the unit, in bytes.
    pub block_size: u32,
    /// Volume that the configuration notes of the unit: no other one is opened under its name.
    pub volume: Option<&'a VolumeId>,
    /// Time for which a device that is still coming up is waited for.
    pub patience: Duration,
}

/// A file that [`Backend::extend`] made longer, in bytes.
#[derive(Debug)]
pub struct Lengthened {
    /// Place of the file.
    pub path: PathBuf,
    /// Length that the file had.
    pub before: u64,
    /// Length that the file has.
    pub now: u64,
}

/// Backend of a logical unit.
pub trait Backend {
    /// Returns what the backend can do.
    fn capabilities(&self) -> Capabilities;

    /// Makes what a new unit with blocks of `block_size` needs: a file, unless there is one.
    /// Returns the file that was made. Memory must suffice for this unit and all others; none is
    /// taken yet.
    ///
    /// # Errors
    /// The backend cannot be made; nothing was left behind.
    fn create(&self, block_size: u32) -> Result<Option<PathBuf>, OpenError> {
        let _ = block_size;
        Ok(None)
    }

    /// Opens the device, and never makes a file. A file that is missing at a restart must be
    /// noticed, not replaced by zeros.
    ///
    /// # Errors
    /// The device is away, in use, or does not fit the unit.
    fn open(&self, opening: &Opening<'_>) -> Result<Arc<dyn BlockDevice>, OpenError>;

    /// Makes room for a unit of `len` bytes. The open device sees it after
    /// [`BlockDevice::refresh`]. Only asked of a backend that has its size from the configuration.
    ///
    /// # Errors
    /// The backend cannot grow.
    fn extend(&self, len: u64) -> Result<Lengthened, OpenError> {
        Err(OpenError::new(
            format!("this backend cannot be resized to {len} bytes here"),
            "resize it at its source; see `sandstone lu list -o name,backend`",
        ))
    }

    /// Returns the bytes of a physical block of the disk that the backend is, without opening it.
    /// `None` where the backend is no disk, or the disk does not tell. `patience` is as in
    /// [`Opening`].
    fn physical_block_size(&self, patience: Duration) -> Option<u32> {
        let _ = patience;
        None
    }
}

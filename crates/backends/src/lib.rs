//! Kinds of backends, and the way from a name in the configuration or on a command line to an open
//! device.
//!
//! | question | where |
//! |---|---|
//! | what a backend can do, and how it is made, opened and extended | `backend.rs` |
//! | one kind of backend | `memory.rs`, `file.rs`, `device.rs`, `iscsi.rs`, `volume.rs` |
//! | which kind a backend of the configuration is | here |
//! | which device a command line names | `locate.rs` |

pub mod backend;
pub mod device;
pub mod file;
pub mod iscsi;
pub mod locate;
pub mod memory;
pub mod volume;

use std::path::PathBuf;
use std::sync::Arc;

use backend::Backend;
use initiator::host::Host;
use model::config::BackendSpec;
use pools::Pools;

/// Registry of the kinds of backends, with everything that they need of this daemon.
#[derive(Clone)]
pub struct Backends {
    /// State folder, below which relative paths lie.
    pub state: PathBuf,
    /// Initiator, which reaches disks of other machines.
    pub host: Arc<Host>,
    /// Pools, which have volumes.
    pub pools: Arc<Pools>,
}

impl Backends {
    /// Returns the backend that the configuration means. Only this function makes one kind or
    /// another.
    pub fn of<'a>(&'a self, spec: &'a BackendSpec) -> Box<dyn Backend + 'a> {
        match spec {
            BackendSpec::Memory { size } => Box::new(memory::Memory { size: *size }),
            BackendSpec::File {
                path,
                size,
                preallocate,
            } => Box::new(file::File {
                path: self.state.join(path),
                size: *size,
                preallocate: *preallocate,
            }),
            BackendSpec::Device { path } => Box::new(device::Device::at(path)),
            BackendSpec::Iscsi { device } => Box::new(iscsi::RemoteDisk {
                name: device,
                host: &self.host,
                pools: &self.pools,
            }),
            BackendSpec::Volume { volume } => Box::new(volume::Volume {
                name: volume,
                pools: &self.pools,
            }),
        }
    }
}

impl std::fmt::Debug for Backends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backends")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

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
use initiator::host_adapter::HostAdapter;
use model::config::BackendSpec;
use pools::Pools;

/// Registry of the kinds of backends, with everything that they need of this daemon.
#[derive(Clone)]
pub struct Backends {
    /// State folder, below which relative paths lie.
    pub state: PathBuf,
    /// Initiator, which reaches disks of other machines.
    pub host: Arc<HostAdapter>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Opening;
    use model::backend::{Follows, Overwrites};
    use std::time::Duration;

    const OPENING: Opening<'_> = Opening {
        unit: "lu",
        block_size: 512,
        volume: None,
        patience: Duration::ZERO,
    };

    fn backends(state: &std::path::Path) -> Backends {
        Backends {
            state: state.to_owned(),
            host: Arc::new(HostAdapter::new()),
            pools: Pools::none(state),
        }
    }

    #[test]
    fn every_kind_says_what_it_can_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let backends = backends(folder.path());
        for (spec, overwrites, has_physical_blocks, follows) in [
            (
                BackendSpec::memory(512),
                Overwrites::Never,
                false,
                Follows::Nothing,
            ),
            (
                BackendSpec::file("a", 512),
                Overwrites::Never,
                false,
                Follows::Nothing,
            ),
            (
                BackendSpec::reserved_file("a", 512),
                Overwrites::UntilDiscarded,
                false,
                Follows::Nothing,
            ),
            (
                BackendSpec::device("/dev/a"),
                Overwrites::Always,
                true,
                Follows::Nothing,
            ),
            (
                BackendSpec::remote_disk("naa.6"),
                Overwrites::Never,
                true,
                Follows::Growth,
            ),
            (
                BackendSpec::on_volume("tank/a"),
                Overwrites::Never,
                false,
                Follows::Everything,
            ),
        ] {
            let can = backends.of(&spec).capabilities();
            assert_eq!(can.overwrites, overwrites, "{spec}");
            assert_eq!(can.has_physical_blocks, has_physical_blocks, "{spec}");
            assert_eq!(can.follows, follows, "{spec}");
        }
    }

    #[test]
    fn a_file_lies_below_the_state_folder_and_is_made_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let backends = backends(folder.path());
        let spec = BackendSpec::file("a.img", 4096);
        let made = backends.of(&spec).create(512).expect("a new file");
        assert_eq!(made, Some(folder.path().join("a.img")));
        let made = backends.of(&spec).create(512).expect("a file");
        assert_eq!(made, None, "there was one");
        let device = backends.of(&spec).open(&OPENING).expect("opens");
        assert_eq!(device.geometry().len, 4096);
    }

    #[test]
    fn what_lies_elsewhere_makes_nothing_and_says_what_is_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let backends = backends(folder.path());
        for (spec, words) in [
            (BackendSpec::device("/dev/none-such"), "cannot open"),
            (
                BackendSpec::remote_disk("naa.6"),
                "there is no login to a target",
            ),
            (BackendSpec::on_volume("tank/a"), "tank"),
        ] {
            let backend = backends.of(&spec);
            assert_eq!(backend.create(512).expect("nothing to make"), None);
            let error = backend.open(&OPENING).expect_err("away").to_string();
            assert!(error.contains(words), "{error}");
            let error = backend.extend(1024).expect_err("not ours").to_string();
            assert!(error.contains("resize it at its source"), "{error}");
            assert_eq!(backend.physical_block_size(Duration::ZERO), None);
        }
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "nothing was made");
    }
}

//! Backend in a file of this machine.

use std::path::PathBuf;
use std::sync::Arc;

use crate::backend::{Backend, Lengthened, Opening};
use block::file::{FileDevice, FileOptions, grow};
use block::{BlockDevice, OpenError};
use model::backend::{Capabilities, Overwrites};

/// Backend in a file.
#[derive(Clone, Debug)]
pub struct File {
    /// Place of the file.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Whether its space is reserved.
    pub preallocate: bool,
}

impl File {
    fn options(&self, block_size: u32) -> FileOptions {
        FileOptions {
            block_size,
            preallocate: self.preallocate,
            direct: true,
        }
    }
}

impl Backend for File {
    /// Returns that a reserved file is overwritten. One with holes, or whose blocks are given back,
    /// takes new blocks.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            overwrites: match self.preallocate {
                true => Overwrites::UntilDiscarded,
                false => Overwrites::Never,
            },
            ..Capabilities::default()
        }
    }

    fn create(&self, block_size: u32) -> Result<Option<PathBuf>, OpenError> {
        if self.path.exists() {
            return Ok(None);
        }
        FileDevice::create(&self.path, self.size, self.options(block_size))?;
        Ok(Some(self.path.clone()))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Arc<dyn BlockDevice>, OpenError> {
        let device = FileDevice::open(&self.path, self.options(opening.block_size))?;
        let len = device.geometry().len;
        if len < self.size {
            return Err(OpenError::new(
                format!(
                    "{} is {len} bytes long, but was made with {} bytes",
                    self.path.display(),
                    self.size
                ),
                "find out why it shrank; restore it, or extend it again if the rest is not needed",
            ));
        }
        Ok(Arc::new(device))
    }

    fn extend(&self, len: u64) -> Result<Lengthened, OpenError> {
        let before = grow(&self.path, len, self.preallocate)?;
        Ok(Lengthened {
            path: self.path.clone(),
            before,
            now: len,
        })
    }
}

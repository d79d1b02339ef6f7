//! From the configuration's description of a backend to a device that is open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::BlockDevice;
use block::device::NodeDevice;
use block::file::{FileDevice, FileOptions, grow};
use block::memory::MemoryDevice;
use block::memory_pool::MemoryPool;
use block::open_error::OpenError;
use model::config::BackendSpec;
use model::quantity::format_size;

/// Makes what a new logical unit needs: a file of the right size. An existing file is refused, never
/// overwritten. Memory must suffice for this unit and all others; nothing is taken of it yet.
pub fn create(spec: &BackendSpec, state: &Path, block_size: u32) -> Result<(), OpenError> {
    match spec {
        BackendSpec::File {
            path,
            size,
            preallocate,
        } => FileDevice::create(&state.join(path), *size, options(block_size, *preallocate)),
        BackendSpec::Memory { size } => enough_memory(*size, &MemoryPool::of_this_machine()),
        BackendSpec::Device { .. } | BackendSpec::Iscsi { .. } | BackendSpec::Volume { .. } => {
            Ok(())
        }
    }
}

/// Refuses a new memory-backed unit that could not be filled: its clients rely on its size. (After a
/// restart on a machine with less memory it is served all the same, and is full early.)
fn enough_memory(size: u64, pool: &MemoryPool) -> Result<(), OpenError> {
    let left = pool.unpromised();
    if size <= left {
        return Ok(());
    }
    Err(OpenError::new(
        format!(
            "{} of memory are more than there is: memory-backed units may take {} together, of which {} are left",
            format_size(size),
            format_size(pool.capacity()),
            format_size(left)
        ),
        format!("choose at most {}, or use a file", format_size(left)),
    ))
}

/// Opens the backend of a logical unit with blocks of `block_size`. Never creates a file: one that
/// is missing at a restart must be noticed, not replaced by zeros.
pub fn open(
    spec: &BackendSpec,
    state: &Path,
    block_size: u32,
) -> Result<Arc<dyn BlockDevice>, OpenError> {
    match spec {
        BackendSpec::Memory { size } => {
            let device = MemoryDevice::in_pool(*size, block_size, MemoryPool::of_this_machine());
            let device = device.map_err(|error| {
                OpenError::new(
                    error.to_string(),
                    "choose a size that is a multiple of the block size",
                )
            })?;
            Ok(Arc::new(device))
        }
        BackendSpec::File {
            path,
            size,
            preallocate,
        } => {
            let path = state.join(path);
            let device = FileDevice::open(&path, options(block_size, *preallocate))?;
            let len = device.geometry().len;
            if len < *size {
                return Err(OpenError::new(
                    format!(
                        "{} is {len} bytes long but was made with {size}",
                        path.display()
                    ),
                    "find out who cut it; restore it, or extend it again if the rest is not missed",
                ));
            }
            Ok(Arc::new(device))
        }
        BackendSpec::Device { path } => {
            let node = NodeDevice::open(&device_path(path), block_size)?;
            if node.rest() > 0 {
                tracing::warn!(
                    device = %device_path(path).display(),
                    rest_bytes = node.rest(),
                    block_size,
                    "the device is no multiple of the unit's blocks: its rest is left out"
                );
            }
            Ok(Arc::new(node))
        }
        BackendSpec::Iscsi { device } => Err(OpenError::new(
            format!("{device} is reached through the initiator only"),
            "log in to its target (sandstone initiator login)",
        )),
        BackendSpec::Volume { volume } => Err(OpenError::new(
            format!("{volume} is opened by its pool only"),
            "see `sandstone pool status`",
        )),
    }
}

/// A file that [`extend`] made longer, in bytes.
#[derive(Debug)]
pub struct Lengthened {
    /// Where it is.
    pub path: PathBuf,
    /// The length that it had.
    pub before: u64,
    /// The length that it has.
    pub now: u64,
}

/// Makes room for a larger unit beneath: extends the file. The open device sees it after
/// [`BlockDevice::refresh`]. Memory cannot grow; a device node grows by its own means.
pub fn extend(spec: &BackendSpec, state: &Path, len: u64) -> Result<Lengthened, OpenError> {
    match spec {
        BackendSpec::File {
            path, preallocate, ..
        } => {
            let path = state.join(path);
            let before = grow(&path, len, *preallocate)?;
            let now = len;
            Ok(Lengthened { path, before, now })
        }
        BackendSpec::Memory { .. } => Err(OpenError::new(
            "a memory-backed unit has a fixed size",
            "make a larger one and copy the data",
        )),
        BackendSpec::Device { path } => Err(OpenError::new(
            format!(
                "{} has the size that its own system gives it",
                path.display()
            ),
            "grow it there (lvextend, zfs set volsize, …), then ask the unit to look again",
        )),
        BackendSpec::Iscsi { device } => Err(OpenError::new(
            format!("{device} has the size that its own array gives it"),
            "grow it there; the new size is noticed by itself",
        )),
        BackendSpec::Volume { volume } => Err(OpenError::new(
            format!("{volume} has the size that its pool gives it"),
            format!("use `sandstone volume set volsize=SIZE {volume}`"),
        )),
    }
}

fn device_path(path: &Path) -> PathBuf {
    Path::new("/dev").join(path)
}

fn options(block_size: u32, preallocate: bool) -> FileOptions {
    FileOptions {
        block_size,
        preallocate,
        direct: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_never_promised_beyond_what_there_is() {
        let pool = MemoryPool::new(1 << 30);
        pool.promise(600 << 20);
        enough_memory(424 << 20, &pool).expect("it is left");
        let error = enough_memory(425 << 20, &pool).expect_err("more than is left");
        assert!(error.to_string().contains("424M are left"), "{error}");
        assert_eq!(error.advice(), "choose at most 424M, or use a file");
        let huge = BackendSpec::Memory { size: 1 << 50 };
        let error = create(&huge, Path::new("/"), 512).expect_err("no machine has that");
        assert!(error.to_string().contains("1P of memory"), "{error}");
    }

    #[test]
    fn a_memory_unit_of_another_time_is_thin() {
        let spec = BackendSpec::Memory { size: 1 << 50 };
        let device = open(&spec, Path::new("/"), 512).expect("thin");
        let pool = device.usage().expect("known").pool.expect("a pool");
        assert!(pool.available < 1 << 50);
        let error = open(&BackendSpec::Memory { size: 1000 }, Path::new("/"), 512);
        assert!(
            error
                .expect_err("no multiple")
                .to_string()
                .contains("choose a size")
        );
    }
}

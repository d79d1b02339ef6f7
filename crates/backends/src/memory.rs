//! Backend in main memory: its contents vanish with the daemon.

use std::path::PathBuf;
use std::sync::Arc;

use crate::backend::{Backend, Lengthened, Opening};
use block::memory::MemoryDevice;
use block::memory_pool::MemoryPool;
use block::{BlockDevice, OpenError};
use model::backend::Capabilities;
use model::quantity::format_size;

/// Backend in memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Size in bytes.
    pub size: u64,
}

impl Memory {
    /// Opens the memory with blocks of `block_size`, thin.
    ///
    /// # Errors
    /// The size is no multiple of the blocks.
    pub fn open(&self, block_size: u32) -> Result<Arc<dyn BlockDevice>, OpenError> {
        let device = MemoryDevice::in_pool(self.size, block_size, MemoryPool::of_this_machine());
        let device = device.map_err(|error| {
            OpenError::new(
                error.to_string(),
                "choose a size that is a multiple of the block size",
            )
        })?;
        Ok(Arc::new(device))
    }
}

impl Backend for Memory {
    /// Returns no ability: memory is redirected on write, so that nothing is overwritten in place.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn create(&self, _: u32) -> Result<Option<PathBuf>, OpenError> {
        suffices(self.size, &MemoryPool::of_this_machine())?;
        Ok(None)
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Arc<dyn BlockDevice>, OpenError> {
        Self::open(self, opening.block_size)
    }

    fn extend(&self, _: u64) -> Result<Lengthened, OpenError> {
        Err(OpenError::new(
            "a memory-backed unit has a fixed size",
            "make a larger one and copy the data",
        ))
    }
}

/// Refuses a new memory-backed unit that could not be filled: its clients rely on its size. (After
/// a restart on a machine with less memory it is served all the same, and is full early.)
fn suffices(size: u64, pool: &MemoryPool) -> Result<(), OpenError> {
    let left = pool.unpromised();
    if size <= left {
        return Ok(());
    }
    Err(OpenError::new(
        format!(
            "{} of memory are not available: memory-backed units may take {} together, and {} are left",
            format_size(size),
            format_size(pool.capacity()),
            format_size(left)
        ),
        format!("choose at most {}, or use a file", format_size(left)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_never_promised_beyond_what_there_is() {
        let pool = MemoryPool::new(1 << 30);
        pool.promise(600 << 20);
        suffices(424 << 20, &pool).expect("it is left");
        let error = suffices(425 << 20, &pool).expect_err("more than is left");
        assert!(error.to_string().contains("424M are left"), "{error}");
        assert_eq!(error.next(), "choose at most 424M, or use a file");
        let huge = Memory { size: 1 << 50 };
        let error = huge.create(512).expect_err("no machine has that");
        assert!(error.to_string().contains("1P of memory"), "{error}");
    }

    #[test]
    fn a_memory_unit_of_another_time_is_thin() {
        let device = Memory { size: 1 << 50 }.open(512).expect("thin");
        let pool = device.usage().expect("known").pool.expect("a pool");
        assert!(pool.available < 1 << 50);
        let error = Memory { size: 1000 }.open(512).expect_err("no multiple");
        assert!(error.to_string().contains("choose a size"), "{error}");
    }
}

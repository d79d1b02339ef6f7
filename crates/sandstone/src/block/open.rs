//! From the configuration's description of a backend to a device that is open.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::BlockDevice;
use super::device::NodeDevice;
use super::file::{FileDevice, FileOptions, grow};
use super::memory::MemoryDevice;
use crate::config::model::BackendSpec;

/// Why a backend could not be opened, created or extended: what is wrong, that nothing was
/// changed, what to try next.
#[derive(Debug)]
pub struct OpenError {
    problem: String,
    advice: String,
    source: Option<io::Error>,
}

impl OpenError {
    pub(super) fn new(problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            advice: advice.into(),
            source: None,
        }
    }

    pub(super) fn system(
        problem: impl Into<String>,
        source: io::Error,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            source: Some(source),
            ..Self::new(problem, advice)
        }
    }

    /// What to try next, a clause without a full stop.
    pub fn advice(&self) -> &str {
        &self.advice
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        write!(f, "; nothing was changed; {}", self.advice)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Makes what a new logical unit needs: a file of the right size. Nothing for other kinds. An
/// existing file is refused, never overwritten.
pub fn create(spec: &BackendSpec, state: &Path, block_size: u32) -> Result<(), OpenError> {
    match spec {
        BackendSpec::File {
            path,
            size,
            preallocate,
        } => FileDevice::create(&state.join(path), *size, options(block_size, *preallocate)),
        BackendSpec::Memory { .. } | BackendSpec::Device { .. } => Ok(()),
    }
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
            let device = MemoryDevice::new(*size, block_size, memory_cap()).map_err(|error| {
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
            Ok(Arc::new(NodeDevice::open(&device_path(path), block_size)?))
        }
    }
}

/// Makes room for a larger unit beneath: extends the file. The open device sees it after
/// [`BlockDevice::refresh`]. Memory cannot grow; a device node grows by its own means.
pub fn extend(spec: &BackendSpec, state: &Path, len: u64) -> Result<(), OpenError> {
    match spec {
        BackendSpec::File {
            path, preallocate, ..
        } => grow(&state.join(path), len, *preallocate),
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
    }
}

/// What one memory device may store: nine tenths of the memory that is free now. A unit larger than
/// that is thin, and runs out of space before the daemon runs out of memory.
fn memory_cap() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = told
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024 / 10 * 9)
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
        let cap = memory_cap();
        assert!(cap > 1 << 20 && cap < 1 << 50, "{cap}");
        let spec = BackendSpec::Memory { size: 1 << 50 };
        let device = open(&spec, Path::new("/"), 512).expect("thin");
        assert!(
            device
                .usage()
                .expect("known")
                .pool
                .expect("a pool")
                .available
                < 1 << 50
        );
        let error = open(&BackendSpec::Memory { size: 1000 }, Path::new("/"), 512);
        assert!(
            error
                .expect_err("no multiple")
                .to_string()
                .contains("choose a size")
        );
    }
}

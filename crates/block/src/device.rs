//! A device on an existing device node: a disk, a partition, a logical volume, a real zvol.
//!
//! The node is opened with direct I/O, and exclusively, so that a device in use (a mounted one,
//! say) is refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{OFlags, ioctl_blkpbszget, ioctl_blksszget};

use super::file::{lock, patiently, use_direct};
use super::kernel_file::KernelFile;
use super::open_error::{OpenError, whole_blocks};
use super::{BlockDevice, BlockError, Geometry, Lane, Request, Submitted, Ticket, Usage};
use hint::{Holder, Place};

mod topology;

use topology::Topology;

/// Optimal request size if the kernel recommends none.
const OPTIMAL: u32 = 256 << 10;

/// Open block device node that nobody else uses.
#[derive(Debug)]
pub struct NodeDevice {
    io: Arc<KernelFile>,
    /// Bytes that it had when it was opened, whole blocks or not.
    bytes: u64,
}

impl NodeDevice {
    /// Opens a node below /dev for logical blocks of `block_size` (512 or 4096).
    pub fn open(path: &Path, block_size: u32) -> Result<Self, OpenError> {
        let name = path.display().to_string();
        let place = Place::Device(path);
        let failed = |error: io::Error| match held(path, &error) {
            Some(holder) => OpenError::new(
                format!("{name} is in use: {}", holder.told()),
                holder.next(),
            ),
            None => OpenError::system(format!("cannot open {name}"), error, place),
        };
        // The check comes first: opening another kind of node (a FIFO, a tape) might already do
        // harm.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.file_type().is_block_device() {
            return Err(OpenError::new(
                format!("{name} is not a block device"),
                "name a node below /dev, or use a file backend for a file",
            ));
        }
        let exclusive = OFlags::EXCL.bits() as i32;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(exclusive);
        let file = patiently(|| options.open(path)).map_err(failed)?;
        lock(&file, &name, place)?;
        let geometry = examine(&file, &name, block_size)
            .map_err(|error| OpenError::system(format!("cannot examine {name}"), error, place))??;
        let bytes = size(&file).map_err(failed)?;
        let direct = use_direct(&file, block_size);
        Ok(Self {
            io: KernelFile::new(file, name, geometry, direct, false),
            bytes,
        })
    }

    /// Opens a node that is to be served completely.
    ///
    /// # Errors
    /// As for [`Self::open`]. A node that ends within a block is refused too.
    pub fn open_whole(path: &Path, block_size: u32) -> Result<Self, OpenError> {
        let device = Self::open(path, block_size)?;
        let name = path.display().to_string();
        whole_blocks(&name, device.bytes, block_size, false)?;
        Ok(device)
    }

    /// Returns the number of bytes behind the last whole block.
    pub fn rest(&self) -> u64 {
        self.bytes % u64::from(self.io.geometry().granularity)
    }

    /// Reports whether the kernel's page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.io.is_direct()
    }
}

/// Returns the holder of a busy device.
fn held(path: &Path, error: &io::Error) -> Option<Holder> {
    (error.kind() == io::ErrorKind::ResourceBusy)
        .then(|| Holder::of(path))
        .flatten()
}

fn examine(file: &File, name: &str, block_size: u32) -> io::Result<Result<Geometry, OpenError>> {
    let logical = ioctl_blksszget(file)?;
    if logical > block_size {
        return Ok(Err(OpenError::new(
            format!("{name} has sectors of {logical} bytes, larger than blocks of {block_size}"),
            format!("use a block size of {logical}"),
        )));
    }
    let len = size(file)?;
    let len = len - len % u64::from(block_size);
    if len == 0 {
        return Ok(Err(OpenError::new(
            format!("{name} is empty"),
            "attach a medium, or choose another device",
        )));
    }
    let topology = Topology::of(file.metadata()?.rdev());
    let physical = ioctl_blkpbszget(file)?.max(block_size);
    let discard = match topology.discard {
        0 => 0,
        discard => discard.max(block_size),
    };
    Ok(Ok(Geometry {
        len,
        granularity: block_size,
        physical,
        alignment: topology.alignment,
        minimum: topology.minimum.max(physical),
        optimal: match topology.optimal {
            0 => OPTIMAL,
            optimal => optimal,
        },
        discard,
        discard_alignment: topology.discard_alignment,
        atomic_write: 0,
        thin: discard > 0,
        volatile_cache: true,
        rotation_rate: topology.rotation_rate(),
    }))
}

/// Returns the size of a device node's physical blocks in bytes, without opening the node. Returns
/// `None` if the size is not known.
pub fn physical_block_size(path: &Path) -> Option<u32> {
    let metadata = std::fs::metadata(path).ok()?;
    let physical = metadata
        .file_type()
        .is_block_device()
        .then(|| Topology::of(metadata.rdev()).physical)?;
    (physical > 0).then_some(physical)
}

/// Returns the capacity. Seeking to the end tells it without an ioctl.
fn size(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

impl BlockDevice for NodeDevice {
    fn geometry(&self) -> Geometry {
        self.io.geometry()
    }

    fn reads_on_any_lane(&self) -> bool {
        true
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        self.io.submit(request, ticket, lane)
    }

    fn lost_writes(&self) -> Option<String> {
        self.io.lost_writes()
    }

    fn acknowledge_lost_writes(&self) -> bool {
        self.io.acknowledge_lost_writes()
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        // The layers beneath a node are not visible through the node.
        Ok(Usage {
            allocated: self.geometry().len,
            pool: None,
        })
    }

    fn refresh(&self) -> Result<Geometry, BlockError> {
        // No other code uses the position of the shared descriptor.
        let len = size(self.io.file()).map_err(|error| {
            BlockError::reading(error, format!("asking for the size of {}", self.io.name()))
        })?;
        Ok(self.io.set_len(len))
    }
}

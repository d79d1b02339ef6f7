//! A device in a file, sparse or preallocated, with direct I/O if the file system supports it.
//!
//! Direct I/O keeps the data out of the kernel's page cache. If the file system's unit is larger
//! than the logical block (512-byte blocks over 4 KiB sectors), the page cache is used instead. It
//! merges parts of a sector that several sessions write at once, under the kernel's own locks. A
//! read-modify-write in this program would have to repeat those locks. Durability is equal in both
//! cases, because it comes from fdatasync alone.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{
    AtFlags, FallocateFlags, FlockOperation, OFlags, StatxFlags, fallocate, fcntl_getfl,
    fcntl_setfl, flock, fstat, fstatvfs, statx,
};
use rustix::io::Errno;

use super::kernel_file::{DirectIo, KernelFile};
use super::open_error::{OpenError, whole_blocks};
use super::{
    BlockDevice, BlockError, Geometry, Lane, PoolSpace, Request, Submitted, Ticket, Usage,
};
use hint::Place;
use pages::{PAGE_SIZE, PageMut};

/// Optimal request size, which keeps any file system busy enough.
const OPTIMAL: u32 = 256 << 10;

/// Number of attempts at something busy, and the pause between them: three seconds in all.
const ATTEMPTS: u32 = 150;
const PAUSE: Duration = Duration::from_millis(20);

/// Options of a file, fixed for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Logical block length: 512 or 4096.
    pub block_size: u32,
    /// Whether all space is reserved and stays reserved: discards then write zeros and free
    /// nothing.
    pub preallocate: bool,
    /// Whether to try direct I/O.
    pub direct: bool,
}

/// An open file that no other daemon serves.
#[derive(Debug)]
pub struct FileDevice {
    io: Arc<KernelFile>,
    preallocated: bool,
    /// Bytes that it had when it was opened, whole blocks or not.
    bytes: u64,
}

impl FileDevice {
    /// Creates a new file of `len` bytes that reads as zeros, durably. A failed call leaves no file
    /// behind. An existing file is never touched.
    pub fn create(path: &Path, len: u64, options: FileOptions) -> Result<(), OpenError> {
        let name = path.display();
        if len == 0 || !len.is_multiple_of(u64::from(options.block_size)) {
            return Err(OpenError::new(
                format!("{len} bytes is not a possible size for {name}"),
                format!(
                    "choose a multiple of the block size, {}",
                    options.block_size
                ),
            ));
        }
        let created = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        let place = Place::NewFile(path);
        let file = created.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenError::new(
                format!("{name} exists already"),
                "choose another path, or use the file as it is",
            ),
            _ => OpenError::system(format!("cannot create {name}"), error, place),
        })?;
        let filled = fill_new(&file, path, len, options.preallocate);
        filled.map_err(|error| {
            // This call created the file, and nobody has seen it.
            let _ = std::fs::remove_file(path);
            OpenError::system(
                format!("cannot extend the new {name} to {len} bytes"),
                error,
                place,
            )
        })
    }

    /// Opens an existing file and locks it against every other daemon.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, OpenError> {
        let name = path.display().to_string();
        let place = Place::DataFile(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| OpenError::system(format!("cannot open {name}"), error, place))?;
        let status = |error| OpenError::system(format!("cannot examine {name}"), error, place);
        let metadata = file.metadata().map_err(status)?;
        if !metadata.is_file() {
            let kind = if metadata.file_type().is_block_device() {
                "a block device"
            } else {
                "not a file"
            };
            return Err(OpenError::new(
                format!("{name} is {kind}"),
                "name a file, or use a device backend for a block device",
            ));
        }
        lock(&file, &name, place)?;
        let len = metadata.len() - metadata.len() % u64::from(options.block_size);
        if len == 0 {
            return Err(OpenError::new(
                format!(
                    "{name} is {} bytes long, less than one block",
                    metadata.len()
                ),
                "restore it from a backup, or delete it and create it again",
            ));
        }
        let status = fstat(&file).map_err(io::Error::from).map_err(status)?;
        let direct = if options.direct {
            use_direct(&file, options.block_size)
        } else {
            None
        };
        let unit = direct.map_or(0, |direct| direct.offset as u32);
        let fs_block = u32::try_from(status.st_blksize)
            .unwrap_or(0)
            .clamp(512, 1 << 20);
        let fs_block = if fs_block.is_power_of_two() {
            fs_block
        } else {
            PAGE_SIZE as u32
        };
        let physical = fs_block
            .min(PAGE_SIZE as u32)
            .max(unit)
            .max(options.block_size);
        let discard = if options.preallocate {
            0
        } else {
            fs_block.max(options.block_size)
        };
        let geometry = Geometry {
            len,
            granularity: options.block_size,
            physical,
            alignment: 0,
            minimum: physical.max(discard),
            optimal: OPTIMAL,
            discard,
            discard_alignment: 0,
            atomic_write: 0,
            thin: !options.preallocate,
            volatile_cache: true,
            // Neighbouring blocks of a file need not be neighbours on a disk, so an order of
            // requests gains nothing.
            rotation_rate: 1,
        };
        let io = KernelFile::new(file, name, geometry, direct, !options.preallocate);
        Ok(Self {
            io,
            preallocated: options.preallocate,
            bytes: metadata.len(),
        })
    }

    /// Opens a file that is to be served completely, because nothing else states its size.
    ///
    /// # Errors
    /// As for [`Self::open`]. A file that ends within a block is refused too.
    pub fn open_whole(path: &Path, options: FileOptions) -> Result<Self, OpenError> {
        let device = Self::open(path, options)?;
        let name = path.display().to_string();
        whole_blocks(&name, device.bytes, options.block_size, true)?;
        Ok(device)
    }

    /// Reports whether the kernel's page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.io.is_direct()
    }
}

/// Gives a new file its length (and space), and makes the file and its name durable.
fn fill_new(file: &File, path: &Path, len: u64, preallocate: bool) -> io::Result<()> {
    file.set_len(len)?;
    if preallocate {
        reserve(file, len)?;
    }
    file.sync_all()?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Reserves the space of a file's first `len` bytes.
fn reserve(file: &File, len: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, len) {
        Err(Errno::OPNOTSUPP) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the file system cannot reserve space",
        )),
        other => Ok(other?),
    }
}

/// Makes an existing file longer; the added part reads as zeros. A device that is open on the file
/// sees the new length after [`BlockDevice::refresh`]. Returns the previous length.
pub fn grow(path: &Path, len: u64, preallocate: bool) -> Result<u64, OpenError> {
    let name = path.display();
    let failed = |error: io::Error| {
        let place = match error.kind() {
            io::ErrorKind::NotFound => Place::DataFile(path),
            _ => Place::NewFile(path),
        };
        OpenError::system(format!("cannot extend {name} to {len} bytes"), error, place)
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(failed)?;
    let before = file.metadata().map_err(failed)?.len();
    if len < before {
        return Err(OpenError::new(
            format!("{name} holds {before} bytes, and a size of {len} would cut off data"),
            "choose a larger size; shrinking is not possible",
        ));
    }
    let reserved = if preallocate {
        reserve(&file, len)
    } else {
        Ok(())
    };
    let grown = reserved
        .and_then(|()| file.set_len(len))
        .and_then(|()| file.sync_all());
    grown.map_err(|error| {
        // The added part holds no data yet.
        let _ = file.set_len(before);
        failed(error)
    })?;
    Ok(before)
}

/// Undoes [`grow`] before anybody could write to the added part: a file of `now` bytes gets
/// `before` bytes again. A file with any other length was changed by somebody else, and stays.
///
/// # Errors
/// The file cannot be changed.
pub fn cut_back(path: &Path, now: u64, before: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    if before < now && file.metadata()?.len() == now {
        file.set_len(before)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Takes the lock that keeps a second daemon away. The lock lasts as long as the descriptor.
pub(super) fn lock(file: &File, name: &str, place: Place<'_>) -> Result<(), OpenError> {
    let locked = patiently(|| {
        flock(file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)
    });
    locked.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::new(
            format!("{name} is in use by another process or logical unit"),
            place.next(&error),
        ),
        _ => OpenError::system(format!("cannot lock {name}"), error, place),
    })
}

/// Repeats an attempt for a while if something is busy. A thread may still be closing the device.
/// Or a killed daemon is still ending: the kernel closes its files only when its last requests are
/// over.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..ATTEMPTS {
        match attempt() {
            Err(error)
                if [io::ErrorKind::WouldBlock, io::ErrorKind::ResourceBusy]
                    .contains(&error.kind()) =>
            {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
    attempt()
}

/// Turns direct I/O on, if blocks of `block_size` can be moved with it.
pub(super) fn use_direct(file: &File, block_size: u32) -> Option<DirectIo> {
    let direct = match told_alignment(file) {
        Some(told) => told,
        // An older kernel does not tell, so try.
        None => DirectIo {
            memory: block_size as usize,
            offset: block_size as usize,
        },
    };
    let fits =
        direct.offset > 0 && direct.offset <= block_size as usize && direct.memory <= PAGE_SIZE;
    if !fits {
        return None;
    }
    let flags = fcntl_getfl(file).ok()?;
    fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    let mut page = PageMut::zeroed();
    let probed = rustix::io::pread(file, &mut page[..block_size as usize], 0);
    if probed.is_err() {
        // Return to the page cache. An unreadable first block is reported to the reader of the
        // block.
        fcntl_setfl(file, flags).ok()?;
        return None;
    }
    Some(direct)
}

/// Returns the alignment for direct I/O that statx reports. `offset` is 0 if there is no direct
/// I/O.
fn told_alignment(file: &File) -> Option<DirectIo> {
    let status = statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::DIOALIGN);
    told.then_some(DirectIo {
        memory: (status.stx_dio_mem_align as usize).max(1),
        offset: status.stx_dio_offset_align as usize,
    })
}

impl BlockDevice for FileDevice {
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
        let failed = |errno: Errno| {
            BlockError::reading(
                errno.into(),
                format!("asking for the space of {}", self.io.name()),
            )
        };
        let status = fstat(self.io.fd()).map_err(failed)?;
        let system = fstatvfs(self.io.fd()).map_err(failed)?;
        // Blocks reserved for root are not available to the daemon.
        let blocks_in_use = system.f_blocks.saturating_sub(system.f_bfree);
        let pool = PoolSpace {
            available: system.f_bavail * system.f_frsize,
            capacity: (blocks_in_use + system.f_bavail) * system.f_frsize,
        };
        Ok(Usage {
            allocated: status.st_blocks as u64 * 512,
            pool: (!self.preallocated).then_some(pool),
        })
    }

    fn refresh(&self) -> Result<Geometry, BlockError> {
        let status = fstat(self.io.fd()).map_err(|errno| {
            BlockError::reading(
                errno.into(),
                format!("asking for the size of {}", self.io.name()),
            )
        })?;
        Ok(self.io.set_len(status.st_size as u64))
    }
}

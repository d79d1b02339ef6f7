//! Source of the devices of pools. Files and device nodes of this machine are found by their paths.
//! Disks of other machines are found by their names (`naa.…`), and the daemon's initiator reaches
//! them.
//!
//! Every write to another machine's disk is durable (FUA), whatever the disk's cache. If that
//! machine restarted between a write and the next flush, its cache would be empty and the flush
//! would succeed, and nobody could tell.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use store::engine::LeafLabels;
use store::format::SECTOR_SIZE;

use super::known::KnownDevice;
use super::label;
use block::device::NodeDevice;
use block::fence::{FenceOrder, FenceState, Fencing};
use block::file::{FileDevice, FileOptions};
use block::lane::{Observer, Outcome};
use block::{
    BlockDevice, BlockError, Geometry, Lane, OpenError, Request, Submitted, Ticket, Usage,
};
use hint::Place;
use initiator::device::MultipathDevice;
use initiator::host_adapter::HostAdapter;
use model::device_name::{self, is_remote};
use model::{Error, ErrorKind};

/// Options with which the files of vdevs are used.
pub(crate) const FILE_OPTIONS: FileOptions = FileOptions {
    block_size: SECTOR_SIZE as u32,
    preallocate: false,
    direct: true,
};

/// Longest time for a device to be opened and to identify itself.
const PATIENCE: Duration = Duration::from_secs(20);
/// Part of that time for the sessions of another machine's disk to come up.
const LOGIN: Duration = Duration::from_secs(10);

/// Time for which I/O waits if all paths of another machine's disk are down. Then the pool goes on
/// without the disk. It is shorter than the engine's own patience, after which a disk is faulted,
/// not missing.
const ALL_PATHS_DOWN: Duration = Duration::from_secs(10);

/// Opens devices for pools.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    initiator: Option<Arc<HostAdapter>>,
    /// Longest time for sessions to come up.
    login: Duration,
}

impl Disks {
    /// Returns a source of this machine's devices and of the disks that `initiator` reaches.
    pub fn with(initiator: Arc<HostAdapter>) -> Self {
        Self {
            initiator: Some(initiator),
            login: LOGIN,
        }
    }

    /// Returns an equal source that waits for no sessions, for a caller that has already waited for
    /// all of them.
    pub(crate) fn at_once(&self) -> Self {
        Self {
            login: Duration::ZERO,
            ..self.clone()
        }
    }

    /// Waits for sessions that are still coming up and may show these disks. It waits for all of
    /// them together, and skips targets at which none of the disks was seen.
    pub(crate) fn settle(&self, wanted: &[KnownDevice]) {
        let Some(initiator) = &self.initiator else {
            return;
        };
        let wanted = wanted.iter().filter(|known| is_remote(&known.path));
        let wanted: Vec<&KnownDevice> = wanted.collect();
        let names: Vec<&str> = wanted
            .iter()
            .filter_map(|known| device_name::of_path(&known.path))
            .collect();
        let may_show = |target: &str| {
            let mut wanted = wanted.iter().map(|known| &known.targets);
            wanted.any(|seen_at| seen_at.is_empty() || seen_at.iter().any(|at| at == target))
        };
        initiator.settle(&names, may_show, self.login);
    }

    /// Returns the targets that show another machine's disk. The list is empty if no target shows
    /// it, or if the disk is this machine's.
    pub(crate) fn targets_of(&self, path: &Path) -> Vec<String> {
        let (Some(name), Some(initiator)) = (device_name::of_path(path), &self.initiator) else {
            return Vec::new();
        };
        let devices = initiator.devices().into_iter();
        let of_it = devices.filter(|device| device.nmp.name == name);
        let mut targets: Vec<String> = of_it
            .flat_map(|device| device.ways.into_iter().map(|way| way.target))
            .collect();
        targets.sort();
        targets.dedup();
        targets
    }

    /// Opens a device exclusively for one pool.
    ///
    /// # Errors
    /// The device is missing, in use, or of a kind that cannot hold a pool.
    pub(crate) fn open(&self, path: &Path) -> Result<Arc<dyn BlockDevice>, OpenError> {
        if let Some(name) = device_name::of_path(path) {
            return Ok(Arc::new(self.remote(name)?));
        }
        let is_node =
            std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
        Ok(if is_node {
            Arc::new(NodeDevice::open(path, SECTOR_SIZE as u32)?)
        } else {
            Arc::new(FileDevice::open(path, FILE_OPTIONS)?)
        })
    }

    fn remote(&self, name: &str) -> Result<RemoteDisk, OpenError> {
        let Some(initiator) = &self.initiator else {
            return Err(OpenError::new(
                format!("{name} is a disk of another machine, which only the daemon can reach"),
                "name files and devices of this machine, or ask the daemon (sandstone pool)",
            ));
        };
        let opened = initiator.device_for("a pool", name, self.login);
        let device =
            opened.map_err(|error| OpenError::new(format!("{name}: {error}"), error.next()))?;
        let block = device.geometry().granularity;
        if !(SECTOR_SIZE as u32).is_multiple_of(block) {
            return Err(OpenError::new(
                format!(
                    "{name} has blocks of {block} bytes, but a pool writes blocks of {SECTOR_SIZE}"
                ),
                "use a disk with blocks of 512 or 4096 bytes",
            ));
        }
        let device = device.with_patience(ALL_PATHS_DOWN);
        Ok(RemoteDisk(Arc::new(InUse(device))))
    }

    /// Opens a device exclusively for one pool, and reads its labels.
    ///
    /// # Errors
    /// The device is missing, in use, cannot be read, or does not answer.
    pub(crate) fn open_with_labels(
        &self,
        path: &Path,
    ) -> Result<(Arc<dyn BlockDevice>, LeafLabels), Error> {
        self.open_and_look(path, label::read)
    }

    /// Opens a device exclusively for one pool, and inspects its contents. The device is locked
    /// before it is read, so that nobody writes labels in between. A device that does not answer is
    /// given up.
    ///
    /// # Errors
    /// The device is missing, in use, cannot be read, or does not answer.
    pub(crate) fn open_and_look<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl FnOnce(&dyn BlockDevice) -> Result<T, BlockError> + Send + 'static,
    ) -> Result<(Arc<dyn BlockDevice>, T), Error> {
        let (reply, answer) = channel();
        let (disks, at) = (self.clone(), path.to_owned());
        let work = move || {
            let opened = disks
                .open(&at)
                .map_err(|error| Error::new(ErrorKind::InUse, error.message(), error.next()));
            let opened = opened.and_then(|device| {
                let seen = look(&*device).map_err(|error| label::failed("read", &at, error))?;
                Ok((device, seen))
            });
            // The requester may have stopped waiting.
            drop(reply.send(opened));
        };
        let thread = std::thread::Builder::new().name("opening".to_owned());
        thread
            .spawn(work)
            .map_err(|error| Error::system(Place::Process, "start a thread", error))?;
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{} did not answer within {} seconds",
                    path.display(),
                    PATIENCE.as_secs()
                ),
                "see the kernel's log, and check the device and its cables",
            ))
        })
    }

    /// Reports whether there is a file or node at the path, or a session that shows the disk.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        match (device_name::of_path(path), &self.initiator) {
            (None, _) => path.exists(),
            (Some(name), Some(initiator)) => initiator.device(name, self.login).is_some(),
            (Some(_), None) => false,
        }
    }

    /// Reports whether the device can be opened now: another machine's disk needs a live path. This
    /// waits for nothing.
    pub(crate) fn is_there_now(&self, path: &Path) -> bool {
        match (device_name::of_path(path), &self.initiator) {
            (None, _) => path.exists(),
            (Some(name), Some(initiator)) => {
                let device = initiator.device(name, Duration::ZERO);
                device.is_some_and(|device| device.fault().is_none())
            }
            (Some(_), None) => false,
        }
    }

    /// Wakes the check for returning disks at once: a disk was given up, or may be back.
    pub(crate) fn look_again(&self) {
        if let Some(initiator) = &self.initiator {
            initiator.given_up();
        }
    }

    /// Returns the names of other machines' disks that sessions show.
    pub(crate) fn remote_names(&self) -> Vec<PathBuf> {
        let devices = self.initiator.iter().flat_map(|host| host.devices());
        let names = devices.map(|device| PathBuf::from(device.nmp.name));
        names.filter(|name| is_remote(name)).collect()
    }

    /// Reads the labels of a device, whoever uses it: looking must be possible, and does no harm.
    /// Returns `None` if the device cannot be read, because it then holds no pool that could be
    /// imported.
    pub(crate) fn look_at(&self, path: &Path) -> Option<LeafLabels> {
        match (device_name::of_path(path), &self.initiator) {
            (None, _) => label::read_unlocked(path).ok(),
            (Some(name), Some(initiator)) => {
                let device = initiator.device(name, self.login)?;
                // A device that cannot be queried would block this thread.
                if device.fault().is_some() {
                    return None;
                }
                label::read(&device).ok()
            }
            (Some(_), None) => None,
        }
    }

    /// Reads the labels of devices that are in use. Devices that do not answer in time are left
    /// out.
    pub(crate) fn look_at_all(&self, paths: &[PathBuf]) -> Vec<LeafLabels> {
        let (reply, answers) = channel();
        for path in paths {
            let (disks, at, reply) = (self.clone(), path.clone(), reply.clone());
            // The requester may have stopped waiting.
            let work = move || drop(reply.send(disks.look_at(&at)));
            // Without a thread, one label less is read.
            let thread = std::thread::Builder::new().name("looking".to_owned());
            drop(thread.spawn(work));
        }
        drop(reply);
        let until = Instant::now() + PATIENCE;
        let left = || until.saturating_duration_since(Instant::now());
        std::iter::from_fn(|| answers.recv_timeout(left()).ok())
            .flatten()
            .collect()
    }
}

/// Disk of another machine.
#[derive(Debug)]
struct RemoteDisk(Arc<InUse>);

/// Claim that the disk is the pool's. It holds until all requests are answered, even if the pool
/// gave the disk up before. A write that still waits for a path would overwrite another user's
/// data.
#[derive(Debug)]
struct InUse(MultipathDevice);

impl Observer for InUse {
    fn completed(&self, _: u64, outcome: Outcome) -> Outcome {
        outcome
    }
}

impl BlockDevice for RemoteDisk {
    fn geometry(&self) -> Geometry {
        let of_disk = self.0.0.geometry();
        let sector = SECTOR_SIZE as u64;
        Geometry {
            len: of_disk.len / sector * sector,
            volatile_cache: false,
            ..of_disk
        }
    }

    fn submit(&self, request: Request, mut ticket: Ticket, lane: &mut Lane) -> Submitted {
        let in_use = Arc::clone(&self.0);
        ticket.observe(in_use, 0);
        self.0.0.submit(durable(request), ticket, lane)
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.0.0.usage()
    }

    fn fault(&self) -> Option<String> {
        self.0.0.fault()
    }

    fn fence(&self, order: FenceOrder) -> Option<Fencing> {
        self.0.0.fence(order)
    }

    fn fence_state(&self) -> Option<FenceState> {
        self.0.0.fence_state()
    }
}

/// Turns a request into one that is answered once it is durable.
fn durable(request: Request) -> Request {
    match request {
        Request::Write { offset, data, .. } => Request::Write {
            offset,
            data,
            durable: true,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        for (path, expected) in [
            ("naa.652534e0000000000000100000000001", true),
            ("t10.ATA_X", true),
            ("./naa.652534e0000000000000100000000001", false),
            ("/tmp/naa.6", false),
            ("naa.6/x", false),
            ("/dev/sda", false),
        ] {
            assert_eq!(is_remote(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn without_the_daemon_there_are_no_disks_of_other_machines() {
        let error = Disks::default().open(Path::new("naa.6"));
        let error = error.expect_err("nobody logs in").to_string();
        assert!(error.contains("only the daemon can reach"), "{error}");
        assert!(!Disks::default().exists(Path::new("naa.6")));
    }

    #[test]
    fn every_write_is_durable() {
        let data = pages::Pages::zeroes(4096);
        let write = Request::Write {
            offset: 0,
            data,
            durable: false,
        };
        assert!(matches!(
            durable(write),
            Request::Write { durable: true, .. }
        ));
    }
}

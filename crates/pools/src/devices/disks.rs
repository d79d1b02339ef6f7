//! Where the devices of pools come from: files and device nodes of this machine by their paths, and disks of other
//! machines by their names (`naa.…`), which the daemon's initiator reaches.
//!
//! A disk of another machine is written durably (FUA), whatever its cache: were that machine to restart between a
//! write and the flush behind it, its cache would be empty and the flush would succeed, and nobody could tell.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use store::format::SECTOR_SIZE;
use store::pool::LeafLabels;

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
use initiator::host::Host;
use model::device_name::{self, is_remote};
use model::{Error, ErrorKind};

/// How files of vdevs are used.
pub(crate) const FILE_OPTIONS: FileOptions = FileOptions {
    block_size: SECTOR_SIZE as u32,
    preallocate: false,
    direct: true,
};

/// So long a device may take to be opened and say who it is.
const PATIENCE: Duration = Duration::from_secs(20);
/// So long of that for its sessions to come up, where it is another machine's.
const LOGIN: Duration = Duration::from_secs(10);

/// So long I/O waits for a disk of another machine all of whose paths are down; then the pool goes on without it.
/// Less than the engine's own patience, after which a disk is faulted instead of away.
const ALL_PATHS_DOWN: Duration = Duration::from_secs(10);

/// Opens devices for pools.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    initiator: Option<Arc<Host>>,
    /// So long sessions may take to come up.
    login: Duration,
}

impl Disks {
    /// This machine's, and what `initiator` reaches.
    pub fn with(initiator: Arc<Host>) -> Self {
        Self {
            initiator: Some(initiator),
            login: LOGIN,
        }
    }

    /// The same, for who has waited for all sessions already.
    pub(crate) fn at_once(&self) -> Self {
        Self {
            login: Duration::ZERO,
            ..self.clone()
        }
    }

    /// Waits for sessions that are still coming up and may show these disks: all of them together, not one after the
    /// other, and not for targets that none of them was seen at.
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

    /// The targets at which another machine's disk is seen; none where it is not, or is this machine's.
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

    /// Opens a device for one pool alone.
    ///
    /// # Errors
    /// It is not there, is in use, or is nothing that a pool can lie on.
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
                format!("{name} is a disk of another machine, which only the daemon reaches"),
                "name files and devices of this machine, or ask the daemon (sandstone pool)",
            ));
        };
        let opened = initiator.device_for("a pool", name, self.login);
        let device =
            opened.map_err(|error| OpenError::new(format!("{name}: {error}"), error.next()))?;
        let block = device.geometry().granularity;
        if !(SECTOR_SIZE as u32).is_multiple_of(block) {
            return Err(OpenError::new(
                format!("{name} has blocks of {block} bytes, and a pool writes {SECTOR_SIZE}"),
                "use a disk with blocks of 512 or 4096 bytes",
            ));
        }
        let device = device.with_patience(ALL_PATHS_DOWN);
        Ok(RemoteDisk(Arc::new(InUse(device))))
    }

    /// Opens a device for one pool alone, and reads its labels.
    ///
    /// # Errors
    /// It is not there, is in use, cannot be read, or does not answer.
    pub(crate) fn open_with_labels(
        &self,
        path: &Path,
    ) -> Result<(Arc<dyn BlockDevice>, LeafLabels), Error> {
        self.open_and_look(path, label::read)
    }

    /// Opens a device for one pool alone, and looks at what it holds. First locked, then read: nobody writes labels in
    /// between. One that does not answer is given up.
    ///
    /// # Errors
    /// It is not there, is in use, cannot be read, or does not answer.
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
                .map_err(|error| Error::new(ErrorKind::InUse, error.problem(), error.advice()));
            let opened = opened.and_then(|device| {
                let seen = look(&*device).map_err(|error| label::failed("read", &at, error))?;
                Ok((device, seen))
            });
            // Nobody may wait any more.
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

    /// Whether there is something to open: a file or node, or a disk that a session shows.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        match (device_name::of_path(path), &self.initiator) {
            (None, _) => path.exists(),
            (Some(name), Some(initiator)) => initiator.device(name, self.login).is_some(),
            (Some(_), None) => false,
        }
    }

    /// Whether there is something to open now: another machine's disk has a path that lives. Waits for nothing.
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

    /// A disk was given up, or may be back: whoever looks after that has to do so now.
    pub(crate) fn look_again(&self) {
        if let Some(initiator) = &self.initiator {
            initiator.given_up();
        }
    }

    /// The disks of other machines that sessions show.
    pub(crate) fn remote_names(&self) -> Vec<PathBuf> {
        let devices = self.initiator.iter().flat_map(|host| host.devices());
        let names = devices.map(|device| PathBuf::from(device.nmp.name));
        names.filter(|name| is_remote(name)).collect()
    }

    /// The labels of a device as they are, whoever uses it: looking must be possible, and do no harm. `None` where
    /// it cannot be read; that holds no pool that could be imported.
    pub(crate) fn look_at(&self, path: &Path) -> Option<LeafLabels> {
        match (device_name::of_path(path), &self.initiator) {
            (None, _) => label::read_unlocked(path).ok(),
            (Some(name), Some(initiator)) => {
                let device = initiator.device(name, self.login)?;
                // One that cannot be asked would keep us waiting.
                if device.fault().is_some() {
                    return None;
                }
                label::read(&device).ok()
            }
            (Some(_), None) => None,
        }
    }

    /// The labels of devices that are in use, as they are; without those that do not answer in time.
    pub(crate) fn look_at_all(&self, paths: &[PathBuf]) -> Vec<LeafLabels> {
        let (reply, answers) = channel();
        for path in paths {
            let (disks, at, reply) = (self.clone(), path.clone(), reply.clone());
            // Nobody may wait any more.
            let work = move || drop(reply.send(disks.look_at(&at)));
            // Without a thread one label less is looked at.
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

/// A disk of another machine.
#[derive(Debug)]
struct RemoteDisk(Arc<InUse>);

/// That it is the pool's: until all that it was asked is answered, also where the pool has given it up before. A
/// write that still waits for a path would land on whatever somebody else has there by then.
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

/// The same, answered when it is durable.
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
        assert!(error.contains("only the daemon reaches"), "{error}");
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

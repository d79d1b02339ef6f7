//! The devices of an open pool: what the engine asks of a leaf goes to a file or device node, and the
//! answer comes back in the engine's words.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pages::Pages;
use slab::Slab;
use store::format::SECTOR_SIZE;
use store::pool::{Event, LeafLabels, Pool};
use store::vdev::{
    DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, DeviceRequest, IoId, LeafId,
};

use super::label;
use crate::block::device::NodeDevice;
use crate::block::file::{FileDevice, FileOptions};
use crate::block::lane::{Outcome, Waker};
use crate::block::open::OpenError;
use crate::block::{
    BlockDevice, BlockError, BlockErrorKind, Done, Lane, Request, Submitted, Ticket,
};
use crate::config::{Error, ErrorKind};

/// How files of vdevs are used.
pub(super) const FILE_OPTIONS: FileOptions = FileOptions {
    block_size: SECTOR_SIZE as u32,
    preallocate: false,
    direct: true,
};

/// Opens a file or device node for this pool alone.
///
/// # Errors
/// It is not there, is in use, or is neither.
pub(super) fn open(path: &Path) -> Result<Arc<dyn BlockDevice>, OpenError> {
    let is_node = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    Ok(if is_node {
        Arc::new(NodeDevice::open(path, SECTOR_SIZE as u32)?)
    } else {
        Arc::new(FileDevice::open(path, FILE_OPTIONS)?)
    })
}

/// So long a device may take to be opened and say who it is.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens a file or device node for this pool alone, and reads its labels. First locked, then read: nobody
/// writes labels in between. One that does not answer is given up.
///
/// # Errors
/// It is not there, is in use, cannot be read, or does not answer.
pub(super) fn open_with_labels(path: &Path) -> Result<(Arc<dyn BlockDevice>, LeafLabels), Error> {
    let (reply, answer) = channel();
    let at = path.to_owned();
    let work = move || {
        let opened = open(&at)
            .map_err(|error| Error::new(ErrorKind::InUse, error.problem(), error.advice()));
        let opened = opened.and_then(|device| {
            let labels = label::read(&at)
                .map_err(|error| Error::storage(format!("read {}", at.display()), error))?;
            Ok((device, labels))
        });
        // Nobody may wait any more.
        drop(reply.send(opened));
    };
    let thread = std::thread::Builder::new().name("opening".to_owned());
    thread
        .spawn(work)
        .map_err(|error| Error::storage("start a thread", error))?;
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

/// The leaves of a pool and the lane that their requests take.
#[derive(Debug)]
pub(super) struct Devices {
    lane: Lane,
    leaves: HashMap<LeafId, Arc<dyn BlockDevice>>,
    /// Devices of spares that stand ready, by their guids.
    spares: HashMap<u64, Arc<dyn BlockDevice>>,
    flights: Slab<Flight>,
    /// Answers that came at once.
    ready: Vec<(IoId, DeviceOutcome)>,
    /// Kept between turns to spare its allocation.
    taken: Vec<(u64, Outcome)>,
}

/// A request that a device works on.
#[derive(Clone, Copy, Debug)]
struct Flight {
    io: IoId,
    op: Op,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Read { len: usize },
    Write,
    Flush,
    Trim,
}

impl Devices {
    /// No devices yet.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub(super) fn new(io_uring: bool) -> io::Result<Self> {
        Ok(Self {
            lane: Lane::standing_with(io_uring)?,
            leaves: HashMap::new(),
            spares: HashMap::new(),
            flights: Slab::new(),
            ready: Vec::new(),
            taken: Vec::new(),
        })
    }

    /// A leaf has a device.
    pub(super) fn attach(&mut self, leaf: LeafId, device: Arc<dyn BlockDevice>) {
        self.leaves.insert(leaf, device);
    }

    /// A leaf's device is not used any more. What it was asked is answered yet.
    pub(super) fn detach(&mut self, leaf: LeafId) -> Option<Arc<dyn BlockDevice>> {
        self.leaves.remove(&leaf)
    }

    /// Gives a spare that stands in its device.
    pub(super) fn heed(&mut self, event: &Event, pool: &Pool) {
        if let Event::SpareInUse { leaf, guid } = event
            && pool.leaf(*guid) == Some(*leaf)
            && let Some(device) = self.spares.remove(guid)
        {
            self.attach(*leaf, device);
        }
    }

    /// The devices of leaves that are not used any more. From now on the leaves have none.
    pub(super) fn unused(&mut self, pool: &Pool) -> Vec<(LeafId, Arc<dyn BlockDevice>)> {
        let is_unused = |leaf: &LeafId| !pool.uses(*leaf);
        self.leaves.extract_if(|leaf, _| is_unused(leaf)).collect()
    }

    /// The device of a leaf.
    pub(super) fn of(&self, leaf: LeafId) -> Option<&Arc<dyn BlockDevice>> {
        self.leaves.get(&leaf)
    }

    /// A spare has a device.
    pub(super) fn keep_spare(&mut self, guid: u64, device: Arc<dyn BlockDevice>) {
        self.spares.insert(guid, device);
    }

    /// The device of a spare, which is used from now on, or not kept any more.
    pub(super) fn take_spare(&mut self, guid: u64) -> Option<Arc<dyn BlockDevice>> {
        self.spares.remove(&guid)
    }

    /// The spares that have a device and stand ready.
    pub(super) fn ready_spares(&self) -> Vec<u64> {
        self.spares.keys().copied().collect()
    }

    /// Wakes [`Devices::wait`]; from any thread.
    pub(super) fn waker(&self) -> Waker {
        self.lane.waker()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.ready.is_empty()
    }

    /// Starts a request with the next [`Devices::start_batch`]; exactly one answer follows.
    pub(super) fn submit(&mut self, request: DeviceRequest) {
        let DeviceRequest { io, leaf, op } = request;
        let Some(device) = self.leaves.get(&leaf) else {
            let error = DeviceError::new(DeviceErrorKind::Gone, "the device was not found");
            return self.ready.push((io, Err(error)));
        };
        let (op, request) = match op {
            DeviceOp::Read { offset, len } => {
                let op = Op::Read { len: len as usize };
                (op, Request::Read { offset, len })
            }
            DeviceOp::Write { offset, data } => {
                let durable = false;
                let request = Request::Write {
                    offset,
                    data,
                    durable,
                };
                (Op::Write, request)
            }
            DeviceOp::Flush => (Op::Flush, Request::Flush),
            DeviceOp::Trim { .. } if device.geometry().discard == 0 => {
                let error = DeviceError::new(DeviceErrorKind::Unsupported, "it does not trim");
                return self.ready.push((io, Err(error)));
            }
            DeviceOp::Trim { offset, len } => (Op::Trim, Request::Discard { offset, len }),
        };
        let flight = Flight { io, op };
        let token = self.flights.insert(flight);
        let ticket = Ticket::new(token as u64);
        if let Submitted::Ready(outcome) = device.submit(request, ticket, &mut self.lane) {
            self.flights.remove(token);
            self.ready.push((io, op.judge(outcome)));
        }
    }

    /// Hands what was submitted to the kernel.
    pub(super) fn start_batch(&mut self) {
        self.lane.submit_batch();
    }

    /// Appends what was answered.
    pub(super) fn take(&mut self, answers: &mut Vec<(IoId, DeviceOutcome)>) {
        answers.append(&mut self.ready);
        self.lane.take_completions(&mut self.taken);
        for (token, outcome) in self.taken.drain(..) {
            if let Some(flight) = self.flights.try_remove(token as usize) {
                answers.push((flight.io, flight.op.judge(outcome)));
            }
        }
    }

    /// Sleeps until something is answered, the waker is called, or `until`.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        if self.ready.is_empty() {
            self.lane.wait(until)
        } else {
            Ok(())
        }
    }
}

impl Op {
    /// A device's answer in the engine's words.
    fn judge(self, outcome: Outcome) -> DeviceOutcome {
        match (self, outcome) {
            (Self::Read { len }, Ok(Done::Pages(data))) if data.len() == len => Ok(data),
            (Self::Read { .. }, Ok(_)) => Err(DeviceError::new(
                DeviceErrorKind::Medium,
                "fewer bytes came than were asked for",
            )),
            (_, Ok(_)) => Ok(Pages::new()),
            (op, Err(error)) => Err(op.failed(&error)),
        }
    }

    fn failed(self, error: &BlockError) -> DeviceError {
        let kind = match (error.kind(), self) {
            // What a flush lost is lost wherever it was to lie.
            (BlockErrorKind::Write | BlockErrorKind::Medium, Self::Flush) => {
                DeviceErrorKind::Failed
            }
            (BlockErrorKind::Write | BlockErrorKind::Medium, _) => DeviceErrorKind::Medium,
            (BlockErrorKind::NoSpace, _) => DeviceErrorKind::NoSpace,
            (BlockErrorKind::Gone, _) => DeviceErrorKind::Gone,
            (BlockErrorKind::ReadOnly | BlockErrorKind::Invalid, Self::Trim) => {
                DeviceErrorKind::Unsupported
            }
            (BlockErrorKind::ReadOnly | BlockErrorKind::Invalid, _) => DeviceErrorKind::Failed,
        };
        DeviceError::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_kind() {
        let failed = |op: Op, kind| op.failed(&BlockError::new(kind, "x")).kind;
        let read = Op::Read { len: 4096 };
        assert_eq!(
            failed(read, BlockErrorKind::Medium),
            DeviceErrorKind::Medium
        );
        assert_eq!(
            failed(Op::Write, BlockErrorKind::Write),
            DeviceErrorKind::Medium
        );
        assert_eq!(
            failed(Op::Flush, BlockErrorKind::Write),
            DeviceErrorKind::Failed
        );
        assert_eq!(
            failed(Op::Write, BlockErrorKind::NoSpace),
            DeviceErrorKind::NoSpace
        );
        assert_eq!(failed(read, BlockErrorKind::Gone), DeviceErrorKind::Gone);
        assert_eq!(
            failed(Op::Write, BlockErrorKind::ReadOnly),
            DeviceErrorKind::Failed
        );
        assert_eq!(
            failed(Op::Trim, BlockErrorKind::Invalid),
            DeviceErrorKind::Unsupported
        );
    }

    #[test]
    fn a_short_read_is_no_read() {
        let read = Op::Read { len: 8192 };
        let short = read.judge(Ok(Done::Pages(Pages::zeroes(4096))));
        assert_eq!(short.expect_err("short").kind, DeviceErrorKind::Medium);
        assert_eq!(
            read.judge(Ok(Done::Pages(Pages::zeroes(8192))))
                .map(|p| p.len()),
            Ok(8192)
        );
    }

    #[test]
    fn a_leaf_without_a_device_is_gone() {
        let mut devices = Devices::new(false).expect("a lane");
        devices.submit(DeviceRequest {
            io: IoId(7),
            leaf: LeafId(0),
            op: DeviceOp::Flush,
        });
        let mut answers = Vec::new();
        devices.take(&mut answers);
        assert!(
            matches!(&answers[..], [(IoId(7), Err(error))] if error.kind == DeviceErrorKind::Gone)
        );
        assert!(devices.is_idle());
    }
}

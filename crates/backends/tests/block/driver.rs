//! A small event loop around one lane, used as a real loop uses it: batches, one poll, and no
//! time-outs that hide a lost wake-up.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::lane::{Outcome, Waker};
use block::{BlockDevice, BlockError, Done, Lane, Pages, Request, Submitted, Ticket};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// Way in which a lane reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Uring,
    Pool,
}

/// A loop with one lane on one device.
pub(crate) struct Driver {
    pub(crate) lane: Lane,
    device: Arc<dyn BlockDevice>,
    woken: Arc<OwnedFd>,
    next: u64,
    outcomes: HashMap<u64, Outcome>,
}

impl Driver {
    pub(crate) fn new(device: Arc<dyn BlockDevice>, path: Path) -> Self {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let woken = Arc::new(eventfd(0, flags).expect("an eventfd"));
        let bell = Arc::clone(&woken);
        let waker: Waker = Arc::new(move || {
            rustix::io::write(&*bell, &1u64.to_ne_bytes()).expect("an eventfd takes wake-ups");
        });
        let lane = match path {
            Path::Uring => Lane::new(waker),
            Path::Pool => Lane::without_io_uring(waker),
        };
        Self {
            lane,
            device,
            woken,
            next: 0,
            outcomes: HashMap::new(),
        }
    }

    /// Starts a request, and returns its number for [`Driver::wait`].
    pub(crate) fn start(&mut self, request: Request) -> u64 {
        self.next += 1;
        let token = self.next;
        if let Submitted::Ready(outcome) =
            self.device
                .submit(request, Ticket::new(token), &mut self.lane)
        {
            self.outcomes.insert(token, outcome);
        }
        token
    }

    /// Returns the outcome of a started request.
    pub(crate) fn wait(&mut self, token: u64) -> Outcome {
        let mut taken = Vec::new();
        loop {
            if let Some(outcome) = self.outcomes.remove(&token) {
                return outcome;
            }
            self.lane.submit_batch();
            self.lane.take_completions(&mut taken);
            for (token, outcome) in taken.drain(..) {
                let twice = self.outcomes.insert(token, outcome);
                assert!(twice.is_none(), "request {token} completed twice");
            }
            if !self.outcomes.contains_key(&token) {
                self.sleep();
            }
        }
    }

    fn sleep(&mut self) {
        let limit = Duration::from_secs(30);
        let due = self.lane.next_deadline();
        let sleep = due.map_or(limit, |due| due.saturating_duration_since(Instant::now()));
        let timeout = sleep.min(limit).try_into().expect("a short time");
        let mut fds = vec![PollFd::new(&*self.woken, PollFlags::IN)];
        let ring = self.lane.poll_fd();
        if let Some(ring) = &ring {
            fds.push(PollFd::new(ring, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => assert!(due.is_some(), "a completion without a wake-up was missed"),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => panic!("poll: {errno}"),
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.woken, &mut count);
    }

    /// Runs a request to its end.
    pub(crate) fn run(&mut self, request: Request) -> Outcome {
        let token = self.start(request);
        self.wait(token)
    }

    pub(crate) fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        match self.run(Request::Read { offset, len }) {
            Ok(Done::Pages(pages)) => pages.to_vec(),
            other => panic!("reading {offset}+{len}: {other:?}"),
        }
    }

    pub(crate) fn try_write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        durable: bool,
    ) -> Result<(), BlockError> {
        let data = Pages::from_bytes(bytes);
        self.run(Request::Write {
            offset,
            data,
            durable,
        })
        .map(expect_nothing)
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.try_write(offset, bytes, false)
            .expect("a write succeeds");
    }

    pub(crate) fn flush(&mut self) -> Result<(), BlockError> {
        self.run(Request::Flush).map(expect_nothing)
    }

    pub(crate) fn discard(&mut self, offset: u64, len: u64) {
        self.run(Request::Discard { offset, len })
            .map(expect_nothing)
            .expect("a discard succeeds");
    }

    pub(crate) fn extents(&mut self, offset: u64, len: u64) -> Vec<(u64, bool)> {
        match self.run(Request::Extents { offset, len }) {
            Ok(Done::Extents(runs)) => runs,
            other => panic!("extents of {offset}+{len}: {other:?}"),
        }
    }
}

fn expect_nothing(done: Done) {
    assert!(matches!(done, Done::Nothing), "{done:?}");
}

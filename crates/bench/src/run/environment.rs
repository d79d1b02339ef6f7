//! Time and device as a worker sees them.
//!
//! A worker never reads a clock and never touches a lane itself. So a test with simulated time uses
//! the very same measuring loop: a device of known delay and rate must show exactly these.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::lane::Outcome;
use block::{BlockDevice, Lane, Request, Submitted, Ticket};

/// Time and one device. Times are nanoseconds since the run began.
pub trait Environment {
    /// Returns the present time.
    fn now_ns(&mut self) -> u64;

    /// Starts a request. Returns the outcome of a request that finished at once; otherwise
    /// [`Environment::wait`] delivers it with its token.
    fn submit(&mut self, request: Request, token: u64) -> Option<Outcome>;

    /// Appends finished requests. Sleeps until one has finished, at most until `until_ns`. May
    /// return early with nothing.
    ///
    /// # Errors
    /// The system refuses to wait: the run cannot go on.
    fn wait(&mut self, until_ns: u64, completions: &mut Vec<(u64, Outcome)>) -> io::Result<()>;
}

/// Environment with the real clock and device.
#[derive(Debug)]
pub struct LaneEnvironment<'a> {
    device: Arc<dyn BlockDevice>,
    lane: &'a mut Lane,
    began: Instant,
}

impl<'a> LaneEnvironment<'a> {
    /// Creates an environment for a device through a lane that [`Lane::standing`] made. The run
    /// begins at `began`.
    pub fn new(device: Arc<dyn BlockDevice>, lane: &'a mut Lane, began: Instant) -> Self {
        Self {
            device,
            lane,
            began,
        }
    }
}

impl Environment for LaneEnvironment<'_> {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        // 64 bits of nanoseconds last for 584 years.
        self.began.elapsed().as_nanos() as u64
    }

    #[inline]
    fn submit(&mut self, request: Request, token: u64) -> Option<Outcome> {
        match self.device.submit(request, Ticket::new(token), self.lane) {
            Submitted::Ready(outcome) => Some(outcome),
            Submitted::Pending => None,
        }
    }

    fn wait(&mut self, until_ns: u64, completions: &mut Vec<(u64, Outcome)>) -> io::Result<()> {
        self.lane.submit_batch();
        self.lane.take_finished(completions);
        if !completions.is_empty() {
            return Ok(());
        }
        let until = self.began.checked_add(Duration::from_nanos(until_ns));
        self.lane.wait(until)?;
        self.lane.take_completions(completions);
        Ok(())
    }
}

//! Time and the device as a worker sees them.
//!
//! A worker never looks at a clock and never touches a lane itself, so that the loop that measures
//! is the same in a test where time is simulated: there a device of known delay and rate must show
//! exactly these.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::lane::Outcome;
use block::{BlockDevice, Lane, Request, Submitted, Ticket};

/// Time and one device. Times are nanoseconds since the run began.
pub trait Environment {
    /// The time now.
    fn now_ns(&mut self) -> u64;

    /// Starts a request. An answer is one that is finished; otherwise [`Environment::wait`] brings
    /// it with its token.
    fn submit(&mut self, request: Request, token: u64) -> Option<Outcome>;

    /// Appends what has finished; sleeps until something has, at most until `until_ns`. May come
    /// back early with nothing.
    ///
    /// # Errors
    /// The system refuses to wait: the run cannot go on.
    fn wait(&mut self, until_ns: u64, completions: &mut Vec<(u64, Outcome)>) -> io::Result<()>;
}

/// The real ones.
#[derive(Debug)]
pub struct LaneEnvironment<'a> {
    device: Arc<dyn BlockDevice>,
    lane: &'a mut Lane,
    began: Instant,
}

impl<'a> LaneEnvironment<'a> {
    /// A device through a lane that [`Lane::standing`] made; the run begins at `began`.
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

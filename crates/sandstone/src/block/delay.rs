//! Makes a device slow: a fixed latency, a bounded rate. For tests and demonstrations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{
    BlockDevice, BlockError, Durability, Foreseen, Geometry, Lane, Request, Submitted, Ticket,
    Usage,
};

/// A device behind a delay. Requests are held back before they start, so a flush covers exactly
/// what it would cover without.
#[derive(Debug)]
pub struct DelayDevice {
    inner: Arc<dyn BlockDevice>,
    latency: Duration,
    /// Bytes per second.
    rate: Option<u64>,
    /// When the bytes let through so far will have passed at that rate.
    busy_until: Mutex<Instant>,
}

impl DelayDevice {
    /// Holds each request back for `latency`, and moves at most `rate` bytes per second.
    pub fn new(inner: Arc<dyn BlockDevice>, latency: Duration, rate: Option<u64>) -> Self {
        Self {
            inner,
            latency,
            rate,
            busy_until: Mutex::new(Instant::now()),
        }
    }

    fn deadline(&self, request: &Request) -> Instant {
        let now = Instant::now();
        let earliest = now + self.latency;
        let (Some(rate), Request::Read { .. } | Request::Write { .. }) = (self.rate, request)
        else {
            return earliest;
        };
        let bytes = request.range().map_or(0, |(_, len)| len);
        let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        let mut busy_until = self
            .busy_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *busy_until = now.max(*busy_until) + takes;
        earliest.max(*busy_until)
    }
}

impl BlockDevice for DelayDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn fault(&self) -> Option<String> {
        self.inner.fault()
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if let Err(error) = self.geometry().check(&request) {
            return Submitted::Ready(Err(error));
        }
        lane.submit_later(
            self.deadline(&request),
            Arc::clone(&self.inner),
            request,
            ticket,
        )
    }

    fn reads_in_place(&self) -> bool {
        self.inner.reads_in_place()
    }

    fn has_read_cache(&self) -> bool {
        self.inner.has_read_cache()
    }

    fn foresees(&self) -> bool {
        self.inner.foresees()
    }

    fn foresee(&self, accesses: &[Foreseen]) {
        self.inner.foresee(accesses);
    }

    fn durability(&self) -> Option<Durability> {
        self.inner.durability()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn reopenings(&self) -> u64 {
        self.inner.reopenings()
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        self.inner.usage()
    }

    fn refresh(&self) -> Result<Geometry, BlockError> {
        self.inner.refresh()
    }
}

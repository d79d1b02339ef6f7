//! A wrapper that makes a device slow: a fixed latency, a bounded rate. It serves tests and
//! demonstrations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::layer::Layer;
use super::{BlockDevice, Lane, Request, Submitted, Ticket, clock};

/// A device behind a delay. Requests are held back before they start, so a flush covers the same
/// writes as without the delay.
#[derive(Debug)]
pub struct DelayDevice {
    inner: Arc<dyn BlockDevice>,
    latency: Duration,
    /// Rate in bytes per second.
    rate: Option<u64>,
    /// Time at which the bytes let through so far will have passed at `rate`.
    busy_until: Mutex<Instant>,
}

impl DelayDevice {
    /// Creates a wrapper that holds each request back for `latency`, and moves at most `rate` bytes
    /// per second.
    pub fn new(inner: Arc<dyn BlockDevice>, latency: Duration, rate: Option<u64>) -> Self {
        Self {
            inner,
            latency,
            rate,
            busy_until: Mutex::new(clock::now()),
        }
    }

    fn deadline(&self, request: &Request) -> Instant {
        let now = clock::now();
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

impl Layer for DelayDevice {
    fn beneath(&self) -> &dyn BlockDevice {
        &*self.inner
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
}

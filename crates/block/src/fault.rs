//! A wrapper that makes a device fail as told: by kind, range, count or chance, reproducibly from a
//! seed.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::lane::{Observer, Outcome};
use super::layer::Layer;
use super::statistics::RequestKind;
use super::{BlockDevice, BlockError, BlockErrorKind, Done, Lane, Request, Submitted, Ticket};

/// Fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request fails and has no effect.
    Fail(BlockErrorKind),
    /// A write stops after this many bytes (cut to whole blocks) and fails. Other requests fail at
    /// once.
    Torn(u32),
    /// A write is acknowledged but lost, as from a cache that breaks; flushes fail from then on. A
    /// durable write, and any other request, fails at once.
    Lost,
}

/// Frequency of a fault among the requests that fit its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Each request is struck.
    Always,
    /// One request is struck: the one with this number, counted from 1.
    Nth(u64),
    /// Requests are struck at random, this many in a million.
    PerMillion(u32),
}

/// A fault, and the requests that it strikes.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Kind of the requests to strike; `None` for all.
    pub kind: Option<RequestKind>,
    /// Bytes that the requests to strike must touch; `None` for all requests, flushes included.
    pub range: Option<Range<u64>>,
    /// Frequency of the fault.
    pub when: When,
    /// Fault that happens.
    pub fault: Fault,
}

impl Rule {
    fn fits(&self, kind: RequestKind, range: Option<(u64, u64)>) -> bool {
        let touches = |wanted: &Range<u64>| {
            range.is_some_and(|(start, len)| start < wanted.end && wanted.start < start + len)
        };
        self.kind.is_none_or(|wanted| wanted == kind) && self.range.as_ref().is_none_or(touches)
    }
}

/// A device that fails as its rules say. A failed flush stays failed (see the invariants of
/// [`super`]) until [`FaultDevice::reopen`].
#[derive(Debug)]
pub struct FaultDevice {
    inner: Arc<dyn BlockDevice>,
    state: Mutex<FaultState>,
    flush_failed: AtomicBool,
    torn: Arc<Torn>,
}

#[derive(Debug)]
struct FaultState {
    /// Rules, each with the number of requests that have fitted it.
    rules: Vec<(Rule, u64)>,
    random: u64,
}

impl FaultDevice {
    /// Creates a device without rules, so without faults. `seed` decides the choices of
    /// [`When::PerMillion`].
    pub fn new(inner: Arc<dyn BlockDevice>, seed: u64) -> Self {
        Self {
            inner,
            state: Mutex::new(FaultState {
                rules: Vec::new(),
                random: seed,
            }),
            flush_failed: AtomicBool::new(false),
            torn: Arc::new(Torn),
        }
    }

    /// Adds a rule. If several rules strike at once, the first one added wins.
    pub fn add(&self, rule: Rule) {
        self.lock().rules.push((rule, 0));
    }

    /// Removes all rules. Lost data stays lost.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// Has the effect of opening the device anew: flushes work again.
    pub fn reopen(&self) {
        self.flush_failed.store(false, Ordering::SeqCst);
    }

    fn strike(&self, request: &Request) -> Option<Fault> {
        let (kind, range) = (RequestKind::of(request), request.range());
        let mut state = self.lock();
        let FaultState { rules, random } = &mut *state;
        let mut struck = None;
        for (rule, count) in rules.iter_mut().filter(|(rule, _)| rule.fits(kind, range)) {
            *count += 1;
            let strikes = match rule.when {
                When::Always => true,
                When::Nth(nth) => *count == nth,
                When::PerMillion(share) => next_random(random) % 1_000_000 < u64::from(share),
            };
            if strikes {
                struck = struck.or(Some(rule.fault));
            }
        }
        struck
    }

    fn apply(&self, fault: Fault, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        match (fault, request) {
            (Fault::Fail(kind), request) => self.fail(kind, &request),
            (Fault::Lost, Request::Write { durable: false, .. }) => {
                self.flush_failed.store(true, Ordering::SeqCst);
                Submitted::Ready(Ok(Done::Nothing))
            }
            (
                Fault::Torn(kept),
                Request::Write {
                    offset,
                    data,
                    durable,
                },
            ) => {
                let kept = kept - kept % self.geometry().granularity;
                let kept = (kept as usize).min(data.len());
                if kept == 0 {
                    return Submitted::Ready(Err(injected(BlockErrorKind::Write, Some(offset))));
                }
                let mut ticket = ticket;
                let failed_at = offset + kept as u64;
                ticket.observe(Arc::clone(&self.torn) as Arc<dyn Observer>, failed_at);
                let request = Request::Write {
                    offset,
                    data: data.slice(0..kept),
                    durable,
                };
                match self.inner.submit(request, ticket, lane) {
                    Submitted::Ready(outcome) => {
                        Submitted::Ready(self.torn.completed(failed_at, outcome))
                    }
                    Submitted::Pending => Submitted::Pending,
                }
            }
            (Fault::Torn(_) | Fault::Lost, request) => {
                let read = matches!(request, Request::Read { .. } | Request::Extents { .. });
                let kind = if read {
                    BlockErrorKind::Medium
                } else {
                    BlockErrorKind::Write
                };
                self.fail(kind, &request)
            }
        }
    }

    fn fail(&self, kind: BlockErrorKind, request: &Request) -> Submitted {
        if matches!(request, Request::Flush) {
            self.flush_failed.store(true, Ordering::SeqCst);
        }
        Submitted::Ready(Err(injected(
            kind,
            request.range().map(|(offset, _)| offset),
        )))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layer for FaultDevice {
    fn beneath(&self) -> &dyn BlockDevice {
        &*self.inner
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        if let Err(error) = self.geometry().check(&request) {
            return Submitted::Ready(Err(error));
        }
        if let Some(fault) = self.strike(&request) {
            return self.apply(fault, request, ticket, lane);
        }
        if matches!(request, Request::Flush) && self.flush_failed.load(Ordering::SeqCst) {
            return Submitted::Ready(Err(injected(BlockErrorKind::Write, None)));
        }
        self.inner.submit(request, ticket, lane)
    }

    fn own_lost_writes(&self) -> Option<String> {
        let failed = self.flush_failed.load(Ordering::SeqCst);
        failed.then(|| "an injected flush failed".to_owned())
    }

    fn acknowledge_lost_writes(&self) -> bool {
        self.reopen();
        true
    }
}

/// Observer that turns the success of the first part of a torn write into the failure of the whole.
#[derive(Debug)]
struct Torn;

impl Observer for Torn {
    fn completed(&self, failed_at: u64, outcome: Outcome) -> Outcome {
        outcome.and_then(|_| Err(injected(BlockErrorKind::Write, Some(failed_at))))
    }
}

fn injected(kind: BlockErrorKind, offset: Option<u64>) -> BlockError {
    let error = BlockError::new(kind, "injected fault");
    match offset {
        Some(offset) => error.at(offset),
        None => error,
    }
}

/// Returns the next random number (SplitMix64: small, and good enough to choose victims).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

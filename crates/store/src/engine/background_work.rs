//! Shares of background work: whether one is owed, and when the next one is due.

/// Time between shares of background work while requests are served. With the budget of
/// [`Limits`](super::limits::Limits), the work takes a third of the time.
const WORK_EVERY_US: u64 = 240;
/// Time since the last request during which requests count as being served.
const SERVING_US: u64 = 2_000;

/// Turns of background work between those of requests.
#[derive(Debug, Default)]
pub(super) struct BackgroundWork {
    /// Time of the last request.
    asked_us: Option<u64>,
    /// Time at which background work was last done.
    worked_us: u64,
    /// Whether background work is owed: the last share is long enough ago, and something happened
    /// since.
    is_owed: bool,
}

impl BackgroundWork {
    /// Notes that requests came.
    pub(super) fn note_request(&mut self, now_us: u64) {
        self.asked_us = Some(now_us);
    }

    /// Notes that something happened, so that work is owed if the last share is long enough ago.
    pub(super) fn note_answers(&mut self, now_us: u64) {
        self.is_owed |= now_us >= self.worked_us + WORK_EVERY_US;
    }

    /// Asks for a share of work.
    pub(super) fn owe(&mut self) {
        self.is_owed = true;
    }

    pub(super) fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Begins a share of work.
    pub(super) fn begin(&mut self, now_us: u64) {
        self.worked_us = now_us;
        self.is_owed = false;
    }

    /// Returns the time at which background work was last done.
    pub(super) fn worked_us(&self) -> u64 {
        self.worked_us
    }

    /// Reports whether the last request came less than `within_us` ago.
    pub(super) fn was_asked(&self, now_us: u64, within_us: u64) -> bool {
        self.asked_us
            .is_some_and(|asked| now_us < asked + within_us)
    }

    /// Reports whether requests are being served, between which work waits.
    pub(super) fn is_serving(&self, now_us: u64) -> bool {
        self.was_asked(now_us, SERVING_US)
    }

    /// Returns the time at which the next share is due while requests are served.
    pub(super) fn next_us(&self) -> u64 {
        self.worked_us + WORK_EVERY_US
    }
}

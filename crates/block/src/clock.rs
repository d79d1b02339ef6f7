//! The clock that event loops, lanes and the initiator read.
//!
//! In the program it is the system's monotonic clock. With the feature `simulation`, a thread may
//! set a time of its own: everything on that thread then lives in that time, which moves only when
//! the simulation says so.

use std::time::Instant;

#[cfg(feature = "simulation")]
pub use simulated::set;

/// Returns the time.
#[inline]
pub fn now() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(now) = simulated::time() {
        return now;
    }
    Instant::now()
}

/// Reports whether this thread lives in a time of its own.
#[inline]
pub(crate) fn is_simulated() -> bool {
    #[cfg(feature = "simulation")]
    if simulated::time().is_some() {
        return true;
    }
    false
}

#[cfg(feature = "simulation")]
mod simulated {
    use std::cell::Cell;
    use std::time::Instant;

    thread_local! {
        static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// Sets the time of this thread. With `None` it follows the system again.
    pub fn set(now: Option<Instant>) {
        NOW.set(now);
    }

    pub(super) fn time() -> Option<Instant> {
        NOW.get()
    }
}

#[cfg(all(test, feature = "simulation"))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_simulated_time_stands_still_on_its_thread_alone() {
        let then = Instant::now() + Duration::from_secs(3600);
        set(Some(then));
        assert_eq!((now(), now()), (then, then));
        let other = std::thread::spawn(now).join().expect("it ends");
        assert!(other < then);
        set(None);
        assert!(now() < then);
    }
}

//! Waits of tests: one loop that asks again and again until a deadline, so that no test has its own
//! loop, its own pauses, and its own words at the end.
//!
//! A deadline bounds only how long a failing test takes. No test depends on how long a wait lasts:
//! what must come is waited for, and a sleep that hopes for it is a test that fails on a busy day.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Longest time of a wait, far more than anything needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Shortest pause between two looks, for what comes at once.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause between two looks, so that what takes seconds is not asked for all the time.
const MOST_PAUSE: Duration = Duration::from_millis(50);

/// Waits until a condition holds. `what` says so in words: "the pool is online".
#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    at_most(PATIENCE).until(what, holds);
}

/// Waits until there is something, and returns it.
#[track_caller]
pub fn until_some<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    at_most(PATIENCE).until_some(what, ask)
}

/// Waits until something succeeds, and returns its result. The last error is told at the deadline.
#[track_caller]
pub fn until_ok<T, E: Debug>(what: &str, attempt: impl FnMut() -> Result<T, E>) -> T {
    at_most(PATIENCE).until_ok(what, attempt)
}

/// Looks until what is seen meets a condition, and returns it. What was last seen is told at the
/// deadline.
#[track_caller]
pub fn until_seen<T: Debug>(
    what: &str,
    look: impl FnMut() -> T,
    is_it: impl FnMut(&T) -> bool,
) -> T {
    at_most(PATIENCE).until_seen(what, look, is_it)
}

/// Checks again and again for some time: what must not come has had time to come.
///
/// The check panics by itself. It is also made when the time is over.
#[track_caller]
pub fn throughout(time: Duration, mut check: impl FnMut()) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        check();
        std::thread::sleep(MOST_PAUSE.min(time / 20));
    }
    check();
}

/// Wait with a deadline of its own, for what may truly take longer, or must come sooner.
pub const fn at_most(most: Duration) -> Wait {
    Wait { most }
}

/// Wait that lasts no longer than this.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    most: Duration,
}

impl Wait {
    /// Waits as [`until`].
    #[track_caller]
    pub fn until(self, what: &str, mut holds: impl FnMut() -> bool) {
        let ask = || holds().then_some(()).ok_or(());
        self.repeat(what, ask, |()| String::new());
    }

    /// Waits as [`until_some`].
    #[track_caller]
    pub fn until_some<T>(self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        self.repeat(what, || ask().ok_or(()), |()| String::new())
    }

    /// Waits as [`until_ok`].
    #[track_caller]
    pub fn until_ok<T, E: Debug>(self, what: &str, attempt: impl FnMut() -> Result<T, E>) -> T {
        self.repeat(what, attempt, |error| format!("; last seen: {error:?}"))
    }

    /// Waits as [`until_seen`].
    #[track_caller]
    pub fn until_seen<T: Debug>(
        self,
        what: &str,
        mut look: impl FnMut() -> T,
        mut is_it: impl FnMut(&T) -> bool,
    ) -> T {
        self.until_ok(what, || {
            let seen = look();
            if is_it(&seen) { Ok(seen) } else { Err(seen) }
        })
    }

    /// Repeats an attempt until it succeeds. At the deadline, the last failure becomes a part of
    /// the complaint.
    #[track_caller]
    fn repeat<T, E>(
        self,
        what: &str,
        mut attempt: impl FnMut() -> Result<T, E>,
        tell: impl FnOnce(E) -> String,
    ) -> T {
        let begun = Instant::now();
        loop {
            // A test that was kept from running until the deadline still gets its last look.
            let waited = begun.elapsed();
            match attempt() {
                Ok(done) => return done,
                Err(seen) if waited >= self.most => {
                    panic!("not within {:?}: {what}{}", self.most, tell(seen))
                }
                Err(_) => std::thread::sleep((waited / 10).clamp(LEAST_PAUSE, MOST_PAUSE)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_ends_as_soon_as_it_can_and_returns_what_it_found() {
        let mut looks = 0..;
        until("there were three looks", || looks.next() == Some(2));
        assert_eq!(until_some("a fourth", || looks.next()), 3);
        let even = |number: i32| {
            if number % 2 == 0 {
                Ok(number)
            } else {
                Err(number)
            }
        };
        let mut odd = [5, 7, 8].into_iter();
        assert_eq!(until_ok("an even one", || even(odd.next().unwrap())), 8);
        let seen = until_seen("six", || looks.next().unwrap(), |number| *number == 6);
        assert_eq!(seen, 6);
    }

    #[test]
    #[should_panic(expected = "not within 0ns: the pool is online; last seen: \"FAULTED\"")]
    fn a_wait_in_vain_tells_what_was_last_seen() {
        at_most(Duration::ZERO).until_seen("the pool is online", || "FAULTED", |_| false);
    }

    #[test]
    #[should_panic(expected = "not within 2ms: it ends")]
    fn a_wait_without_anything_to_see_tells_what_it_was_for() {
        at_most(Duration::from_millis(2)).until("it ends", || false);
    }

    #[test]
    #[should_panic(expected = "it came")]
    fn what_must_not_come_is_found_whenever_it_comes() {
        let mut looks = 0;
        throughout(Duration::from_secs(60), || {
            looks += 1;
            assert!(looks < 3, "it came");
        });
    }

    #[test]
    fn the_end_of_a_time_is_looked_at_too() {
        let mut looks = 0;
        throughout(Duration::ZERO, || looks += 1);
        assert_eq!(looks, 1);
    }
}

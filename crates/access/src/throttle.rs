//! Limits on attempts to log in, so that nobody tries many passwords, and a login page never takes
//! the cores of the data path.
//!
//! All attempts together have two a second. An address, and a name, that failed waits: a second
//! after the third failure, and twice as long after each further one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Most attempts a second, of all together.
const PER_SECOND: u32 = 2;
/// Attempts that may come at once after a quiet time.
const BURST: u32 = 6;
/// Failures that have no delay.
const FREE: u32 = 2;
/// Longest wait of an address.
const LONGEST_OF_ADDRESS: Duration = Duration::from_secs(15 * 60);
/// Longest wait of a name. It is short, or else anybody could lock a user out.
const LONGEST_OF_NAME: Duration = Duration::from_secs(30);
/// Time after which failures are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);
/// Most addresses and names that are remembered. Beyond it, the oldest failures are forgotten.
const MOST: usize = 4096;

/// Origin of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Origin {
    Address(IpAddr),
    Name(String),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Duration,
}

/// Limits on attempts. Times are those since the start of the daemon.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Attempts that may come now, in thousandths.
    tokens: u32,
    refilled: Duration,
    failures: HashMap<Origin, Failures>,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            tokens: BURST * 1000,
            refilled: Duration::ZERO,
            failures: HashMap::new(),
        }
    }
}

impl Throttle {
    /// Admits an attempt.
    ///
    /// # Errors
    /// The attempt comes too soon. The error is the time to wait.
    pub(crate) fn admit(
        &mut self,
        from: Option<IpAddr>,
        name: &str,
        now: Duration,
    ) -> Result<(), Duration> {
        let waits = origins(from, name).filter_map(|origin| self.wait(&origin, now));
        if let Some(wait) = waits.max() {
            return Err(wait);
        }
        let passed = now.saturating_sub(self.refilled).as_millis();
        let refill = passed.saturating_mul(PER_SECOND.into());
        let refill = u32::try_from(refill).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(refill).min(BURST * 1000);
        // The rest of a millisecond counts next time. Without it, a flood of attempts would stop
        // the refill for everybody.
        let counted = u64::try_from(passed).unwrap_or(u64::MAX);
        self.refilled = self.refilled.saturating_add(Duration::from_millis(counted));
        match self.tokens.checked_sub(1000) {
            Some(left) => {
                self.tokens = left;
                Ok(())
            }
            None => Err(Duration::from_millis(
                u64::from(1000 - self.tokens).div_ceil(PER_SECOND.into()),
            )),
        }
    }

    /// Notes a failed attempt.
    pub(crate) fn failed(&mut self, from: Option<IpAddr>, name: &str, now: Duration) {
        for origin in origins(from, name) {
            if self.failures.len() >= MOST && !self.failures.contains_key(&origin) {
                self.forget_some(now);
            }
            let failures = self.failures.entry(origin).or_insert(Failures {
                count: 0,
                last: now,
            });
            if now.saturating_sub(failures.last) > FORGOTTEN {
                failures.count = 0;
            }
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
        }
    }

    /// Forgets the failures of an origin that succeeded.
    pub(crate) fn succeeded(&mut self, from: Option<IpAddr>, name: &str) {
        for origin in origins(from, name) {
            self.failures.remove(&origin);
        }
    }

    fn wait(&self, origin: &Origin, now: Duration) -> Option<Duration> {
        let failures = self.failures.get(origin)?;
        let doublings = failures.count.checked_sub(FREE + 1)?;
        let longest = match origin {
            Origin::Address(_) => LONGEST_OF_ADDRESS,
            Origin::Name(_) => LONGEST_OF_NAME,
        };
        let delay = Duration::from_secs(1 << doublings.min(20)).min(longest);
        let end = failures.last + delay;
        end.checked_sub(now).filter(|wait| !wait.is_zero())
    }

    fn forget_some(&mut self, now: Duration) {
        self.failures
            .retain(|_, failures| now.saturating_sub(failures.last) <= FORGOTTEN);
        while self.failures.len() >= MOST {
            let oldest = self
                .failures
                .iter()
                .min_by_key(|(_, failures)| failures.last);
            let Some(oldest) = oldest.map(|(origin, _)| origin.clone()) else {
                return;
            };
            self.failures.remove(&oldest);
        }
    }
}

/// Attempts of unknown authors that may come at once and are noted one by one.
const STRANGERS_AT_ONCE: u32 = 200;
/// Time after which one more of them is noted.
const NEXT_STRANGER: Duration = Duration::from_secs(10);

/// Limit on lines about unknown authors: about 9,000 a day, a small part of the audit log.
#[derive(Debug)]
pub(crate) struct Strangers {
    free: u32,
    refilled: Duration,
    left_out: u64,
}

impl Default for Strangers {
    fn default() -> Self {
        Self {
            free: STRANGERS_AT_ONCE,
            refilled: Duration::ZERO,
            left_out: 0,
        }
    }
}

impl Strangers {
    /// Reports whether an attempt is noted: the number of those before it that were not, or `None`
    /// if it is only counted.
    pub(crate) fn admit(&mut self, now: Duration) -> Option<u64> {
        let passed = now.saturating_sub(self.refilled).as_millis() / NEXT_STRANGER.as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.refilled += NEXT_STRANGER * passed;
        self.free = self.free.saturating_add(passed).min(STRANGERS_AT_ONCE);
        match self.free.checked_sub(1) {
            Some(free) => {
                self.free = free;
                Some(std::mem::take(&mut self.left_out))
            }
            None => {
                self.left_out += 1;
                None
            }
        }
    }
}

/// Returns the origins of an attempt. A host of IPv6 has a whole network of addresses, so they
/// count as one.
fn origins(from: Option<IpAddr>, name: &str) -> impl Iterator<Item = Origin> {
    let network = from.map(|from| match from.to_canonical() {
        IpAddr::V6(it) => {
            let network = it.to_bits() >> 64 << 64;
            IpAddr::V6(network.into())
        }
        v4 => v4,
    });
    let name: String = name.chars().take(64).flat_map(char::to_lowercase).collect();
    let address = network.map(Origin::Address);
    address.into_iter().chain([Origin::Name(name)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn all_together_have_two_a_second() {
        let mut throttle = Throttle::default();
        let mut admitted = 0;
        for tenth in 0..600 {
            let from = address(&format!("10.0.{}.{}", tenth / 250, tenth % 250));
            let now = Duration::from_millis(tenth * 100);
            if throttle.admit(from, &format!("user{tenth}"), now).is_ok() {
                admitted += 1;
            }
        }
        let expected = 60 * PER_SECOND + BURST;
        assert!((expected - 2..=expected).contains(&admitted), "{admitted}");
    }

    #[test]
    fn a_flood_of_attempts_stops_nobody_from_having_two_a_second() {
        let mut throttle = Throttle::default();
        let admitted = (0..60_000_u64).filter(|attempt| {
            let now = Duration::from_micros(attempt * 300);
            throttle.admit(None, &format!("user{attempt}"), now).is_ok()
        });
        let (admitted, expected) = (admitted.count() as u32, 18 * PER_SECOND + BURST);
        assert!((expected - 2..=expected).contains(&admitted), "{admitted}");
    }

    #[test]
    fn an_address_waits_longer_after_each_failure() {
        let mut throttle = Throttle::default();
        let (from, other) = (address("192.0.2.7"), address("192.0.2.8"));
        let mut now = at(100);
        let mut waits = Vec::new();
        for _ in 0..14 {
            if let Err(wait) = throttle.admit(from, "", now) {
                waits.push(wait.as_secs());
                now += wait;
                assert_eq!(throttle.admit(from, "", now), Ok(()), "the wait is over");
            }
            throttle.failed(from, &now.as_secs().to_string(), now);
            throttle.succeeded(None, "");
            now += at(1);
        }
        assert_eq!(waits[..5], [1, 3, 7, 15, 31]);
        assert_eq!(waits.last(), Some(&(LONGEST_OF_ADDRESS.as_secs() - 1)));
        assert_eq!(
            throttle.admit(other, "ann", now),
            Ok(()),
            "another one does not"
        );
        throttle.succeeded(from, "");
        assert_eq!(throttle.admit(from, "ann", now), Ok(()));
    }

    #[test]
    fn many_addresses_do_not_make_more_tries_at_one_name_but_lock_nobody_out() {
        let mut throttle = Throttle::default();
        for try_ in 0..200_u64 {
            let from = address(&format!("10.1.{}.{}", try_ / 250, try_ % 250));
            throttle.failed(from, "Admin", at(try_));
        }
        let wait = throttle.admit(address("10.9.9.9"), "admin", at(200));
        let wait = wait.expect_err("the name waits");
        assert!(wait <= LONGEST_OF_NAME, "{wait:?}");
        assert_eq!(
            throttle.admit(address("10.9.9.9"), "admin", at(200) + wait),
            Ok(())
        );
    }

    #[test]
    fn a_flood_of_strangers_is_counted_and_told_by_the_next_line() {
        let mut strangers = Strangers::default();
        let mut noted = 0;
        for second in 0..86_400 {
            for _ in 0..50 {
                noted += u64::from(strangers.admit(at(second)).is_some());
            }
        }
        let expected = u64::from(STRANGERS_AT_ONCE) + 86_400 / NEXT_STRANGER.as_secs();
        assert!((expected - 2..=expected).contains(&noted), "{noted}");
        let told = strangers.admit(at(86_400 + NEXT_STRANGER.as_secs()));
        assert!(told.is_some_and(|left_out| left_out >= 450), "{told:?}");
        assert_eq!(strangers.admit(at(90_000)), Some(0));
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin() {
        let mut throttle = Throttle::default();
        for host in 0..20 {
            throttle.failed(address(&format!("2001:db8:1:2::{host}")), "", at(1));
            throttle.succeeded(None, "");
        }
        assert!(
            throttle
                .admit(address("2001:db8:1:2::ffff"), "", at(2))
                .is_err()
        );
        assert!(
            throttle
                .admit(address("2001:db8:1:3::1"), "", at(2))
                .is_ok()
        );
        assert!(
            throttle
                .admit(address("::ffff:192.0.2.1"), "", at(2))
                .is_ok()
        );
    }

    #[test]
    fn the_memory_of_failures_is_bounded() {
        let mut throttle = Throttle::default();
        for number in 0..3 * MOST as u64 {
            throttle.failed(None, &format!("user{number}"), at(number));
        }
        assert!(throttle.failures.len() <= MOST);
        let newest = Origin::Name(format!("user{}", 3 * MOST - 1));
        assert!(throttle.failures.contains_key(&newest));
    }
}

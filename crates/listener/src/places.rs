//! Places for connections: how many there are, who has them, and who makes room for others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Bounds;

/// Time after which a peer that takes nothing may lose its place to another.
const STALLED: Duration = Duration::from_secs(5);

/// Peer of a connection, as far as bounds tell one from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Address over TCP. A host of IPv6 has a whole network of addresses, so they count as one.
    Address(IpAddr),
    /// User of this machine, at a unix socket.
    User(u32),
    /// Peer that the kernel does not tell.
    Unknown,
}

impl Origin {
    /// Returns the origin for which a connection counts.
    fn counted(self) -> Self {
        let Self::Address(address) = self else {
            return self;
        };
        Self::Address(match address.to_canonical() {
            IpAddr::V6(it) => IpAddr::V6((it.to_bits() >> 64 << 64).into()),
            v4 => v4,
        })
    }
}

/// Work of a connection.
#[derive(Debug)]
pub(crate) struct Work {
    state: Mutex<State>,
    leave: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Requests whose answers are being made.
    asked: usize,
    /// Answers that are on their way.
    sending: usize,
    /// Whether the peer may take nothing for long.
    may_rest: bool,
    /// Time of the last change, and of the last piece of an answer that the peer had room for.
    since: Instant,
}

/// Reason for which a connection waits, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The peer asks for nothing.
    Idle(Instant),
    /// The peer takes nothing of an answer.
    Stalled(Instant),
    /// The peer waits for this machine, or may rest.
    Works,
}

impl Work {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                asked: 0,
                sending: 0,
                may_rest: false,
                since: Instant::now(),
            }),
            leave: Notify::new(),
        })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        state.since = Instant::now();
    }

    /// Returns what the connection waits for.
    pub(crate) fn rest(&self) -> Rest {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (state.asked, state.sending, state.may_rest) {
            (0, 0, _) => Rest::Idle(state.since),
            (0, _, false) => Rest::Stalled(state.since),
            _ => Rest::Works,
        }
    }

    /// Notes a request.
    pub(crate) fn begin(self: &Arc<Self>) -> Asked {
        self.change(|state| state.asked += 1);
        Asked(Arc::clone(self))
    }
}

/// Request whose answer is being made.
#[derive(Debug)]
pub(crate) struct Asked(Arc<Work>);

impl Asked {
    /// Notes that the answer is on its way.
    pub(crate) fn answered(self, may_rest: bool) -> Sending {
        let work = Arc::clone(&self.0);
        work.change(|state| {
            state.sending += 1;
            state.may_rest |= may_rest;
        });
        Sending(work)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.change(|state| state.asked -= 1);
    }
}

/// Answer that is on its way.
#[derive(Debug)]
pub(crate) struct Sending(Arc<Work>);

impl Sending {
    /// Notes that the peer has room for more.
    pub(crate) fn goes_on(&self) {
        self.0.change(|_| ());
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.change(|state| state.sending -= 1);
    }
}

/// Place of one connection. Dropping it makes it free.
#[derive(Debug)]
pub struct Place {
    pub(crate) work: Arc<Work>,
    number: u64,
    all: Arc<Places>,
}

impl Place {
    /// Waits until the connection has to make room for another.
    pub(crate) async fn taken_back(&self) {
        self.work.leave.notified().await;
    }

    /// Returns the bounds of the listener.
    pub fn bounds(&self) -> &Bounds {
        &self.all.bounds
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.taken().remove(&self.number);
    }
}

/// All places of a listener.
#[derive(Debug)]
pub(crate) struct Places {
    bounds: Bounds,
    taken: Mutex<BTreeMap<u64, (Origin, Arc<Work>)>>,
}

impl Places {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            taken: Mutex::default(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<u64, (Origin, Arc<Work>)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection. If the listener or the origin has none left, the connection
    /// that rests longest gives its own away; `None` if all are at work.
    pub(crate) fn take(self: &Arc<Self>, origin: Origin) -> Option<Place> {
        let origin = origin.counted();
        let mut taken = self.taken();
        let own = taken.values().filter(|(of, _)| *of == origin).count();
        if own >= self.bounds.most_of_origin {
            make_room(&mut taken, |of| of == origin)?;
        } else if taken.len() >= self.bounds.most {
            make_room(&mut taken, |_| true)?;
        }
        let number = taken.last_key_value().map_or(0, |(last, _)| last + 1);
        let work = Work::new();
        taken.insert(number, (origin, Arc::clone(&work)));
        Some(Place {
            work,
            number,
            all: Arc::clone(self),
        })
    }
}

/// Ends the connection that rests longest, among those of some origins. Idle ones come first.
fn make_room(
    taken: &mut BTreeMap<u64, (Origin, Arc<Work>)>,
    of: impl Fn(Origin) -> bool,
) -> Option<()> {
    let candidates = taken.iter().filter(|(_, (origin, _))| of(*origin));
    let resting = candidates.filter_map(|(number, (_, work))| match work.rest() {
        Rest::Idle(since) => Some((false, since, *number)),
        Rest::Stalled(since) if since.elapsed() >= STALLED => Some((true, since, *number)),
        Rest::Stalled(_) | Rest::Works => None,
    });
    let (.., number) = resting.min()?;
    let (_, work) = taken.remove(&number)?;
    work.leave.notify_one();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: usize, most_of_origin: usize) -> Arc<Places> {
        let second = Duration::from_secs(1);
        Places::new(Bounds {
            most,
            most_of_origin,
            idle: second,
            stall: second,
            last_answers: second,
        })
    }

    fn address(text: &str) -> Origin {
        Origin::Address(text.parse().expect("an address"))
    }

    /// Reports whether a connection was told to make room.
    fn must_leave(place: &Place) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = place.taken_back() => true,
                () = std::future::ready(()) => false,
            }
        })
    }

    #[test]
    fn one_origin_never_has_all_places() {
        let places = places(4, 2);
        let one = address("192.0.2.1");
        let (first, second) = (places.take(one).expect("a"), places.take(one).expect("b"));
        let third = places.take(one).expect("c");
        assert!(must_leave(&first) && !must_leave(&second) && !must_leave(&third));
        let _others = [
            places.take(address("192.0.2.2")).expect("d"),
            places.take(Origin::User(7)).expect("e"),
        ];
        assert!(!must_leave(&second), "they had room");
    }

    #[test]
    fn the_connection_that_rests_longest_makes_room_and_one_at_work_never_does() {
        let places = places(2, 2);
        let busy = places.take(address("192.0.2.1")).expect("a place");
        let asked = busy.work.begin();
        let idle = places.take(address("192.0.2.2")).expect("a place");
        let new = places.take(address("192.0.2.3")).expect("a place");
        assert!(must_leave(&idle) && !must_leave(&busy));
        let other = new.work.begin();
        assert!(places.take(address("192.0.2.4")).is_none(), "all work");
        let sending = asked.answered(false);
        assert!(places.take(address("192.0.2.4")).is_none(), "it sends");
        drop(sending);
        let last = places.take(address("192.0.2.4")).expect("a place");
        assert!(must_leave(&busy) && !must_leave(&new) && !must_leave(&last));
        drop((busy, idle, new, last, other));
        assert!(places.taken().is_empty());
    }

    #[test]
    fn a_stream_that_may_rest_is_never_taken_for_a_stalled_one() {
        let work = Work::new();
        assert!(matches!(work.rest(), Rest::Idle(_)));
        let asked = work.begin();
        assert_eq!(work.rest(), Rest::Works);
        let page = asked.answered(false);
        assert!(matches!(work.rest(), Rest::Stalled(_)));
        let stream = work.begin().answered(true);
        assert_eq!(work.rest(), Rest::Works);
        drop((page, stream));
        assert!(matches!(work.rest(), Rest::Idle(_)));
    }

    #[test]
    fn a_network_of_ipv6_and_a_mapped_address_are_one_origin() {
        let of = |text: &str| address(text).counted();
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
    }
}

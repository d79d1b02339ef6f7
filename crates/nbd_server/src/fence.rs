//! The order between clients that leave and clients that go on.
//!
//! A client that loses a connection sends again what was not answered, on a new connection or, as
//! Linux does with several, on one that it has already; then it writes newer data. Of what it sent
//! on the lost one some is at the device, some waits for memory and some is still unread in the
//! socket: none of it may be performed after what came later.
//!
//! The protocol promises nothing of the kind: with CAN_MULTI_CONN a FLUSH covers what was answered,
//! on whatever connection, and of requests that were not answered it says nothing. But who sends
//! again has no other way than to trust that the last one wins.
//!
//! So the first request of a connection, and later each of its changes, waits at a fence until
//! nothing is left of those who had left when it was received. A client closes the lost socket
//! before it sends again, so by then the kernel knows of it, however late the loop of that socket
//! may be: one more poller watches all sockets for just that, and whoever has received something
//! asks it. Where nobody is leaving that is one system call, without a lock, for all that one read
//! has brought. Reads of a connection that has been let in go on: either content is right where a
//! write was not answered. And where the network lost the end of a connection too, nobody here can
//! know of it.
//!
//! Who has left waits only for those who left before, so nobody waits in a circle; and whoever
//! waits does so for those who had left by then, so nobody waits for ever because others keep
//! leaving.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Looks without waiting.
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// A fence all loops share.
#[derive(Debug)]
pub(super) struct Fence {
    /// Watches the sockets of all in the line for clients that close their end. It goes on telling
    /// of one until nothing is left of it: nobody can miss it because another has seen it.
    closed: OwnedFd,
    line: Mutex<Line>,
    /// [`Line::departures`], without the lock.
    departures: AtomicU64,
    /// The first departure after which something is left; `u64::MAX` where there is none.
    first: AtomicU64,
}

/// All connections of which something may come.
#[derive(Debug, Default)]
struct Line {
    next: u64,
    /// So many have left so far.
    departures: u64,
    /// By their numbers: as which one they left.
    places: BTreeMap<u64, Option<u64>>,
}

/// A connection's place in the line, given up with it.
#[derive(Debug)]
pub(super) struct Place {
    fence: Arc<Fence>,
    number: u64,
    /// It has told of its own end: it must not wait for itself.
    left: bool,
}

impl Fence {
    /// Nobody is there yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            closed: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            line: Mutex::default(),
            departures: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
        }))
    }

    /// A place for a client that has just come.
    ///
    /// # Errors
    /// The system cannot watch more sockets.
    pub(super) fn enter(self: &Arc<Self>, socket: impl AsFd) -> io::Result<Place> {
        let mut line = self.line();
        let number = line.next;
        line.next += 1;
        let data = EventData::new_u64(number);
        // HUP and ERR are always told of.
        epoll::add(&self.closed, socket, data, EventFlags::RDHUP)?;
        line.places.insert(number, None);
        Ok(Place {
            fence: Arc::clone(self),
            number,
            left: false,
        })
    }

    /// Whether nothing is left of the first `behind` who left.
    pub(super) fn is_open(&self, behind: u64) -> bool {
        self.first.load(Ordering::Acquire) > behind
    }

    /// Whether somebody's client has closed its end. It only looks: an event that is taken out goes
    /// to the end of the queue, and its order is that in which they closed.
    fn has_somebody_closed(&self) -> bool {
        let mut watched = [PollFd::new(&self.closed, PollFlags::IN)];
        // In doubt the whole look finds out.
        poll(&mut watched, Some(&AT_ONCE)) != Ok(0)
    }

    /// Notes everybody whose client has closed its end, in the order in which they did.
    fn note_who_closed(&self, line: &mut Line) {
        // Whoever is watched has a place: all are told of at once, and stay in order.
        let mut events: Vec<epoll::Event> = Vec::with_capacity(line.places.len());
        let waited = rustix::io::retry_on_intr(|| {
            epoll::wait(&self.closed, spare_capacity(&mut events), Some(&AT_ONCE))
        });
        debug_assert!(waited.is_ok(), "it fails only for a wrong argument");
        for event in events {
            let data = event.data;
            self.depart(line, data.u64());
        }
    }

    /// From now on others wait for this one; once only.
    fn depart(&self, line: &mut Line, number: u64) {
        if let Some(place @ None) = line.places.get_mut(&number) {
            line.departures += 1;
            *place = Some(line.departures);
            self.publish(line);
        }
    }

    /// `first` before `departures`: whoever knows of a departure waits for it.
    fn publish(&self, line: &Line) {
        let first = line.places.values().flatten().min();
        let first = first.copied().unwrap_or(u64::MAX);
        self.first.store(first, Ordering::Release);
        self.departures.store(line.departures, Ordering::Release);
    }

    /// Each change is a single step: it is whole even after a panic elsewhere.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Looks who has left; to be asked after something was received. It comes behind so many of
    /// them: the argument of [`Fence::is_open`].
    pub(super) fn look(&self) -> u64 {
        let fence = &*self.fence;
        if !self.left && !fence.has_somebody_closed() {
            return fence.departures.load(Ordering::Acquire);
        }
        let mut line = fence.line();
        fence.note_who_closed(&mut line);
        let own = line.places.get(&self.number).copied().flatten();
        own.map_or(line.departures, |own| own - 1)
    }

    /// Whether nothing is left of the first `behind` who left.
    pub(super) fn is_open(&self, behind: u64) -> bool {
        self.fence.is_open(behind)
    }

    /// The client of this place sends nothing more.
    pub(super) fn leave(&mut self) {
        self.left = true;
        self.fence.depart(&mut self.fence.line(), self.number);
    }

    /// Nothing of this place will change a block any more; its socket, where it is still open, is
    /// not watched from now on.
    pub(super) fn is_over(&self, socket: Option<impl AsFd>) {
        if let Some(socket) = socket {
            // It may have been done before.
            let _ = epoll::delete(&self.fence.closed, socket);
        }
        let mut line = self.fence.line();
        if line.places.remove(&self.number).is_some() {
            self.fence.publish(&line);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.is_over(None::<&OwnedFd>);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A client's end, the server's, and its place.
    fn client(fence: &Arc<Fence>) -> (UnixStream, UnixStream, Place) {
        let (client, server) = UnixStream::pair().expect("two sockets");
        let place = fence.enter(&server).expect("a place");
        (client, server, place)
    }

    #[test]
    fn who_closed_is_seen_at_once_and_by_all() {
        let fence = Fence::new().expect("a fence");
        let (lost, lost_end, lost_place) = client(&fence);
        let (_one, _one_end, one) = client(&fence);
        let (_two, _two_end, two) = client(&fence);
        let before = one.look();
        assert!(one.is_open(before));
        lost.shutdown(Shutdown::Write).expect("half closed");
        for place in [&one, &two, &one] {
            assert!(!place.is_open(place.look()));
        }
        assert!(one.is_open(before), "what came before waits for nobody");
        // It does not wait for itself.
        assert!(lost_place.is_open(lost_place.look()));
        lost_place.is_over(Some(&lost_end));
        assert!(one.is_open(one.look()) && two.is_open(two.look()));
        drop(lost);
        assert!(one.is_open(one.look()), "once over it is of no interest");
    }

    #[test]
    fn the_end_of_a_tcp_connection_is_seen_too() {
        use std::io::Read as _;
        let fence = Fence::new().expect("a fence");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let lost = std::net::TcpStream::connect(address).expect("a connection");
        let (mut lost_end, _) = listener.accept().expect("a client");
        let _lost_place = fence.enter(&lost_end).expect("a place");
        let (_staying, _staying_end, staying) = client(&fence);
        assert!(staying.is_open(staying.look()));
        drop(lost);
        // Once it has arrived.
        assert_eq!(lost_end.read(&mut [0; 1]).expect("the end"), 0);
        assert!(!staying.is_open(staying.look()));
    }

    #[test]
    fn those_who_left_go_in_the_order_in_which_they_left() {
        let fence = Fence::new().expect("a fence");
        let (first, _first_end, first_place) = client(&fence);
        let (_staying, _staying_end, staying) = client(&fence);
        let (second, _second_end, second_place) = client(&fence);
        // Not in the order in which they came.
        drop(second);
        drop(first);
        let behind = staying.look();
        assert!(second_place.is_open(second_place.look()));
        let after_second = first_place.look();
        assert!(!first_place.is_open(after_second) && !staying.is_open(behind));
        drop(second_place);
        assert!(first_place.is_open(after_second) && !staying.is_open(behind));
        // Who leaves later is in nobody's way.
        let (_third, _third_end, mut third) = client(&fence);
        third.leave();
        let after_first = third.look();
        assert!(!third.is_open(after_first));
        drop(first_place);
        assert!(third.is_open(after_first) && third.is_open(third.look()));
        assert!(staying.is_open(behind) && !staying.is_open(staying.look()));
    }
}
